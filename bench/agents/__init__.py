"""What runs and their agents cost."""
