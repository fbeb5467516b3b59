"""The process itself, killed with SIGKILL in the middle of a mail and around a push, and its client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crds import scope, values
from sources import client
from sources.providers.git import quarantine
from tests import waiting
from tests.controllers.notices import smtp
from tests.sources.effects.calling import Place, placed
from tests.sources.effects.pushing import LOGIN, Work, connected, remote, stored
from tests.sources.effects.world import World
from tests.sources.git.making import Http, Repository
from tests.sources.parts import refused

pytestmark = pytest.mark.services
MAIL = {"to": ["a@example.com"], "subject": "S", "text": "T"}


@contextlib.asynccontextmanager
async def place(folder: Path, box: smtp.Box) -> AsyncIterator[Place]:
    async with World().serving() as world:
        world.mailbox(box.port)
        async with placed(world, folder) as made:
            yield made


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
            with refused(client.Rejected, code="conflict", status=409, field="key"):
                await asked.effect("sendMail", "mail", "k", MAIL | {"subject": "Other"})
            with refused(client.Rejected, field="key"):
                await asked.effect("sendMail", "mail", "k 2", MAIL)
            with refused(client.Rejected, status=422, field="arguments.to.0"):
                await asked.effect("sendMail", "mail", "k2", MAIL | {"to": ["nobody"]})
            with refused(client.Rejected, status=404, field="tool"):
                await asked.effect("dropTables", "mail", "k3", {})
            async with made.calls(where=scope.Scope(client_id="globex")) as stranger:
                with refused(client.Rejected, status=404, field="connection"):
                    await stranger.effect("sendMail", "mail", "k4", MAIL)
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


@contextlib.asynccontextmanager
async def pushing_place(folder: Path, http: Http) -> AsyncIterator[Place]:
    async with World().serving() as world:
        wants = connected(world, f"{http.url}/storage.git")
        async with placed(world, folder, wants, WORKSPACE=folder / "ws", CLAIM_SECONDS=3) as made:
            yield made


def pushed(at: Repository) -> int:
    log = at.path / "logs" / "refs" / "heads" / "jervis" / "fix"
    return log.read_text().count("\tpush") if log.exists() else 0


@pytest.mark.parametrize(("window", "before"), [("intent", 0), ("sent", 0), ("pushed", 1), ("recorded", 1)])
async def test_a_killed_process_pushes_a_branch_once(tmp_path: Path, window: str, before: int) -> None:
    at = remote(tmp_path / "srv")
    work = Work(tmp_path / "work.git", at.url)
    commit = work.commit()
    async with Http(tmp_path / "srv", LOGIN).serving() as http, pushing_place(tmp_path, http) as made:
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
        assert quarantine.purge(tmp_path / "ws") == (["uid-code.git.push"] if window == "pushed" else [])
        async with made.calls() as asked:
            assert await asked.outcome("k") == found
            content = values.ContentRef.model_validate(given["bundle"])
            other = client.PushBranch(branch="main", commit=commit, bundle=content)
            with refused(client.Rejected, status=403, field="arguments.branch"):
                await asked.push("code", "k2", other)
        last = made.audit()[-1]
        assert (last["tool"], last["key"], last["outcome"]) == ("pushBranch", "k2", "Refused")
        assert "word" not in made.log.read_text()
