"""What goes out to servers of others, each way once. `clients.http`: bounded HTTP."""
