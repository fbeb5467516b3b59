"""What finished runs taught: told to the knowledge base once, from the archive.

I own the field `outcome` of `task_archive`. A task is told about after it has ended and its end is archived, so nothing
that I do, and nothing that the knowledge base does, holds a task up. Whether a task is worth remembering is the
knowledge base's table to say, not mine (docs/decisions/0017). `report` is pure; `reconcile` is the loop; MongoDB is
entered through `controllers.archive.mongo`. My root is operator/main.py.
"""
