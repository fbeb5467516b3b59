"""An alias, and the port of the registry.

An alias belongs to an owner and holds where that one says (`kb.visibility.governs`): what a project calls its things
does not rename another project's, not even in its group.
Resolution is one look-up and never a chain: a canonical key is not itself an alias, and no alias is a
canonical key (kb page, trap 6).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from crds import scope
from kb import errors, visibility
from kb.graph import model


class State(StrEnum):
    """How far a merge has come. The record comes before the documents that are corrected, so that a crash is seen.

    Merging    resolves already; documents that said the alias may not be repaired yet
    Merged     everything is in place
    Retiring   resolves no more; documents may still have the canonical key
    """

    MERGING = "Merging"
    MERGED = "Merged"
    RETIRING = "Retiring"


@dataclass(frozen=True)
class Alias:
    """`alias` is written, `canonical` is meant; `area` is the type of both.

    `former` are the keys that it meant before: documents may still have them until the record is settled.
    """

    state: State
    owner: scope.Scope
    alias: str
    canonical: str
    area: str
    seen_count: int
    last_seen_at: datetime | None
    created_at: datetime
    created_by: str
    former: tuple[str, ...] = ()


class Registry(Protocol):
    """Raises `kb.errors.Away` when it does not answer."""

    async def resolve(self, owner: scope.Scope, keys: Collection[str]) -> Mapping[str, str]:
        """Alias -> canonical key, for those of `keys` that are an alias for `owner`'s data.

        Where several owners say something, the most specific one counts: project, then group, then client.
        """
        ...

    async def seen(self, owner: scope.Scope, aliases: Collection[str]) -> None:
        """A document said these; counts them."""
        ...

    async def listed(self, viewer: scope.Scope, *, key: str | None = None, limit: int = 200) -> list[Alias]:
        """Aliases that hold for the viewer, by key; with `key` those that lead from or to it."""
        ...

    async def named(self, viewer: scope.Scope, names: Collection[str]) -> Mapping[str, list[str]]:
        """Name -> canonical keys, for those of `names` that are the name of an alias (`kb.graph.model.name_of`)."""
        ...

    async def find(self, owner: scope.Scope, alias: str) -> Alias | None:
        """Exactly this owner's alias of that key."""
        ...

    async def related(self, owner: scope.Scope, key: str) -> list[Alias]:
        """Those that lead from or to `key` and hold together with the owner's somewhere; narrower owners' too."""
        ...

    async def put(self, alias: Alias) -> None:
        """Record; the same owner's alias of that key is replaced. The caller has taken over what that one meant."""
        ...

    async def retire(self, owner: scope.Scope, alias: str) -> Alias | None:
        """Stop resolving exactly this owner's alias; None when there is none. Repeating it finds it again."""
        ...

    async def settle(self, alias: Alias) -> None:
        """The documents are corrected: Merging becomes Merged, a Retiring record goes."""
        ...

    async def pending(self) -> list[Alias]:
        """Every record whose documents may not be repaired yet, of every owner; for resuming after a crash."""
        ...


class Nothing:
    """A registry without any alias, for a knowledge base that keeps none."""

    async def resolve(self, owner: scope.Scope, keys: Collection[str]) -> Mapping[str, str]:
        return {}

    async def seen(self, owner: scope.Scope, aliases: Collection[str]) -> None:
        return None

    async def listed(self, viewer: scope.Scope, *, key: str | None = None, limit: int = 200) -> list[Alias]:
        return []

    async def put(self, alias: Alias) -> None:
        raise errors.Misconfigured("this knowledge base keeps no aliases", field="alias")

    async def retire(self, owner: scope.Scope, alias: str) -> Alias | None:
        return None

    async def settle(self, alias: Alias) -> None:
        return None

    async def pending(self) -> list[Alias]:
        return []

    async def named(self, viewer: scope.Scope, names: Collection[str]) -> Mapping[str, list[str]]:
        return {}

    async def find(self, owner: scope.Scope, alias: str) -> Alias | None:
        return None

    async def related(self, owner: scope.Scope, key: str) -> list[Alias]:
        return []


def effective(found: Collection[Alias]) -> dict[str, str]:
    """What holds when several visible owners name the same alias: the most specific, then the first by its target."""
    ordered = sorted(found, key=lambda one: (_width(one.owner), one.canonical))
    mapping: dict[str, str] = {}
    for one in ordered:
        mapping.setdefault(one.alias, one.canonical)
    return mapping


def by_name(found: Collection[Alias]) -> dict[str, list[str]]:
    """The canonical keys by the names of their aliases; of each alias the one that counts."""
    names: dict[str, list[str]] = {}
    for alias, canonical in sorted(effective(found).items()):
        names.setdefault(model.name_of(alias), []).append(canonical)
    return names


def meet(one: scope.Scope, other: scope.Scope) -> bool:
    """Whether there is data for which the aliases of both owners hold."""
    return visibility.governs(one, other) or visibility.governs(other, one)


def _width(owner: scope.Scope) -> int:
    if owner.project_id:
        return 0
    return 1 if owner.group_id else 2
