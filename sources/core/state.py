"""What the polls of a Connection came to: written by the sources process, read by the operator. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from crds import connection

REASONS = ("CredentialsRejected", "Misconfigured", "Unreachable", "KnowledgeBaseAway", "DiskFull", "PollFailed")
"""Why a poll failed: reasons of the condition Ready."""


SWEPT, HELD, BROKEN = "Swept", "TooManyMissing", "SweepFailed"
OUTCOMES = (SWEPT, HELD, BROKEN)
"""Of a sweep: reasons of the condition DeletionsApplied."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The end of the last sweep: `known` items were compared, `missing` ones are not at the source any more, `removed`
    of them leave. `message` says why it broke off. The next one is at `due`; `confirmed` was considered."""

    at: datetime
    due: datetime
    outcome: str = SWEPT
    known: int = 0
    missing: int = 0
    removed: int = 0
    message: str = ""
    confirmed: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """An item of which no task could be made; `stored`: its content is kept, or it can be read again by itself."""

    title: str
    reason: str
    found: datetime
    retry_at: datetime | None
    stored: bool


@dataclass(frozen=True, slots=True)
class Arrival:
    """An item that was stored; `left_out` says what of it was not."""

    title: str
    urn: str
    found: datetime
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workspace:
    """The clone of a Git Connection: `failures` tries in a row failed, the last one with `error`; the next is at
    `retry_at`."""

    state: connection.WorkspaceState
    failures: int = 0
    retry_at: datetime | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What the last polls came to. `failures` in a row; `reason` (CamelCase) and `message` of the last one, "" after a
    success; `rejected`: the source refused the credentials. `items` by state, `failed` the latest of them, `latest`
    those that were stored last; `waiting_since`: the oldest item without a task was found. `retried`, `resynced`: the
    wishes that were done last. `refused`: a sentence about items whose tasks the apiserver refuses, or "". `counted`:
    `items` is as of this poll, with those that have a task counted at `counted_at`; `idle`: none waits or leaves
    (`sources.core.counting`).
    """

    polled_at: datetime | None = None
    succeeded_at: datetime | None = None
    failures: int = 0
    reason: str = ""
    message: str = ""
    rejected: bool = False
    items: Mapping[str, int] | None = None
    cursor: str = ""
    refused: str = ""
    generation: int = 0
    sweep: Sweep | None = None
    failed: tuple[Failed, ...] = ()
    latest: tuple[Arrival, ...] = ()
    waiting_since: datetime | None = None
    retried: str = ""
    resynced: str = ""
    workspace: Workspace | None = None
    counted: bool = False
    counted_at: datetime | None = None
    idle: bool = False


def stored(state: State, generation: int) -> dict[str, Any]:
    """As it is in MongoDB, of a poll of this generation of the Connection."""
    return {
        "polledAt": state.polled_at,
        "succeededAt": state.succeeded_at,
        "failures": state.failures,
        "reason": state.reason,
        "message": state.message,
        "rejected": state.rejected,
        "items": dict(state.items or {}),
        "shown": state.cursor,
        "refused": state.refused,
        "polledGeneration": generation,
        "sweep": None if state.sweep is None else asdict(state.sweep),
        "failed": [asdict(one) for one in state.failed],
        "latest": [{**asdict(one), "left_out": list(one.left_out)} for one in state.latest],
        "waitingSince": state.waiting_since,
        "retried": state.retried,
        "resynced": state.resynced,
        "workspace": None if state.workspace is None else asdict(state.workspace),
        "counted": state.counted,
        "countedAt": state.counted_at,
        "idle": state.idle,
    }


def read(row: Mapping[str, Any]) -> State:
    """Of the document of a Connection in MongoDB."""
    said = row.get("state")
    if said is None:
        return State()
    return replace(
        State(),
        polled_at=said["polledAt"],
        succeeded_at=said["succeededAt"],
        failures=int(said["failures"]),
        reason=said["reason"],
        message=said["message"],
        rejected=bool(said["rejected"]),
        items={key: int(value) for key, value in said["items"].items()},
        cursor=said["shown"],
        refused=said.get("refused", ""),
        generation=int(said["polledGeneration"]),
        sweep=Sweep(**said["sweep"]) if said.get("sweep") else None,
        failed=tuple(Failed(**one) for one in said.get("failed", ())),
        latest=tuple(Arrival(**{**one, "left_out": tuple(one["left_out"])}) for one in said.get("latest", ())),
        waiting_since=said.get("waitingSince"),
        retried=said.get("retried", ""),
        resynced=said.get("resynced", ""),
        workspace=_workspace(said.get("workspace")),
        counted=bool(said.get("counted")),
        counted_at=said.get("countedAt"),
        idle=bool(said.get("idle")),
    )


def _workspace(said: Mapping[str, Any] | None) -> Workspace | None:
    return None if not said else Workspace(**{**said, "state": connection.WorkspaceState(said["state"])})
