"""The effects of decisions, performed after their intent is persisted, and what they bring.

`executor` is the entry: Jobs, the run's Secret, copies of recurring tasks, the knowledge base's reading.
"""
