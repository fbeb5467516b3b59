"""The program of one orchestrator run: a LangGraph that reads a task, gathers evidence, answers and reports an outcome.

I own: the graphs (intake -> evidence -> plan -> follow -> respond -> approve -> finalize; `legacy` and `delegation`
have what lies between for orders and delegations), their checkpoints and fence, the effects ledger, the budgets of a
run, `task_results`, `orchestrator_context`, and the termination message that the operator reads.

Who may call me: no other package imports me. A Kubernetes Job starts `python -m orchestrator_job`.

What I never do: call the Kubernetes API, call a model or the knowledge base except through `router.client` and
`kb.client`, write a file other than the termination message, or decide about the task: I report, the operator decides.

My root is `__main__.py`: it reads `settings.Settings` once, builds, wires, runs. Only `graph` and `checkpoints` import
LangGraph, and only while a run starts.
"""
