"""A task whose request was answered in its thread, by another document, before it ran. Pure.

The knowledge base says which earlier tasks a document answers (`kb.api.Answered`): a model judges that it does, and the
headers of a mail or the key of an issue say what. The older task is Done with the condition Superseded, in one write.

Only what waits and was never run is ended so. A task that a user created on purpose, one for which a person waits, a
recurring one, and one whose user has just said something stay as they are.
"""

from __future__ import annotations

from controllers.pendingtask import directive
from controllers.pendingtask.decision import Decision, Field, View, clip, condition, to
from controllers.pendingtask.observed import Answered
from controllers.pendingtask.policy.scheduled import is_template
from crds import order, pendingtask
from crds.phases import Phase

CONDITION = "Superseded"
OPEN = frozenset({Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU, Phase.USER_TASK})
"""Phases in which a task waits."""


def open_to_answers(task: pendingtask.PendingTask) -> bool:
    """Whether an answer in its thread ends the task."""
    spec, status = task.spec, task.status
    ordered = spec.type in directive.ORDERED or order.foreground(spec) or is_template(task)
    spoken = len(spec.messages) > status.messages_seen or len(spec.answers) > status.answers_seen
    waits = status.phase in OPEN and status.attempt == 0 and status.dispatch is None
    return waits and not ordered and not spoken and task.metadata.deletion_timestamp is None


def answers(by: pendingtask.PendingTask, task: pendingtask.PendingTask) -> bool:
    """Whether the document of `by` may end `task`: never one of another namespace or client."""
    same = (by.metadata.namespace, by.spec.client_id) == (task.metadata.namespace, task.spec.client_id)
    return same and by.metadata.uid != task.metadata.uid and open_to_answers(task)


def superseded(view: View) -> Decision | None:
    """Done, if an answer was observed."""
    found = view.state.observed
    if not isinstance(found, Answered) or not open_to_answers(view.task):
        return None
    message = f"Answered in its thread by {found.source} (task {found.by}); nothing is left to do."
    fields: dict[str, Field] = {
        "retry": None,
        "user_task": None,
        "scheduled_for": None,
        "result": pendingtask.Result(summary=clip(message)),
    }
    said = condition(view, CONDITION, True, "AnsweredInThread", message[:2048])
    return to(view, Phase.DONE, CONDITION, message, said, fields=fields)
