"""Liveness, readiness and metrics.

/healthz: the event loop turns. /readyz: everything that requests need answers; otherwise 503 naming each component that
is down and why. The service itself stays up and recovers when they come back, so only /healthz may restart it.

/startedz: its files are open and the whole application answers (before: 503, `kb.service.http.starting`).

/servez: the process belongs into its Service (decision 0077). It says what /readyz says until that was ready once, and
200 from then on: a new pod that cannot reach its stores stops an update, and a pod that has served answers 503 with
Retry-After and a reason during an outage, instead of being taken away with all that needs fewer stores.

What only some requests need is reported and does not decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from aiohttp import web
from prometheus_client import exposition

from crds import errors
from kb import metrics

Check = Callable[[], Awaitable[object]]
_PATIENCE = 4.0


class Health:
    """`checks`: component -> a call that raises `crds.errors.Operational` while it is down.

    Those named in `lenient` are reported and do not decide. `figures` gives the metrics, where several processes share
    the port.
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        meters: metrics.Metrics,
        *,
        lenient: Collection[str] = (),
        figures: Callable[[], Awaitable[bytes]] | None = None,
    ) -> None:
        self._figures = figures
        self._checks = checks
        self._lenient = frozenset(lenient)
        self._meters = meters
        self._served = False

    async def live(self, request: web.Request) -> web.Response:
        """GET /healthz"""
        return web.json_response({"status": "alive"})

    async def started(self, request: web.Request) -> web.Response:
        """GET /startedz"""
        return web.json_response({"status": "started"})

    async def ready(self, request: web.Request) -> web.Response:
        """GET /readyz"""
        reasons = await asyncio.gather(*(self._reason(check) for check in self._checks.values()))
        components = {name: reason or "ok" for name, reason in zip(self._checks, reasons, strict=True)}
        down = sorted(name for name, state in components.items() if state != "ok")
        if self._lenient.issuperset(down):
            return web.json_response({"status": "ready", "components": components, "down": down})
        problem = {
            "code": "unavailable",
            "message": "; ".join(f"{name}: {components[name]}" for name in down),
            "remedy": f"Start or reach: {', '.join(down)}.",
        }
        document = {"status": "waiting", "components": components, "down": down, "error": problem}
        return web.json_response(document, status=503, headers={"Retry-After": "5"})

    async def serves(self, request: web.Request) -> web.Response:
        """GET /servez"""
        if not self._served:
            answer = await self.ready(request)
            if answer.status != 200:
                return answer
            self._served = True
        return web.json_response({"status": "serving"})

    async def meters(self, request: web.Request) -> web.Response:
        """GET /metrics"""
        text = exposition.generate_latest(self._meters.registry) if self._figures is None else await self._figures()
        return web.Response(body=text, headers={"Content-Type": exposition.CONTENT_TYPE_LATEST})

    async def _reason(self, check: Check) -> str | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                await check()
        except errors.JervisError as error:
            return error.message
        except TimeoutError:
            return f"no answer in {_PATIENCE:.0f} s"
        return None
