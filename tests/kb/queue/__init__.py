"""The extraction queue."""
