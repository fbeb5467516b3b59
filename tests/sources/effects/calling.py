"""A sources process that may be killed, and the calls of a run to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import orjson

from contracts.tokens import keyring
from crds import connection, scope
from sources import client
from sources.core import assignments
from tests import ports, waiting
from tests.sources import parts, process
from tests.sources.api import serving
from tests.sources.effects.world import World


class Place:
    """A sources process and its client, which is a run's of `uid`. `settings` go to the process."""

    def __init__(self, world: World, folder: Path, database: Any, **settings: object) -> None:
        self.settings, self.database = settings, database
        self.world, self._folder, self.uid = world, folder, uuid.uuid4().hex
        self.port, self.log, self._number = ports.free(), folder / "log", 0
        (folder / "keys").mkdir()
        (folder / "keys" / "signing").write_text("k" * 64)
        self._keys = keyring.Keyring(folder / "keys", lambda: 0.0)()
        self.process: process.Sources | None = None

    async def start(self) -> process.Sources:
        self._number += 1
        self.log = self._folder / f"log-{self._number}"
        self.process = process.Sources(
            self.log, KUBECONFIG=self.world.kubeconfig(self._folder), KB_URL=self.world.url, API_HOST="127.0.0.1",
            API_PORT=self.port, RUN_TOKEN_KEYS=self._folder / "keys", MONGODB_DATABASE=self.database.name,
            MONGODB_URI=os.environ["JERVIS_TEST_MONGODB_URI"], **{"EFFECT_SECONDS": 20, **self.settings},
        )  # fmt: skip
        await asyncio.to_thread(self.process.ready)
        return self.process

    def token(self, where: scope.Scope = serving.ACME) -> str:
        return serving.run_token(where, uid=self.uid, now=datetime.now(UTC), keys=self._keys)

    @contextlib.asynccontextmanager
    async def calls(self, **more: Any) -> AsyncIterator[client.Client]:
        async with httpx.AsyncClient(trust_env=False, timeout=waiting.PATIENCE) as http:
            yield client.Client(f"http://127.0.0.1:{self.port}", http, lambda: self.token(**more))

    async def effect(self, tool: str, connection: str, arguments: Mapping[str, Any], key: str = "k") -> client.Outcome:
        """Asked for until there is an outcome, as a run does."""
        async with self.calls() as asked:
            while True:
                try:
                    return await asked.effect(tool, connection, key, arguments)
                except client.Unavailable:
                    await asyncio.sleep(0.1)

    async def rows(self, *, earlier: bool = False) -> list[dict[str, Any]]:
        """The ledger; `earlier`: as if the minutes went by that a claim lasts and a target needs to be quiet."""
        ledger = self.database["source_effects"]
        found: list[dict[str, Any]] = await ledger.find({}).to_list(None)
        for row in found if earlier else ():
            moved = {name: row[name].replace(year=2020) for name in ("until", "sentAt") if row.get(name)}
            if moved:
                await ledger.update_one({"_id": row["_id"]}, {"$set": moved})
        return found

    def audit(self) -> list[dict[str, Any]]:
        lines = [line for line in self.log.read_text().splitlines() if '"event":"audit"' in line]
        return [orjson.loads(line) for line in lines]


@contextlib.asynccontextmanager
async def placed(
    world: World, folder: Path, wants: connection.Connection | None = None, **settings: object
) -> AsyncIterator[Place]:
    """Started, and gone afterwards with its database; `wants` is a Connection that it polls."""
    async with parts.database() as store:
        if wants is not None:
            assigned = assignments.Assignments(store)
            await assigned.prepare()
            await assigned.want(wants)
        place = Place(world, folder, store, **settings)
        try:
            await place.start()
            yield place
        finally:
            if place.process is not None and place.process.process.poll() is None:
                place.process.kill()
