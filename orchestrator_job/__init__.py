"""The program of one orchestrator run: a LangGraph that reads a task, gathers evidence, answers and reports an outcome.

I own: the graphs (intake -> evidence -> plan -> follow -> respond -> approve -> finalize, and what lies between
for orders and delegations), their checkpoints and fence, the effects ledger, the budgets of a
run, `task_results`, `orchestrator_context`, and the termination message that the operator reads.

Rooms, of which each may import those behind it: `run` (root, graph, nodes, wiring), `plan`, `agents`, `context`, then
`effects` and `answer`, which do not know each other, `model`, `store`. Programs of their own: `analyze`, `sandbox`,
`transcribe`. What all of them share stands beside them: `errors`, `outcome`, `termination`, `settings`.

Who may call me: no other package imports me. A Kubernetes Job starts `python -m orchestrator_job`.

What I never do: call the Kubernetes API, call a model or the knowledge base except through `router.client` and
`kb.client`, write a file other than the termination message, or decide about the task: I report, the operator decides.

My root is `__main__.py`: it reads `settings.Settings` once, builds, wires, runs. Only `run.graph` and `run.checkpoints`
import LangGraph, and only while a run starts.
"""
