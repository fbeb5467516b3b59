"""ReadyForQualification with `spec.git`: the task waits until its repository was analyzed, or cannot be. Pure.

`controllers.codeanalysis` makes the Job and writes the condition CodeAnalyzed; its end lets the task go on, whatever it
is. Before that no place at the qualifier is taken.
"""

from __future__ import annotations

from controllers.pendingtask.decision import Decision, View, condition, remark, wait
from crds import conditions, pendingtask


def analyzed(view: View) -> Decision | None:
    """Not yet."""
    if not pendingtask.awaits_analysis(view.task):
        return None
    said = conditions.find(view.task.status.conditions, pendingtask.CODE_ANALYZED)
    if said is not None:
        return wait()
    new = condition(view, pendingtask.CODE_ANALYZED, None, "Waiting", "The repository is analyzed first, in a Job.")
    return remark(view, new, decision=wait())
