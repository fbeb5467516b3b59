"""What can be asked of a project: its index, files for a text, and an outline of what matters most. Pure."""
