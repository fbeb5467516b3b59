"""Forgetting a whole scope."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from crds import scope
from kb import wire
from kb.writing.words import Name


class ErasureDraft(wire.Request):
    """Forget all that `scope` owns: a client with its projects and groups, a project, or a group's own data.

    `by` says who decided.
    """

    scope: scope.Scope
    by: Name


class Erasure(wire.Reply):
    """How far it has come. `erased` counts by kind what is gone, `reason` says what it waits for, "" for nothing."""

    id: str
    scope: scope.Scope
    state: Literal["Running", "Done"]
    requested_by: str
    requested_at: AwareDatetime
    finished_at: AwareDatetime | None = None
    erased: dict[str, int] = Field(default_factory=dict)
    reason: str = ""


class Erasures(wire.Reply):
    """The latest first."""

    erasures: list[Erasure]
