"""Task outcomes as long-term memory: a table decides what is worth it, a model says what was learned.

I own: the table, the prompt and the document (seed 001 "Task Outcome Ingestion"). Who may call me: `kb.service.http`.
"""
