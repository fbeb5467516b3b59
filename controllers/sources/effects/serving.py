"""/api/v1/effects: the routes, the audit line and the metric of an effect.

The line says who did what where, and what became of it: no arguments, no text, no address of a recipient.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

import orjson
from aiohttp import web

from controllers.sources import metrics
from controllers.sources.effects import ledger, performer, tools, wire
from controllers.sources.http import app, gate, problems, routes
from crds import errors

_AGAIN = (409, "The key stands for another effect of the task.")
PERFORM = routes.Route(
    "POST",
    "/api/v1/effects/{tool}",
    f"Act on a Connection, once per key: {', '.join(tools.TOOLS)}",
    body=wire.Request,
    reply=wire.Outcome,
    runs=True,
    tokens=False,
    errors=(_AGAIN,),
)
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
        does: performer.Performer,
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
        return [(PERFORM, self.perform), (OUTCOME, self.outcome)]

    async def perform(self, request: web.Request) -> web.Response:
        """POST /api/v1/effects/{tool}."""
        tool = request.match_info["tool"]
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
