"""The process itself, killed with SIGKILL in the middle of a mail, and its client."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pymongo
import pytest

from controllers.sources import client
from crds import scope
from tests import waiting
from tests.controllers.notices import smtp
from tests.sources.effects.calling import Place
from tests.sources.effects.world import World

pytestmark = pytest.mark.services
MAIL = {"to": ["a@example.com"], "subject": "S", "text": "T"}


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


@pytest.mark.parametrize(("where", "mails", "state"), [("envelope", 1, "Done"), ("taken", 1, "Unknown")])
async def test_a_killed_process_never_sends_a_mail_twice(tmp_path: Path, where: str, mails: int, state: str) -> None:
    with smtp.serving() as box:
        box.slow, box.stall = (600.0, 0.0) if where == "envelope" else (0.0, 600.0)
        async with place(tmp_path, box) as made:
            first = asyncio.create_task(made.effect("sendMail", "mail", MAIL))
            await waiting.eventually(lambda: bool(box.recipients if where == "envelope" else box.mails))
            assert made.process is not None
            made.process.kill()
            box.slow = box.stall = 0.0
            box.released.set()
            await made.rows(earlier=True)
            await made.start()
            found = await first
            assert (found.state, len(box.mails)) == (state, mails)
            assert await made.effect("sendMail", "mail", MAIL) == found
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
