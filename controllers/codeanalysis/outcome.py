"""What became of a Job that analyzes code: by its conditions, and by what the containers of its pod reported. Pure.

Each container that speaks leaves one JSON object as its termination message, of at most 4,096 bytes; what the later
ones say is added to what the earlier ones said. What a pod says is bounded here: it has read foreign code. Joern's
container runs it, so of that one only a failure counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic
from pydantic import Field, StringConstraints

from controllers import job_tracker
from controllers.codeanalysis import job
from crds.model import Model
from crds.values import ContentRef

_Count = Annotated[int, Field(ge=0, le=2**31)]
_Word = Annotated[str, StringConstraints(max_length=64)]
_Text = Annotated[str, StringConstraints(max_length=255)]
_CUT = 1000


class Failure(Model):
    """Why something that was asked for is not there. `reason` is one CamelCase word."""

    reason: Annotated[str, StringConstraints(max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$")]
    message: str = ""


class Structure(Model):
    """Counts of the code graph; no `symbols` where it had this commit before."""

    files: _Count | None = None
    symbols: _Count | None = None


class Cpg(Model):
    """Counts of Joern, the languages that it read, and those that it cannot read."""

    methods: _Count = 0
    calls: _Count = 0
    extends: _Count = 0
    uses_type: _Count = 0
    languages: Annotated[tuple[_Word, ...], Field(max_length=32)] = ()
    missing: Annotated[tuple[_Word, ...], Field(max_length=32)] = ()


class Report(Model):
    """What the containers said, together."""

    commit: Annotated[str, StringConstraints(max_length=64, pattern=r"^[0-9a-f]*$")] = ""
    repository: Annotated[str, StringConstraints(max_length=511)] = ""
    branch: _Text = ""
    structure: Structure | None = None
    cpg: Cpg | None = None
    overview: ContentRef | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a Job ended; `failure` is the first thing that went wrong, None if nothing did."""

    report: Report
    failure: Failure | None


def failure(end: job_tracker.JobEnd) -> Failure | None:
    """Why the Job failed; None if it is complete."""
    if end.complete:
        return None
    known = end.reason if end.reason == "DeadlineExceeded" else "JobFailed"
    return Failure(reason=known, message=f"Its Job failed: {end.message or end.reason}"[:_CUT])


def read(pods: Sequence[Mapping[str, Any]], failed: Failure | None) -> Ended:
    """The end of a Job whose pods these are; `failed` is what its conditions say."""
    pod = job_tracker.latest_pod(pods)
    said: dict[str, Any] = {}
    failures: list[Failure] = []
    for name, state in _ends(pod):
        spoken = job_tracker.termination_message(state)
        if name != job.JOERN:
            said |= {key: value for key, value in spoken.items() if value is not None and key != "failure"}
        failures += _failures(name, state, spoken.get("failure"))
    try:
        report = Report.model_validate(said)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        report = Report()
        failures.append(Failure(reason="ReportUnreadable", message=f"{where}: {first['msg']}"))
    # A pod says more than its Job does: that one only counts.
    if failed is not None and (not failures or failed.reason == "DeadlineExceeded"):
        failures.insert(0, failed)
    if not pod and failed is None:
        failures.append(Failure(reason="JobLost", message="Its Job is complete, and its pod is gone."))
    return Ended(report, failures[0] if failures else None)


def waiting(pod: Mapping[str, Any]) -> str:
    """Why the pod does not start, as a sentence; "" if it does, or will."""
    for one in job_tracker.container_statuses(pod):
        found = (one.get("state") or {}).get("waiting") or {}
        if found.get("reason") in _STUCK:
            return f"Container {one['name']}: {found['reason']}: {found.get('message') or ''}"[:_CUT].strip()
    return ""


_STUCK = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
)


def _ends(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for status in job_tracker.container_statuses(pod):
        if state := job_tracker.terminated(status):
            yield str(status["name"]), state


_BY_CONTAINER = {job.CLONE: "CloneFailed", job.JOERN: "JoernFailed"}


def _failures(name: str, state: Mapping[str, Any], spoken: object) -> Iterator[Failure]:
    killed = state.get("reason") == "OOMKilled"
    if killed:
        yield Failure(reason="OutOfMemory", message=f"Container {name} was killed for want of memory.")
    try:
        if spoken is not None and not killed:
            given = Failure.model_validate(spoken)
            # A lone surrogate, which JSON may name, is no UTF-8.
            text = given.message[:_CUT].encode(errors="replace").decode()
            yield given.model_copy(update={"message": text})
            return
    except pydantic.ValidationError:
        pass  # what is not of the form counts as nothing said
    if state.get("exitCode") and not killed:
        reason = _BY_CONTAINER.get(name, "ReportFailed")
        yield Failure(reason=reason, message=f"Container {name} ended with exit code {state['exitCode']}.")
