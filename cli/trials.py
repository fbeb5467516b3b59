"""The Job behind `models --check`: it is made from the release's suspended CronJob, with the rights of the caller."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

from cli import archive, errors, pods
from cli.reading import Object
from cli.session import Session
from crds.errors import JervisError

if TYPE_CHECKING:
    from router.client import trials

LABELS = "app.kubernetes.io/part-of=jervis,jervis.dev/trials=true"
CONTAINER = "trials"
_PAUSE = 1.0
_SECONDS = 600.0
"""For so long a Job may be without a container that runs: an image may have to be pulled."""


def results(session: Session, note: Callable[[str], object]) -> Generator[trials.Result, None, None]:
    """Start a Job and give each result as its log has it; `note` is given what hinders the Job, whenever that changes.

    A Job that is not waited for to its end is deleted. Raises `Unusable` where the release has no such CronJob, and
    `Unavailable` for a Job that fails, that does not begin or end, and that ends without all of its results.
    """
    from router.client import trials

    where = archive.release(session.kube)
    found = session.kube.cron_jobs(where, LABELS)
    if not found:
        raise errors.Unusable(
            f"The release in namespace {where!r} has no CronJob with the labels {LABELS}.",
            field="--check",
            remedy="Upgrade the release with the chart of this version.",
        )
    name = f"{found[0]['metadata']['name']}-{session.identity()}"
    session.kube.create_job(where, _job(found[0], name))
    given, announced = 0, 0
    note = _changes(note)
    patience = _Patience(session, f"The Job {name!r} in namespace {where!r}", note)
    try:
        while True:
            # It is asked before the log is read, which has everything once the Job has ended.
            end = _end(session, where, name)
            pod = next(iter(session.kube.pods(where, f"batch.kubernetes.io/job-name={name}")), None)
            read, expected = 0, 0
            # A stream may end early; the next one begins anew, with what was given already.
            for line in _lines(session, where, pod, note):
                expected += trials.announced(line)
                for result in trials.read(line):
                    read += 1
                    if read > given:
                        given = read
                        yield result
            announced = max(announced, expected)
            if end is not None:
                break
            patience.look(pod, lambda: _hindrance(session, where, name))
            session.sleep(_PAUSE)
    except BaseException:
        # Interrupted or given up: nothing would read the rest.
        try:
            session.kube.delete_job(where, name)
        except JervisError as error:
            note(f"The Job {name!r} goes on: {error.message}")
        raise
    if end["type"] == "Failed":
        why = end.get("message") or end.get("reason")
        raise errors.Unavailable(f"The Job {name!r} in namespace {where!r} failed: {why}.")
    if not announced or given < announced:
        count = f"{given} of {announced} results" if announced else "no results"
        raise errors.Unavailable(f"The log of the Job {name!r} in namespace {where!r} has {count}.")


def _changes(note: Callable[[str], object]) -> Callable[[str], None]:
    """`note`, without what it was given last."""
    last = ""

    def changed(words: str) -> None:
        nonlocal last
        if words != last:
            last = words
            note(words)

    return changed


class _Patience:
    """Ends a wait for a Job of which no container runs. `called` names the Job in sentences."""

    def __init__(self, session: Session, called: str, note: Callable[[str], None]) -> None:
        self._session, self._called, self._note = session, called, note
        self._since = session.clock()

    def look(self, pod: Object | None, hindrance: Callable[[], str]) -> None:
        """`hindrance` gives what hinders a Job that has no pod. Raises `Unavailable` after some minutes."""
        if pod is not None and pods.running(pod, CONTAINER):
            self._since = self._session.clock()
            return
        began = pod is not None and pods.readable(pod, CONTAINER)
        state = "" if began else hindrance() if pod is None else pods.trouble(pod)
        if state:
            self._note(f"The Job waits: {state}")
        if self._session.clock() - self._since > _SECONDS:
            why = "is neither Complete nor Failed" if began else f"has not begun: {state}"
            raise errors.Unavailable(f"{self._called} {why}.")


def _job(cron: Object, name: str) -> Object:
    template = cron["spec"]["jobTemplate"]
    # As `kubectl create job --from`: the Job goes with the release.
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": cron["metadata"]["name"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": template["metadata"]["labels"],
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [{**owner, "uid": cron["metadata"]["uid"]}],
        },
        "spec": template["spec"],
    }


def _lines(session: Session, where: str, pod: Object | None, note: Callable[[str], None]) -> Iterator[str]:
    """The whole lines of the log until its stream ends; none while the container has not run."""
    if pod is None or not pods.readable(pod, CONTAINER):
        return
    rest = b""
    try:
        for piece in session.kube.log(where, pod["metadata"]["name"], CONTAINER, follow=True, tail=None):
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
    except (errors.Unavailable, errors.NotFound) as error:
        note(error.message)


def _hindrance(session: Session, where: str, name: str) -> str:
    """Why the Job has no pod, by its latest warning."""
    try:
        warnings = [event for event in session.kube.events(where, "Job", name) if event.get("type") == "Warning"]
    except errors.Forbidden:
        warnings = []
    latest = max(warnings, key=lambda event: event.get("lastTimestamp") or "", default=None)
    return "it has no pod" if latest is None else f"{latest.get('reason', '')} {latest.get('message', '')}".strip()


def _end(session: Session, where: str, name: str) -> Object | None:
    """The condition with which the Job has ended; None before that. `FailureTarget` is written while its pods end."""
    conditions = session.kube.job(where, name).get("status", {}).get("conditions", ())
    ended = [each for each in conditions if each["type"] in ("Complete", "Failed") and each["status"] == "True"]
    return ended[0] if ended else None
