"""The program of one orchestrator run: a LangGraph that reads a task, gathers evidence, answers, and says how it ended.

I own: the graph (intake -> evidence -> respond -> approve -> finalize), its checkpoints and fence, the effects
ledger, the budgets of a run, `task_results`, and the termination message that the operator reads.

Who may call me: nobody imports me. A Kubernetes Job starts `python -m orchestrator_job`.

What I never do: talk to the Kubernetes API, to a model or to the knowledge base past `router.client` and `kb.client`,
write a file other than the termination message, or decide what becomes of the task: I report, the operator decides.

My root is `__main__.py`: it reads `settings.Settings` once, builds, wires, runs. LangGraph is imported by `graph` and
`checkpoints` alone, and those two only while a run starts.
"""
