"""Waiting: for a task to end or to need a person, and for the pod of its run."""

from __future__ import annotations

from cli import archive, codes, errors, order, pods, reading
from cli.session import Session
from crds import conditions, labels, phases
from crds.phases import Phase

_PAUSE = 1.0


def ended(session: Session, name: str, seconds: float) -> reading.Object:
    """The task once it is in a terminal phase or asks a person; raises `Timeout` after `seconds`.

    An apiserver that is away for a moment is asked again until then; a deleted task raises `NotFound`.
    """
    deadline = session.clock() + seconds
    while True:
        trouble = ""
        try:
            raw = session.kube.task(name)
            phase = order.phase(reading.task(raw))
            if phase in phases.TERMINAL or phase is Phase.USER_TASK:
                return raw
            state = f"it is {phase.value}"
        except errors.Unavailable as error:
            state, trouble = "the apiserver is away", f": {error.message}"
        if session.clock() >= deadline:
            raise errors.Timeout(f"PendingTask {name!r} has not ended within {seconds:g} s; {state}{trouble}.")
        session.sleep(_PAUSE)


def pod(session: Session, name: str, attempt: int | None, *, follow: bool) -> reading.Object:
    """The pod of the latest run (or of run `attempt`), once its container has run.

    Waits for it only with `follow`, and not for a task that has ended or asks a person; raises `Misplaced` then.
    """
    where = archive.release(session.kube)
    while True:
        task = reading.task(session.kube.task(name))
        phase = order.phase(task)
        # While a run is under way, an earlier run's log is not the one that is meant.
        current = task.status.attempt or None if phase in phases.HOLDS_SLOT else None
        found = pods.choose(session.kube.pods(where, f"{labels.TASK_UID}={task.metadata.uid}"), attempt or current)
        if found is not None and pods.readable(found):
            return found
        if not follow or phase in phases.TERMINAL or phase is Phase.USER_TASK:
            raise _none(task.metadata.name, phase.value, attempt, found)
        session.sleep(_PAUSE)


def code(raw: reading.Object) -> int:
    """0: Done or Completed with success; a run that was rejected is Completed as well, with Succeeded=False."""
    task = reading.task(raw)
    phase = order.phase(task)
    if phase is Phase.USER_TASK:
        return codes.NEEDS_PERSON
    succeeded = conditions.find(task.status.conditions, "Succeeded")
    failed = phase is Phase.ERROR or (succeeded is not None and succeeded.status is conditions.Status.FALSE)
    return codes.REFUSED if failed else 0


def _none(name: str, phase: str, attempt: int | None, found: reading.Object | None) -> errors.Misplaced:
    which = "a run" if attempt is None else f"run {attempt}"
    why = "has no pod" if found is None else f"has not started: {pods.trouble(found)}"
    return errors.Misplaced(
        f"There is no log: {which} of PendingTask {name!r} {why} (phase {phase}).",
        field="--attempt" if attempt is not None else "status.dispatch",
        remedy="Wait for it with -f; pods of ended runs are removed after a while, their result stays in the task.",
    )
