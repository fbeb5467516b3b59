"""PendingTask: from New to a terminal phase.

What I own: the status of PendingTasks, the Jobs and Secrets of their runs, and the copies of recurring tasks.

- `cache`, `task_index`, `workloads`, `views`: event handlers and the caches of tasks, Jobs and pods.
- `reconcile`: the loop "observe, decide, persist the intent, perform the effects".
- `phases`, `decide`, `policy/`: the transition table, the chain of policies per phase, one file per phase. Pure.
- `observed`, `decision`, `transitions`: input and output of `decide`; several steps in one write. Pure.
- `slots/`: GPU slots and qualifier places: which tasks hold or wait for one, preemption, reasons of waiting.
- `status_writer`, `failures`: the write with a resourceVersion precondition; reconciliations that end in a bug.
- `effects/`, `job`: effects under deterministic names, so that every crash point replays to the same names.

Who may call me: `controllers.runtime` builds me and passes events; `settings` builds `observed.Limits` and
`job.Template`; `queue_http` reads `slots.wait_reasons`; `gpubackend` makes the offers of `slots.bookings`; `hack.chart`
generates the admission policy from `phases`.

What I never do: mix I/O into a decision, perform an effect before its intent is persisted, write without the lease, or
delete a finished task (`controllers.archive` does).

My root is `reconcile.Reconciler`.
"""
