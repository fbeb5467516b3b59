"""A registry in memory that passes the contract of the real one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime

from crds import scope
from kb import identity, visibility
from kb.aliases import registry


class Registry:
    """Implements `kb.aliases.registry.Registry`."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._kept: dict[str, registry.Alias] = {}

    async def resolve(self, owner: scope.Scope, keys: Collection[str]) -> Mapping[str, str]:
        return registry.heard(
            [one for one in self._visible(owner) if one.alias in keys and one.state is not registry.State.RETIRING]
        )

    async def seen(self, owner: scope.Scope, aliases: Collection[str]) -> None:
        for one in self._visible(owner):
            if one.alias in aliases:
                self._keep(replace(one, seen_count=one.seen_count + 1, last_seen_at=self._clock()))

    async def listed(self, viewer: scope.Scope, *, key: str | None = None, limit: int = 200) -> list[registry.Alias]:
        found = [one for one in self._visible(viewer) if key is None or key in (one.alias, one.canonical)]
        return sorted(found, key=lambda one: one.alias)[:limit]

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
        else:
            self._keep(replace(alias, state=registry.State.MERGED))

    async def pending(self) -> list[registry.Alias]:
        return [one for one in self._kept.values() if one.state is not registry.State.MERGED]

    def _visible(self, viewer: scope.Scope) -> list[registry.Alias]:
        return [one for one in self._kept.values() if visibility.sees(viewer, one.owner)]

    def _keep(self, alias: registry.Alias) -> None:
        self._kept[identity.alias(alias.owner, alias.alias)] = alias
