"""Finished tasks: archived in MongoDB first, deleted from the cluster later, told of ever after.

I own the collection `task_archive` (one document per task, _id = uid), the label and the deletion of finished
PendingTasks, the removal of their Jobs some time after the end, and the removal of what orchestrator runs left in
MongoDB once a task is long gone, and of the archived task itself after its time. `sweep.plan` is the pure decision;
`finished` and `record` are pure readings of an object; `reconcile` is the loop, on the leader alone; `http` answers
`/api/v1/history`, on every replica, to whom `tickets` lets in; `mongo` is the only module here that knows a driver.

Who may call me: `operator/main.py`, which builds `mongo.Archive`, `reconcile.Archivist` and `http.History`.

What I never do: delete an object whose archived document MongoDB has not just confirmed, touch a task that is not
finished, touch a finalizer, or keep a timer per object.
"""
