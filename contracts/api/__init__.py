"""What one process answers to another: the shapes alone, without servers and clients."""
