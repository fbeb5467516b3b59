"""What all sources have in common: claims, polls, items, limits, tasks, and how addresses are derived.

I own the port that providers implement (`port`), and import none of them: `sources.__main__` gives `poller` and
`cleanup` what they open and do.
"""
