"""What a run is answered: the JSON of /api/v1/ci.

Names, summaries and addresses of checks are what the host and its services wrote: data from outside, bounded here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

COMMIT = r"^[0-9a-f]{7,64}$"
BRANCH = r"^[^\s\x00-\x1f\x7f~^:?*\[\\/.-][^\s\x00-\x1f\x7f~^:?*\[\\]{0,254}$"
REPOSITORY = r"^[^\s?#%\\]{0,500}$"
MOST_CHECKS = 100


class State(StrEnum):
    """Of a check, and of all of them together. NoChecks: nothing checks the commit. Unknown: a part could not be read,
    so that they may have failed."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    RUNNING = "Running"
    WAITING = "Waiting"
    CANCELLED = "Cancelled"
    SKIPPED = "Skipped"
    NO_CHECKS = "NoChecks"
    UNKNOWN = "Unknown"


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class Check(_Wire):
    """`kind` is what the host calls it: check, status, job, pipeline, run. `mayFail`: its failure is not one of all.
    Times are as the host gives them (RFC 3339), "" where it gives none."""

    name: Annotated[str, Field(max_length=200)]
    kind: Annotated[str, Field(max_length=20)]
    state: State
    url: Annotated[str, Field(max_length=1000)] = ""
    started_at: Annotated[str, Field(max_length=40)] = ""
    finished_at: Annotated[str, Field(max_length=40)] = ""
    summary: Annotated[str, Field(max_length=1000)] = ""
    may_fail: bool = False


class Report(_Wire):
    """What the checks of one commit say, those that failed first. `leftOut` counts checks that were found and are not
    here; `unread` says which lists of the host could not be read, or not to their end, and why."""

    connection: str
    repository: str
    branch: str = ""
    commit: str
    state: State
    checks: tuple[Check, ...] = ()
    left_out: int = 0
    unread: tuple[str, ...] = ()


_ORDER = (State.FAILED, State.CANCELLED, State.RUNNING, State.WAITING, State.UNKNOWN, State.SUCCEEDED, State.SKIPPED)


def overall(checks: Sequence[Check], *, whole: bool) -> State:
    """The state of all of them. Where not the `whole` was read, no failure that was found is no success. Pure."""
    found = {one.state for one in checks if not one.may_fail}
    for state in (State.FAILED, State.RUNNING, State.WAITING, State.CANCELLED):
        if state in found:
            return state
    if not whole or State.UNKNOWN in found:
        return State.UNKNOWN
    if not checks:
        return State.NO_CHECKS
    return State.SKIPPED if {one.state for one in checks} == {State.SKIPPED} else State.SUCCEEDED


def ordered(checks: Sequence[Check]) -> list[Check]:
    """What needs a reader first, else as the host has them. Pure."""
    return sorted(checks, key=lambda one: (one.may_fail, _ORDER.index(one.state)))
