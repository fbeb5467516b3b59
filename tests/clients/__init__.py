"""What goes out to servers of others."""
