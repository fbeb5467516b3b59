"""/api/v1/connections: which Connections a run may use, and for what.

A namespace may hold those of several clients. A run that names none uses the one of the settings, or else the only one
of its own client that fits; where there are several, it has their names.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from aiohttp import web

from crds import connection
from sources.api import app, gate, routes
from sources.effects import targets, tools, wire

ROUTE = routes.Route(
    "GET", "/api/v1/connections", "The Connections of the run's namespace and scope, and what each can be used for",
    reply=wire.Connections, runs=True, tokens=False,
)  # fmt: skip


class Listing:
    """`finds` gives the Connections of runs."""

    def __init__(self, finds: targets.Targets) -> None:
        self._targets = finds

    @property
    def served(self) -> list[routes.Served]:
        """The route, with its handler."""
        return [(ROUTE, self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        connections = await self._targets.listed(gate.run(request))
        listed = [
            wire.Named(
                name=conn.metadata.name,
                type=conn.spec.type.value,
                uses=uses(conn.spec),
                host=host(conn.spec),
                internal_domains=conn.spec.internal_domains,
            )
            for conn in sorted(connections, key=lambda conn: conn.metadata.name)
        ]
        return app.reply(wire.Connections(connections=tuple(listed)))


_NOT_OWN = frozenset({connection.Type.EMAIL, connection.Type.MEETING})
"""Types whose host may be a provider of all the world, or none."""


def host(spec: connection.Spec) -> str:
    """Of the client's own tracker, wiki or repository; "" for any other type."""
    if spec.type in _NOT_OWN:
        return ""
    try:
        return urlsplit(spec.url).hostname or ""
    except ValueError:
        return ""


def uses(spec: connection.Spec) -> tuple[str, ...]:
    """The effects that are possible at it, and what a run may read through it."""
    effects = [tool.name for tool in tools.TOOLS.values() if spec.type in tool.types]
    if spec.smtp is None:
        effects = [name for name in effects if name != "sendMail"]
    reads = [wire.READ_REPOSITORY] if spec.type is connection.Type.GIT else []
    return (*effects, *reads, *([wire.READ_CHECKS] if spec.type in connection.GIT_HOSTS else []))
