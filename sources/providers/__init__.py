"""What is read from each kind of source, and done there: a folder a provider. `table` opens them by type."""
