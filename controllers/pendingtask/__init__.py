"""PendingTask: from New to a terminal phase.

`phases` is the table of transitions. `decide(task, state, now) -> Decision` is pure: an ordered chain of small
policies per phase (`schedule`, `qualify`, `directive`, `dispatch`, `observe`, `waiting`, `finish`). `reconcile` is the
shell around it: persist the intent with a resourceVersion precondition, perform the effect under a deterministic name,
observe, persist. Every crash point replays to the same names.

My root is `reconcile.Reconciler`; only `controllers.runtime` builds one.
"""
