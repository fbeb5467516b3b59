"""The operator's decisions and their I/O.

I own: the work queue, the leader's lease, the one client of the Kubernetes API (`kube`), the three controllers
(`pendingtask`, `connection`, `gpubackend`), the task memory, the archive of finished tasks, metrics, health and Events.

Who may call me: `operator/main.py`, the composition root of this process. I call `kb.client` and `router.client`
through their doors, MongoDB through `memory.mongo` and `archive.mongo`, and nothing of the Job's insides.

What I never do: decide in a watch handler, take an event's payload as truth over a newer read, write without the
lease, name a Job at random, or read the environment outside `settings`.
"""
