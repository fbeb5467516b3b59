"""Liveness (probes of every part that may hang), readiness (names what is missing) and the metrics endpoint.

/healthz   the event loop is on time, every watch received data lately, the lease's thread runs and the API answers it
/readyz    started, the CRDs are there and every watch has begun; names the state of each namespace
/metrics   Prometheus text

Source: operator.md point 6; kopf's own endpoint stays green over dead watches (kopf #1276) and is not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from aiohttp import web
from prometheus_client import exposition

from controllers import metrics
from kube import beats

LAG_LIMIT = 5.0
LAG_PERIOD = 0.5


class Pulse(Protocol):
    """The part of the lease that liveness checks."""

    def alive(self) -> bool:
        """Its thread runs."""

    def silent_for(self) -> float:
        """Seconds since the API last answered it."""


class Health:
    """Collects the facts. `namespaces` answers the state of each that is served; none of them is a problem here."""

    def __init__(
        self,
        answered: beats.Beats,
        pulse: Pulse,
        measured: metrics.Metrics,
        *,
        namespaces: Callable[[], Mapping[str, str]] = dict,
        silence: float,
        monotonic: Callable[[], float],
        gauges: Callable[[], None],
    ) -> None:
        self._beats, self._pulse, self._metrics = answered, pulse, measured
        self._namespaces, self._silence = namespaces, silence
        self._monotonic, self._gauges = monotonic, gauges
        self._tick = monotonic()
        self.starting = "the custom resource definitions are not there yet"
        """Why it is not ready; "" once everything is built."""

    async def tick(self) -> None:
        """Measure how late the loop is, until cancelled."""
        while True:
            before = self._monotonic()
            await asyncio.sleep(LAG_PERIOD)
            self._tick = self._monotonic()
            self._metrics.loop_lag.set(max(0.0, self._tick - before - LAG_PERIOD))

    def problems(self) -> list[str]:
        """Why this process should be restarted; empty while it is fine."""
        found = []
        late = self._monotonic() - self._tick - LAG_PERIOD
        if late > LAG_LIMIT:
            found.append(f"the event loop is {late:.1f} s late")
        if not self._pulse.alive():
            found.append("the lease's thread has ended")
        elif self._pulse.silent_for() > self._silence:
            found.append(f"the Kubernetes API has not answered about the lease for {self._pulse.silent_for():.0f} s")
        if not self.starting:
            for path, age in self._beats.ages().items():
                if age > self._silence:
                    found.append(f"the watch of {path} last received data {age:.0f} s ago")
        return found

    def missing(self) -> list[str]:
        """Why it is not ready."""
        if self.starting:
            return [self.starting]
        return [f"the watch of {path} has not begun" for path in self._beats.silent()]

    def begun(self) -> None:
        """Everything is built; from now on the watches count."""
        self.starting = ""
        self._beats.restart()

    def application(self) -> web.Application:
        """The three endpoints."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._scrape)
        return app

    async def _healthz(self, _: web.Request) -> web.Response:
        return _verdict(self.problems())

    async def _readyz(self, _: web.Request) -> web.Response:
        return _verdict([*self.missing(), *self.problems()], namespaces=dict(self._namespaces()))

    async def _scrape(self, _: web.Request) -> web.Response:
        self._gauges()
        for path, age in self._beats.ages().items():
            self._metrics.watch_age.labels(path).set(age)
        body = exposition.generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": exposition.CONTENT_TYPE_LATEST})


def _verdict(problems: list[str], **more: object) -> web.Response:
    return web.json_response({"ok": not problems, "problems": problems, **more}, status=503 if problems else 200)
