"""Conditions as metav1.Condition defines them: one per type, with the generation they were observed at.

Source: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from crds.model import Model, Time


class Status(StrEnum):
    """Unknown: the state could not be determined."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """One observation about an object."""

    type: Annotated[str, Field(max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$")]
    """What is observed, for example Ready."""
    status: Status
    """True, False or Unknown."""
    reason: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """One CamelCase word for programs."""
    message: Annotated[str, Field(max_length=2048)] = ""
    """One sentence for people; on failure it names the field and the remedy."""
    last_transition_time: Time
    """When status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The metadata.generation that this observation is about."""


def find(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type, or None."""
    return next((c for c in conditions if c.type == type_), None)


def put(conditions: Iterable[Condition], new: Condition) -> tuple[Condition, ...]:
    """Replace or append by type. The transition time is kept while the status stays the same."""
    result: list[Condition] = []
    replaced = False
    for old in conditions:
        if old.type != new.type:
            result.append(old)
            continue
        replaced = True
        kept = old.last_transition_time if old.status == new.status else new.last_transition_time
        result.append(new.model_copy(update={"last_transition_time": kept}))
    return tuple(result if replaced else [*result, new])


def make(type_: str, ok: bool | None, reason: str, message: str, *, now: datetime, generation: int = 0) -> Condition:
    """A condition; `ok` is None when the state could not be determined."""
    status = Status.UNKNOWN if ok is None else Status.TRUE if ok else Status.FALSE
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message[:2048],
        last_transition_time=now.replace(microsecond=0),
        observed_generation=generation,
    )
