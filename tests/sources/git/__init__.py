"""Git Connections against real servers of Git."""
