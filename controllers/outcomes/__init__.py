"""Reports the outcomes of finished runs to the knowledge base, once each, from the archive.

I own the field `outcome` of `task_archive`. A task is reported after its end is archived, so neither this package nor
the knowledge base delays a task. The knowledge base decides which tasks are worth remembering (docs/decisions/0017).
`report` is pure; `reconcile` is the loop; MongoDB is accessed through `controllers.archive.mongo`. My root is
operator/main.py.
"""
