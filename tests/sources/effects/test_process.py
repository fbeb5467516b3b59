"""The process itself, killed with SIGKILL in the middle of a mail, and its client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import orjson
import pymongo
import pytest

from controllers.sources import client
from crds import keyring, scope
from tests import ports
from tests.controllers.notices import smtp
from tests.sources import process
from tests.sources.api import serving
from tests.sources.effects.world import World

pytestmark = pytest.mark.services
MAIL = {"to": ["a@example.com"], "subject": "S", "text": "T"}


class Place:
    """A sources process and its client, which is a run's of `uid`."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self._folder, self.uid = world, folder, uuid.uuid4().hex
        self.port, self.log, self._number = ports.free(), folder / "log", 0
        (folder / "keys").mkdir()
        (folder / "keys" / "signing").write_text("k" * 64)
        self._keys = keyring.Keyring(folder / "keys", lambda: 0.0)()
        self.database = f"jervis_effects_process_{os.getpid()}"
        self.process: process.Sources | None = None

    async def start(self) -> process.Sources:
        self._number += 1
        self.log = self._folder / f"log-{self._number}"
        self.process = process.Sources(
            self.log, KUBECONFIG=self.world.kubeconfig(self._folder), KB_URL=self.world.url, API_HOST="127.0.0.1",
            API_PORT=self.port, RUN_TOKEN_KEYS=self._folder / "keys", MONGODB_DATABASE=self.database,
            MONGODB_URI=os.environ["JERVIS_TEST_MONGODB_URI"], EFFECT_SECONDS=1.5,
        )  # fmt: skip
        await asyncio.to_thread(self.process.ready)
        return self.process

    def token(self, where: scope.Scope = serving.ACME) -> str:
        return serving.run_token(where, uid=self.uid, now=datetime.now(UTC), keys=self._keys)

    @contextlib.asynccontextmanager
    async def calls(self, **more: Any) -> AsyncIterator[client.Client]:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            yield client.Client(f"http://127.0.0.1:{self.port}", http, lambda: self.token(**more))

    async def mail(self, key: str = "k") -> client.Outcome:
        """Asked for until there is an outcome, as a run does."""
        async with self.calls() as asked:
            while True:
                try:
                    return await asked.effect("sendMail", "mail", key, MAIL)
                except client.Unavailable:
                    await asyncio.sleep(0.1)

    def audit(self) -> list[dict[str, Any]]:
        lines = [line for line in self.log.read_text().splitlines() if '"event":"audit"' in line]
        return [orjson.loads(line) for line in lines]


@contextlib.asynccontextmanager
async def place(folder: Path, box: smtp.Box) -> AsyncIterator[Place]:
    async with World().serving() as world:
        world.connect(
            "mail", type="Email", url="imap://mail.example.com",
            smtp={"url": f"smtp://127.0.0.1:{box.port}", "from": "team@example.com"},
        )  # fmt: skip
        made = Place(world, folder)
        try:
            await made.start()
            yield made
        finally:
            if made.process is not None and made.process.process.poll() is None:
                made.process.kill()
            with pymongo.MongoClient[dict[str, Any]](os.environ["JERVIS_TEST_MONGODB_URI"]) as server:
                server.drop_database(made.database)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110  # what is waited for happens in another thread
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("where", "mails", "state"), [("envelope", 1, "Done"), ("taken", 1, "Unknown")])
async def test_a_killed_process_never_sends_a_mail_twice(tmp_path: Path, where: str, mails: int, state: str) -> None:
    with smtp.serving() as box:
        box.slow, box.stall = (1.0, 0.0) if where == "envelope" else (0.0, 1.0)
        async with place(tmp_path, box) as made:
            first = asyncio.create_task(made.mail())
            await until(lambda: bool(box.recipients if where == "envelope" else box.mails))
            assert made.process is not None
            made.process.kill()
            box.slow = box.stall = 0.0
            await made.start()
            found = await first
            assert (found.state, len(box.mails)) == (state, mails)
            assert await made.mail() == found
            assert len(box.mails) == mails
            async with made.calls() as asked:
                assert await asked.outcome("k") == found


async def test_a_run_asks_by_the_client_and_leaves_a_line(tmp_path: Path) -> None:
    with smtp.serving() as box:
        async with place(tmp_path, box) as made, made.calls() as asked:
            assert await asked.outcome("k") is None
            found = await asked.effect("sendMail", "mail", "k", MAIL)
            assert found.state is client.State.DONE
            with pytest.raises(client.Rejected) as caught:
                await asked.effect("sendMail", "mail", "k", MAIL | {"subject": "Other"})
            assert (caught.value.code, caught.value.status, caught.value.field) == ("conflict", 409, "key")
            with pytest.raises(client.Rejected) as caught:
                await asked.effect("sendMail", "mail", "k 2", MAIL)
            assert caught.value.field == "key"
            with pytest.raises(client.Rejected) as caught:
                await asked.effect("sendMail", "mail", "k2", MAIL | {"to": ["nobody"]})
            assert (caught.value.status, caught.value.field) == (422, "arguments.to.0")
            with pytest.raises(client.Rejected) as caught:
                await asked.effect("dropTables", "mail", "k3", {})
            assert (caught.value.status, caught.value.field) == (404, "tool")
            async with made.calls(where=scope.Scope(client_id="globex")) as stranger:
                with pytest.raises(client.Rejected) as caught:
                    await stranger.effect("sendMail", "mail", "k4", MAIL)
                assert (caught.value.status, caught.value.field) == (404, "connection")
            assert len(box.mails) == 1
            assert made.process is not None
            assert await asyncio.to_thread(made.process.metric, "jervis_sources_effects_total") == 5
            made.process.kill()
            with pytest.raises(client.Unavailable):
                await asked.outcome("k")
        lines = made.audit()
        assert [(one["tool"], one["key"], one["outcome"]) for one in lines] == [
            ("sendMail", "k", "Done"), ("sendMail", "k", "Conflict"), ("sendMail", "k2", "Refused"),
            ("unknown", "k3", "Refused"), ("sendMail", "k4", "Refused"),
        ]  # fmt: skip
        assert lines[0]["target"] == "team-a/mail"
        assert made.uid in lines[0]["caller"]["name"]
        assert "a@example.com" not in made.log.read_text()
