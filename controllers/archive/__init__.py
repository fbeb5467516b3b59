"""Finished tasks: archived in MongoDB first, deleted from the cluster later, answered for ever after.

I own the collection `task_archive` (one document per task, _id = uid), the label and the deletion of finished
PendingTasks, the removal of their Jobs some time after the end, and the removal of what orchestrator runs left in
MongoDB: of archived tasks after their time, of deleted ones soon, and of the archive itself at last. `sweep.plan` is
the pure decision; `finished` and `record` are pure readings of an object; `listing` reads the finished objects;
`reconcile` is the loop, on the leader alone; `retention` is what goes from MongoDB; `clock` is the time by which things
go; `http` answers `/api/v1/history`, on every replica, to those whom `tickets` lets in; `mongo` is the only module here
that knows a driver.

My callers: `controllers.runtime.wiring`, which builds `reconcile.Archivist`, `retention.Retention` and `http.History`.

What I never do: delete an object whose archived document MongoDB has not just confirmed, touch a task that is not
finished, touch a finalizer, keep a timer per object, or delete by a clock that the apiserver's contradicts.
"""
