"""A registry in memory that passes the contract of the real one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime

from crds import scope
from kb import identity, visibility
from kb.aliases import registry
from kb.graph import model


class Registry:
    """Implements `kb.aliases.registry.Registry`."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._kept: dict[str, registry.Alias] = {}

    async def resolve(self, owner: scope.Scope, keys: Collection[str]) -> Mapping[str, str]:
        return registry.effective(
            [one for one in self._governing(owner) if one.alias in keys and one.state is not registry.State.RETIRING]
        )

    async def seen(self, owner: scope.Scope, aliases: Collection[str]) -> None:
        for one in self._governing(owner):
            if one.alias in aliases:
                self._keep(replace(one, seen_count=one.seen_count + 1, last_seen_at=self._clock()))

    async def listed(self, viewer: scope.Scope, *, key: str | None = None, limit: int = 200) -> list[registry.Alias]:
        found = [one for one in self._governing(viewer) if key is None or key in (one.alias, one.canonical)]
        return sorted(found, key=lambda one: one.alias)[:limit]

    async def named(self, viewer: scope.Scope, names: Collection[str]) -> Mapping[str, list[str]]:
        found = [one for one in self._governing(viewer) if model.name_of(one.alias) in names]
        return registry.by_name([one for one in found if one.state is not registry.State.RETIRING])

    async def find(self, owner: scope.Scope, alias: str) -> registry.Alias | None:
        return self._kept.get(identity.alias(owner, alias))

    async def related(self, owner: scope.Scope, key: str) -> list[registry.Alias]:
        mine = [one for one in self._kept.values() if one.owner.client_id == owner.client_id]
        return [one for one in mine if key in (one.alias, one.canonical) and registry.meet(one.owner, owner)]

    async def put(self, alias: registry.Alias) -> None:
        self._keep(alias)

    async def retire(self, owner: scope.Scope, alias: str) -> registry.Alias | None:
        found = self._kept.get(identity.alias(owner, alias))
        if found is not None:
            found = replace(found, state=registry.State.RETIRING)
            self._keep(found)
        return found

    async def settle(self, alias: registry.Alias) -> None:
        if alias.state is registry.State.RETIRING:
            self._kept.pop(identity.alias(alias.owner, alias.alias), None)
        elif self._kept.get(identity.alias(alias.owner, alias.alias)) == alias:
            self._keep(replace(alias, state=registry.State.MERGED, former=()))

    async def pending(self) -> list[registry.Alias]:
        return [one for one in self._kept.values() if one.state is not registry.State.MERGED]

    def _governing(self, viewer: scope.Scope) -> list[registry.Alias]:
        return [one for one in self._kept.values() if visibility.governs(one.owner, viewer)]

    def _keep(self, alias: registry.Alias) -> None:
        self._kept[identity.alias(alias.owner, alias.alias)] = alias
