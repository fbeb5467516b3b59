"""What became of a Job that analyzes code: by its conditions, and by what the containers of its pod reported. Pure.

Each container that speaks leaves one JSON object as its termination message, of at most 4,096 bytes; what the later
ones say is added to what the earlier ones said. What a pod says is bounded here: it has read foreign code. Joern's
container runs it, so of that one only a failure counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic
from pydantic import Field, StringConstraints

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


def ended(found: Mapping[str, Any]) -> Failure | bool | None:
    """False while the Job runs; None if it is complete; why it failed otherwise."""
    for one in (found.get("status") or {}).get("conditions") or ():
        if one.get("status") != "True":
            continue
        if one.get("type") == "Complete":
            return None
        if one.get("type") == "Failed":
            reason = str(one.get("reason") or "")
            known = reason if reason == "DeadlineExceeded" else "JobFailed"
            return Failure(reason=known, message=f"Its Job failed: {one.get('message') or reason}"[:_CUT])
    return False


def read(pods: Sequence[Mapping[str, Any]], failed: Failure | None) -> Ended:
    """The end of a Job whose pods these are; `failed` is what its conditions say."""
    pod = max(pods, key=lambda one: str(one["metadata"].get("creationTimestamp", "")), default=None)
    said: dict[str, Any] = {}
    failures: list[Failure] = []
    for name, state in _ends(pod or {}):
        spoken = _message(state)
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
    if pod is None and failed is None:
        failures.append(Failure(reason="JobLost", message="Its Job is complete, and its pod is gone."))
    return Ended(report, failures[0] if failures else None)


def waiting(pod: Mapping[str, Any]) -> str:
    """Why the pod does not start, as a sentence; "" if it does, or will."""
    for one in _statuses(pod):
        found = (one.get("state") or {}).get("waiting") or {}
        if found.get("reason") in _STUCK:
            return f"Container {one['name']}: {found['reason']}: {found.get('message') or ''}"[:_CUT].strip()
    return ""


_STUCK = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
)


def _statuses(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _ends(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for one in _statuses(pod):
        state = (one.get("state") or {}).get("terminated")
        if state:
            yield str(one["name"]), state


def _message(state: Mapping[str, Any]) -> dict[str, Any]:
    try:
        spoken = json.loads(state.get("message") or "{}")
    except (ValueError, RecursionError):  # brackets enough for the latter fit into a message
        return {}
    return spoken if isinstance(spoken, dict) else {}


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
