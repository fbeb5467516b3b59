"""Entity types over HTTP: what a scope's documents are looked through for beside what every extraction knows."""

from __future__ import annotations

from aiohttp import web

from crds import scope
from kb import api, errors, routes
from kb.extract import entity_types, reference
from kb.service.http import answering, body, openapi


class EntityTypes:
    """The routes of every process."""

    def __init__(self, registry: entity_types.Registry) -> None:
        self._registry = registry

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(routes.ENTITY_TYPES_LIST, self.list), (routes.ENTITY_TYPES_PUT, self.put)]

    async def list(self, request: web.Request) -> web.Response:
        """GET /api/v1/entity-types?clientId=..."""
        return await self._listed(body.owner(request))

    async def put(self, request: web.Request) -> web.Response:
        """PUT /api/v1/entity-types"""
        asked = await body.read(request, api.EntityTypesDraft)
        for number, one in enumerate(asked.types):
            meant = reference.meant(one.name)
            if meant != one.name:
                other = f"it means {meant} already" if meant else "no key can begin with it"
                raise errors.Invalid(
                    f"{one.name!r} cannot be a type of your own: {other}",
                    field=f"types.{number}.name",
                    remedy="Give it another name.",
                )
        types = [entity_types.EntityType(one.name, " ".join(one.description.split())) for one in asked.types]
        await self._registry.put(asked.scope, types, asked.by)
        return await self._listed(asked.scope)

    async def _listed(self, where: scope.Scope) -> web.Response:
        found = entity_types.effective(await self._registry.holding(where))
        shown = [
            api.EntityType(name=one.name, description=one.description, scope=owner, by=version.by, at=version.at)
            for owner, version, one in found
        ]
        return answering.json(api.EntityTypes(types=shown))
