"""Jobs that analyze repositories: for PendingTasks with `spec.git`, and for ad-hoc queries of Joern.

What I own: the manifest of such a Job (`job`), what its pod reported (`outcome`), what a task's status says of it
(`status`), and the loop that makes no more Jobs than allowed, none twice, and records each end (`jobs`, `reconcile`,
`queries`).

Who may call me: `controllers.runtime`. What I never do: read a repository, run a query, or fail a task.

Source: seed 001 "Joern CPG Pipeline" (a Kubernetes Job; its failure is never fatal), "Git: initial branch index".
"""
