"""/api/v1/effects: the routes, the audit line and the metric of an effect.

The line says who did what where, and what became of it: no arguments, no text, no address of a recipient.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import partial

import orjson
import pydantic
from aiohttp import web

from crds import errors
from sources import metrics
from sources.api import app, gate, problems, routes
from sources.effects import effect_runner, ledger, tools, wire

_AGAIN = (409, "The key stands for another effect of the task, or the target is not as the request expects.")


def _route(path: str, summary: str, body: type[wire.Request]) -> routes.Route:
    return routes.Route("POST", path, summary, body=body, reply=wire.Outcome, runs=True, tokens=False, errors=(_AGAIN,))


def _request(tool: tools.Tool) -> type[wire.Request]:
    """The body with the tool's own arguments, for the description."""
    name = f"{tool.asks.__name__}Request"
    made: type[wire.Request] = pydantic.create_model(name, __base__=wire.Request, arguments=(tool.asks, ...))
    made.__doc__ = wire.Request.__doc__
    return made


PERFORM = {
    one.name: _route(f"/api/v1/effects/{one.name}", f"{one.about}, once per key", _request(one))
    for one in tools.TOOLS.values()
}
OTHER = _route("/api/v1/effects/{key}", "A tool that there is not: 404 names those that there are", wire.Request)
OUTCOME = routes.Route(
    "GET",
    "/api/v1/effects/{key}",
    "What became of an effect of the run's task",
    reply=wire.Outcome,
    runs=True,
    tokens=False,
)


class Effects:
    """`write` takes the audit lines; `wall` is UTC."""

    def __init__(
        self,
        does: effect_runner.EffectRunner,
        entries: ledger.Ledger,
        measured: metrics.Metrics,
        *,
        write: Callable[[str], object],
        wall: Callable[[], datetime],
    ) -> None:
        self._does, self._entries, self._metrics = does, entries, measured
        self._write, self._wall = write, wall

    def served(self) -> list[routes.Served]:
        """The routes, each with its handler."""
        named = [(route, partial(self.perform, tool)) for tool, route in PERFORM.items()]
        return [*named, (OTHER, self.other), (OUTCOME, self.outcome)]

    async def other(self, request: web.Request) -> web.Response:
        """POST /api/v1/effects/{anything else}."""
        return await self.perform(request.match_info["key"], request)

    async def perform(self, tool: str, request: web.Request) -> web.Response:
        """POST /api/v1/effects/{tool}."""
        asked = await app.read(request, wire.Request)
        said = "Failed"
        try:
            outcome = await self._does.run(gate.run(request), tool, asked)
            said = outcome.state.value
        except problems.Conflict:
            said = "Conflict"
            raise
        except errors.Permanent:
            said = "Refused"
            raise
        except errors.Operational:
            said = "Unavailable"
            raise
        finally:
            self._record(request, tool if tool in tools.TOOLS else "unknown", asked, said)
        return app.reply(outcome)

    async def outcome(self, request: web.Request) -> web.Response:
        """GET /api/v1/effects/{key}."""
        run, key = gate.run(request), request.match_info["key"]
        found = None
        if re.match(wire.KEY, key):
            found = await self._entries.find(run.namespace, run.task_uid, key, self._wall())
        if found is None:
            raise problems.NotFound("no effect of this task has that key", field="key")
        return app.reply(found)

    def _record(self, request: web.Request, tool: str, asked: wire.Request, said: str) -> None:
        self._metrics.effects.labels(tool, said).inc()
        run = gate.run(request)
        line = {
            "event": "audit",
            "timestamp": self._wall().isoformat(),
            "action": "effect",
            "caller": {"kind": "run", "name": gate.caller(request).name},
            "scope": run.scope.model_dump(by_alias=True),
            "tool": tool,
            "target": f"{run.namespace}/{asked.connection}",
            "key": asked.key,
            "outcome": said,
        }
        self._write(orjson.dumps(line).decode())
