"""Start and stop: probes first, then the Lease, then all that is there is read once, then everybody works."""

from __future__ import annotations

import asyncio
import time

import structlog
from aiohttp import web

from controllers import health, kube, settings, stream, watches
from controllers.archive import http as history
from controllers.archive import tickets
from controllers.runtime import collections, crew, outside, parts
from crds import errors

log = structlog.get_logger("operator")

KINDS = {"pendingtasks", "connections", "gpubackends"}
RETRY_SECONDS = 2.0


class Runtime:
    """Everything that lives as long as the process; built inside the event loop. `hearer` takes the events in."""

    def __init__(self, config: settings.Settings, hearer: collections.Hearer) -> None:
        monotonic = time.monotonic
        self.config = config
        self.outside = outside.Outside(config, acquired=lambda: self.parts.lead())
        self.parts = parts.Parts(config, self.outside)
        beats = watches.Beats(monotonic)
        self._hearer = hearer
        self._streams = collections.streams(config, self.outside, self.parts, beats, self._heeding)
        self._health = health.Health(
            beats,
            self.outside.lease,
            self.outside.metrics,
            expected=[one.path for one in self._streams],
            silence=config.watch_silence_seconds,
            monotonic=monotonic,
            gauges=self.parts.gauges,
        )
        self._probes = web.AppRunner(self._health.application(), access_log=None)
        door = tickets.Door(self.outside.api.review, config.history_account, clock=monotonic)
        self._history = web.AppRunner(history.History(self.outside.archive, door).application(), access_log=None)
        self._crew = crew.Crew(outside.die)

    async def start(self) -> None:
        """Answer probes, compete for the lease, and return once the custom resources are there and have been read."""
        config = self.config
        await self._probes.setup()
        await web.TCPSite(self._probes, config.metrics_host, config.metrics_port).start()
        await self._history.setup()
        await web.TCPSite(self._history, config.history_host, config.history_port).start()
        self._crew.hire(self._health.tick(), "loop lag")
        self.outside.lease.start()
        for step in (self._served, self._read):
            while not await step():  # noqa: ASYNC110  # what is awaited happens in the cluster, not in this loop
                await asyncio.sleep(RETRY_SECONDS)
        self._staff()
        self._health.begun()
        log.info("operator started", namespaces=config.namespaces)

    async def stop(self) -> None:
        """Stop writing, hand the lease over, close. What was under way is taken up again by the next leader."""
        await self._crew.dismiss()
        await self.parts.qualifier.close()
        await self.parts.poster.finish()
        await self.outside.close()
        await self._history.cleanup()
        await self._probes.cleanup()
        log.info("operator stopped")

    def _staff(self) -> None:
        """Those who wait for the lease do so themselves."""
        config, hire, acting = self.config, self._crew.hire, self.parts
        for number in range(2):
            hire(acting.poster.run(), f"events {number}")
        hire(acting.connections.work(), "connections")
        hire(acting.archivist.work(), "archive")
        if config.outcomes:
            hire(acting.reporter.work(), "outcomes")
        for number in range(4):
            hire(acting.backends.work(), f"backends {number}")
        hire(acting.users.run(), "user activity")
        if config.reserve_gpu:
            hire(acting.reservation.run(), "reservation")
        hire(acting.orphans.run(), "orphans")
        for one in self._streams:
            hire(one.run(), f"watch of {one.path}")
        for number in range(config.workers):
            hire(acting.tasks.work(), f"tasks {number}")

    async def _served(self) -> bool:
        """Are our kinds served? Says what is missing otherwise."""
        try:
            absent = KINDS - await self.outside.api.discover(kube.TASKS)
        except errors.JervisError as error:
            self._health.starting = error.message
            return False
        if absent:
            self._health.starting = f"no custom resource definitions for {', '.join(sorted(absent))}; apply crds/*.yaml"
        return not absent

    async def _read(self) -> bool:
        """Take in all that is there, once and in full, before anything acts.

        A worker that has seen one page of the tasks knows neither who comes first nor which slots are taken.
        """
        begun = time.monotonic()
        self._health.starting = "the objects that are there already are being read"
        try:
            for one in self._streams:
                await one.read()
        except errors.JervisError as error:
            self._health.starting = f"the objects cannot be listed: {error.message}"
            return False
        log.info("objects read", seconds=round(time.monotonic() - begun, 3))
        return True

    def _heeding(self, kind: collections.Kind) -> stream.Heard:
        """Nothing is written under a lower epoch than the one that an object carries."""
        hear, heed = self._hearer(kind), self.outside.lease.heed

        def heard(event: str, raw: kube.Object) -> None:
            heed((raw.get("status") or {}).get("leaderEpoch") or 0)
            hear(event, raw)

        return heard
