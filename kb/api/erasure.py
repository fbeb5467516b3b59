"""Forgetting a whole scope."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from contracts.api import message
from crds import scope
from kb.api.words import Name


class ErasureDraft(message.Request):
    """Forget all that `scope` owns: a client with its projects and groups, a project, or a group's own data.

    `by` says who decided.
    """

    scope: scope.Scope
    by: Name


class Erasure(message.Reply):
    """How far it has come. `erased` counts by kind what is gone, `reason` says what it waits for, "" for nothing."""

    id: str
    scope: scope.Scope
    state: Literal["Running", "Done"]
    requested_by: str
    requested_at: AwareDatetime
    finished_at: AwareDatetime | None = None
    erased: dict[str, int] = Field(default_factory=dict)
    reason: str = ""


class Place(message.Reply):
    """What can hold text of a scope: a Process, until it ends, or one with Files of its own, until they are gone."""

    id: str
    kind: Literal["Process", "Files"]
    name: str
    seen_at: AwareDatetime


class Places(message.Reply):
    """All that erasures wait for."""

    places: list[Place]


class PlaceDraft(message.Request):
    """The files of the place `id` are gone for good, so erasures need not wait for it. `by` says who decided."""

    id: Name
    by: Name


class Erasures(message.Reply):
    """The latest first."""

    erasures: list[Erasure]
