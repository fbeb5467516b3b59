"""Names that mean other names."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, StringConstraints

from contracts.api import message
from crds import scope
from kb.api.words import Name


class Merge(message.Request):
    """`alias` and `canonical` are keys of nodes (`user:john`); `by` says who decided."""

    scope: scope.Scope
    alias: Name
    canonical: Name
    by: Annotated[str, StringConstraints(max_length=200)] = ""
    across_types: bool = False


class Alias(message.Reply):
    """An alias of the registry. `state` is Merging until every document that says it is repaired."""

    scope: scope.Scope
    alias: str
    canonical: str
    area: str
    state: str
    seen_count: int
    last_seen_at: AwareDatetime | None = None
    created_at: AwareDatetime
    created_by: str


class MergeReply(message.Reply):
    """`documents` are put together again by the queue, so that old and new knowledge agree."""

    alias: str
    canonical: str
    documents: int


class Aliases(message.Reply):
    """Visible aliases in order of their keys."""

    aliases: list[Alias]


class Candidate(message.Reply):
    """Two nodes that may be one: `likeness` of their names is between 0 and 1. Nothing is merged for it."""

    key: str
    other: str
    likeness: float


class Candidates(message.Reply):
    """Best first."""

    candidates: list[Candidate]
