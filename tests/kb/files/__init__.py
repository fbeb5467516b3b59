"""Files and images."""
