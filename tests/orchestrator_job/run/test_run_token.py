"""A run shows the knowledge base and the router the token that is mounted for it, and nothing else."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from contracts.tokens import live_runs, runtoken
from crds import scope
from crds.pendingtask import Mode
from crds.priority import Priority
from tests import httpserver, waiting
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk
from tests.router import process as routers

pytestmark = pytest.mark.services
_SECRET = b"k" * 48


def _signed(task: job.Job, age: timedelta = timedelta(0)) -> str:
    keys = runtoken.ring([_SECRET])
    run = runtoken.Run(
        task_uid=task.uid,
        namespace="jervis",
        attempt=1,
        scope=scope.Scope(client_id="acme", project_id="jervis"),
        mode=Mode.FOREGROUND,
        ceiling=Priority.P0,
    )
    return runtoken.Signer(lambda: keys, lambda: datetime.now(UTC) - age).sign(run, timedelta(hours=1))


def _settings(folder: Path) -> dict[str, str]:
    """Of a router that refuses a request without a token."""
    keys = folder / "keys"
    keys.mkdir()
    (keys / "signing").write_bytes(_SECRET)
    tokens = folder / "tokens.json"
    tokens.write_text(json.dumps([{"name": "person", "token": "person-token-0123456789"}]))
    return {"run_token_keys": str(keys), "tokens_file": str(tokens)}


async def _run(desk: Desk, folder: Path, token: str) -> job.Ended:
    """With that token, before a router that refuses a request without one."""
    (folder / "token").write_text(token)
    async with routers.running(folder, [routers.spec("gpu", desk.fake.url)], **_settings(folder)) as router:
        return await desk.run([job.reply()], JERVIS_ROUTER_URL=router.url, JERVIS_RUN_TOKEN_FILE=str(folder / "token"))


async def test_the_run_token_alone_opens_both(desk: Desk, tmp_path: Path) -> None:
    token = _signed(desk.task)
    ended = await _run(desk, tmp_path, token + "\n")
    assert ended.status == 0, ended.lines
    assert len(desk.known.tokens) >= 3
    assert set(desk.known.tokens) == {f"Bearer {token.strip()}"}


@pytest.mark.parametrize("service", ["router", "kb"])
async def test_a_token_that_is_not_accepted_ends_the_run_to_be_resumed_with_another(
    desk: Desk, tmp_path: Path, service: str
) -> None:
    token = _signed(desk.task, age=timedelta(hours=2))
    if service == "kb":
        desk.known.refusals = [(401, {"code": "unauthorized", "message": "the run token expired"})]
    ended = await _run(desk, tmp_path, token)
    assert (ended.status, ended.message["exitReason"], ended.message["unavailable"]) == (1, "Unavailable", service)
    assert "run token expired" in ended.message["summary"]
    assert "next run gets a new one" in ended.message["summary"]
    assert token not in str(ended.lines)


async def test_a_token_that_is_not_there_yet_is_waited_for(desk: Desk, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    ended = await desk.ends("Unavailable", JERVIS_RUN_TOKEN_FILE=absent, JERVIS_UNAVAILABLE_SECONDS="0.1")
    assert ended.message["unavailable"] == "kb"
    assert "cannot be read" in ended.message["summary"]
    assert desk.known.tokens == []


@pytest.mark.parametrize("lives", [True, False])
async def test_a_run_waits_until_it_is_known_to_live_and_ends_where_it_does_not(
    desk: Desk, tmp_path: Path, lives: bool
) -> None:
    """A real router asks the operator, which does not know at first."""
    desk.fake.set_script({job.TAG: [job.reply()]})
    token = tmp_path / "token"
    token.write_text(_signed(desk.task, age=timedelta(minutes=1)))
    keys, unknown = runtoken.ring([_SECRET]), True

    async def answer(_: web.Request) -> web.Response:
        if unknown:
            return web.Response(status=503)
        runs = {desk.task.uid: 1} if lives else {}
        return web.Response(text=live_runs.sign(live_runs.Live(as_of=datetime.now(UTC), runs=runs), keys))

    application = web.Application()
    application.router.add_get(live_runs.PATH, answer)
    async with (
        httpserver.serving(application) as operator,
        routers.running(
            tmp_path, [routers.spec("gpu", desk.fake.url)], live_runs_url=operator, **_settings(tmp_path)
        ) as router,
    ):
        run = asyncio.create_task(desk.task.run(JERVIS_ROUTER_URL=router.url, JERVIS_RUN_TOKEN_FILE=str(token)))

        async def refusals() -> float:
            assert not run.done(), run.result()
            return await router.metric('jervis_router_responses_total{by="router",code="5xx"}')

        await waiting.eventually(refusals, "the router refuses the run")
        assert not desk.fake.requests(tag=job.TAG)
        unknown = False
        ended = await run
    if lives:
        assert ended.status == 0, ended.lines
        return
    assert (ended.status, ended.message["exitReason"], ended.message["unavailable"]) == (1, "Unavailable", "router")
    assert f"run 1 of task {desk.task.uid} is over" in ended.message["summary"]
    assert not desk.fake.requests(tag=job.TAG)
