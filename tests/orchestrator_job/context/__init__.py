"""The hierarchical context: what is kept of it, how long, and what later steps see."""
