"""What finished runs taught: what is told of a task, and when."""
