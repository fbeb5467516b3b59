"""What all sources have in common: claims, polls, items, limits, tasks. Knows providers by `port` alone."""
