"""One run: its root, its graph and nodes, the wiring of both, checkpoints, drain, and what ends a round.

I may import every other room; none imports me.
"""
