"""The process itself, killed with SIGKILL around a push; what was asked for is on the remote once."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pymongo
import pytest

from controllers.sources import assignments, client, mongo
from controllers.sources.git import quarantine
from crds import values
from tests import waiting
from tests.sources.effects.calling import Place
from tests.sources.effects.pushing import LOGIN, Work, connected, remote, stored
from tests.sources.effects.world import World
from tests.sources.git.making import Http, Repository

pytestmark = pytest.mark.services


@contextlib.asynccontextmanager
async def place(folder: Path, http: Http) -> AsyncIterator[Place]:
    async with World().serving() as world:
        made = Place(world, folder, WORKSPACE=folder / "ws", CLAIM_SECONDS=3)
        store = mongo.client(os.environ["JERVIS_TEST_MONGODB_URI"])
        assigned = assignments.Assignments(store[made.database])
        await assigned.prepare()
        await assigned.want(connected(world, f"{http.url}/storage.git"))
        try:
            await made.start()
            yield made
        finally:
            store.close()
            if made.process is not None and made.process.process.poll() is None:
                made.process.kill()
            with pymongo.MongoClient[dict[str, Any]](os.environ["JERVIS_TEST_MONGODB_URI"]) as server:
                server.drop_database(made.database)


def pushed(at: Repository) -> int:
    log = at.path / "logs" / "refs" / "heads" / "jervis" / "fix"
    return log.read_text().count("\tpush") if log.exists() else 0


@pytest.mark.parametrize(("window", "before"), [("intent", 0), ("sent", 0), ("pushed", 1), ("recorded", 1)])
async def test_a_killed_process_pushes_a_branch_once(tmp_path: Path, window: str, before: int) -> None:
    at = remote(tmp_path / "srv")
    work = Work(tmp_path / "work.git", at.url)
    commit = work.commit()
    async with Http(tmp_path / "srv", LOGIN).serving() as http, place(tmp_path, http) as made:
        given = {"branch": "jervis/fix", "commit": commit, "bundle": stored(made.world, work.bundle())}
        http.stall, http.times = 600.0, 1000
        http.cut = {"intent": "", "sent": "before", "pushed": "after", "recorded": ""}[window]
        http.slow = window == "intent"
        first = asyncio.create_task(made.effect("pushBranch", "code", given))
        if window == "recorded":
            await first
        else:
            await waiting.eventually(http.pushing.is_set)
            await waiting.eventually(made.rows, "the ledger has a row")
        assert made.process is not None
        made.process.kill()
        assert pushed(at) == before
        http.cut, http.slow, http.stall = "", False, 0.0
        states = [row["state"] for row in await made.rows(earlier=True)]
        assert states == [{"intent": "Intent", "recorded": "Done"}.get(window, "Sent")]
        await made.start()
        found = await first if window == "recorded" else await made.effect("pushBranch", "code", given)
        assert found.state is client.State.DONE
        assert await made.effect("pushBranch", "code", given) == found
        assert (at.sha("jervis/fix"), pushed(at)) == (commit, 1)
        assert (await first) == found
        # What is left where no other push came.
        assert quarantine.tidy(tmp_path / "ws") == (["uid-code.git.push"] if window == "pushed" else [])
        async with made.calls() as asked:
            assert await asked.outcome("k") == found
            content = values.ContentRef.model_validate(given["bundle"])
            other = client.PushBranch(branch="main", commit=commit, bundle=content)
            with pytest.raises(client.Rejected) as caught:
                await asked.push("code", "k2", other)
            assert (caught.value.status, caught.value.field) == (403, "arguments.branch")
        last = made.audit()[-1]
        assert (last["tool"], last["key"], last["outcome"]) == ("pushBranch", "k2", "Refused")
        assert "word" not in made.log.read_text()
