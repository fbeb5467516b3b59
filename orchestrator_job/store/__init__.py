"""What a run keeps and where: the state of its graph, task memory, artifacts, the fence, MongoDB.

I own: the types that a checkpoint has (`graph_state`, `delegation_models`, `delegation_progress`), the task memory, and
the only module that imports the driver of MongoDB (`mongo`). Every room above writes under `fence`. I import no other
room.
"""
