"""Commands of agents in Jobs of their own: the record of each in MongoDB says what is wanted, a Job does it.

I own: the Job (`job`, pure), what becomes of the records (`store`), and bringing the two together (`reconcile`). My
callers: `controllers.runtime.wiring`. What I never do: show the command a token, an address, or the files of another.
The containers beside the command are `orchestrator_job.sandbox`. Source: docs/runs.md "Commands in a sandbox".
"""
