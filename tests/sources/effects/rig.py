"""A performer against the MongoDB of the tests, whose process may die at any write."""

from __future__ import annotations

import contextlib
import ssl
import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import kube
from contracts.tokens import runtoken
from crds import scope
from kb import client as kb
from sources.api import routes
from sources.ci import serving as ci
from sources.effects import effect_runner, ledger, targets, tools, wire
from sources.providers import table
from sources.providers.git import pushes
from tests import waiting
from tests.sources import parts
from tests.sources.api import serving
from tests.sources.effects.world import NAMESPACE, World
from tests.sources.model import Dying

MINUTES = timedelta(minutes=5)


class Rig:
    """`now` is the clock of the process. Each rig has a task of its own."""

    def __init__(self, world: World, database: Dying, api: kube.Kube, knowledge: kb.Client) -> None:
        self.world, self.database = world, database
        self.now, self.uid = world.now, uuid.uuid4().hex
        self.entries = ledger.Ledger(database)
        tls = ssl.create_default_context()
        self._means = tools.Means(load=knowledge.fetch, tls=tls, plain=True, wall=self.wall, monotonic=lambda: 0.0)
        self.finds = targets.Targets(api)
        self.patience = waiting.PATIENCE
        """Seconds of an effect without a sign of it; `push_by` makes it so."""
        self.push_by(None)

    def checks(self) -> list[routes.Served]:
        """The route of checks of commits."""
        means = ci.Means(self._means.tls, True, self.wall, lambda: 0.0)
        return ci.Ci(self.finds, table.CHECKS, means, parts.meters()).served

    def push_by(self, shared: pushes.Pushes | None) -> None:
        """Go on as a process with these pushes; None: one without clones."""
        self.does = effect_runner.EffectRunner(
            self.entries, self.finds, table.effects(shared), self._means, seconds=self.patience, wall=self.wall
        )

    def wall(self) -> datetime:
        return self.now

    def run(self, where: scope.Scope = serving.ACME, namespace: str = NAMESPACE) -> runtoken.Claims:
        token = serving.run_token(where, namespace=namespace, uid=self.uid)
        return runtoken.Verifier(lambda: serving.KEYS, lambda: serving.NOW, runtoken.SOURCES).verify(token)

    async def effect(self, tool: str, key: str = "k", connection: str = "tracker", **arguments: Any) -> wire.Outcome:
        asked = wire.Request(connection=connection, key=key, arguments=arguments)
        return await self.does.run(self.run(), tool, asked)

    async def found(self, key: str = "k") -> wire.Outcome:
        outcome = await self.entries.find(NAMESPACE, self.uid, key, self.now)
        assert outcome is not None
        return outcome

    def later(self) -> None:
        """So late that every claim has ended, and every host is quiet."""
        self.now += MINUTES
        self.world.now += MINUTES


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Rig]:
    async with (
        parts.database() as store,
        World().serving() as world,
        parts.clients(world.url) as (api, knowledge),
    ):
        rig = Rig(world, Dying(store), api, knowledge)
        await rig.entries.prepare()
        yield rig
