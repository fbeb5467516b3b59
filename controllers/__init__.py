"""The operator's decisions and their I/O.

What I own: the work queue, the three controllers (`pendingtask`, `connection`, `gpubackend`), the task memory, the
archive of finished tasks, the reports of outcomes, the groups of projects, metrics, health, Events, and the HTTP API of
queue and history.

Who may call me: `operator/main.py`, the composition root of this process. I call the Kubernetes API through `kube`, the
other services through `kb.client` and `router.client`, MongoDB through `memory.mongo` and `archive.mongo`; I import
nothing of the Job.

What I never do: decide in an event handler, prefer an event's payload to a newer read, write without the lease, name a
Job at random, or read the environment outside `settings`.
"""
