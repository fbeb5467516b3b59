"""The memories beside knowledge: of a task, of the last days, and of how things are done.

I own: the reading side of `task_memory` and its structured data, `session_memory` (its format is shared with the Job's
finalize step) and `procedures`. Who may call me: `kb.service.http`. No model is asked here.
"""
