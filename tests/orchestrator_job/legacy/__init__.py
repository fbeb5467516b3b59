"""The legacy graph: which node follows which, what is read of a model's goals, and whole runs of each category."""
