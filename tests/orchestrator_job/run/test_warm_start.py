"""A process that was started before its task: it waits, gets the task from the operator, and works as any run."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from contracts.api import warm_assignment
from orchestrator_job import settings
from orchestrator_job.run import warm_start
from tests import httpserver, waiting
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk


class Operator:
    """Plays the operator's side of the handover: answers 204 until it has something to give."""

    def __init__(self) -> None:
        self.url = ""
        self.shown: list[str] = []
        self.answers: list[tuple[int, Any]] = []
        self.given: warm_assignment.Given | None = None

    async def answer(self, request: web.Request) -> web.Response:
        self.shown.append(request.headers["Authorization"])
        if self.answers:
            status, body = self.answers.pop(0)
            return web.json_response(body, status=status)
        if self.given is None:
            await asyncio.sleep(0.05)
            return web.Response(status=204)
        return web.Response(text=self.given.model_dump_json(), content_type="application/json")


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    played, application = Operator(), web.Application()
    application.router.add_get(warm_assignment.PATH, played.answer)
    async with httpserver.serving(application) as played.url:
        yield played


OWN = ("JERVIS_TASK_UID", "JERVIS_TASK_NAME", "JERVIS_TASK_NAMESPACE", "JERVIS_ATTEMPT")


def pooled(folder: Path, operator: Operator) -> dict[str, str]:
    """The environment of a pod of the warm pool, beside that of all runs."""
    (folder / "identity").write_text("which-pod\n")
    return {
        "JERVIS_HANDOVER_URL": operator.url,
        "JERVIS_HANDOVER_TOKEN_FILE": str(folder / "identity"),
        "JERVIS_HANDOVER_KEEP": str(folder / "run-token"),
    }


def test_the_environment_of_the_task_overrides_that_of_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    pod = {"KB_URL": "http://kb", "ROUTER_URL": "http://router", "MONGODB_URI": "mongodb://m", "MAX_STEPS": "7"}
    for name, value in {**pod, "MODE": "Foreground"}.items():
        monkeypatch.setenv(f"JERVIS_{name}", value)
    own = {"TASK_UID": "u", "TASK_NAME": "mail", "TASK_NAMESPACE": "team", "ATTEMPT": "3", "MODE": "Background"}
    own |= {"USE_DELEGATION_GRAPH": "true", "WALL_CLOCK_SECONDS": "90"}
    task = {f"JERVIS_{name}": value for name, value in own.items()}
    settings.adopt({**task, "PATH": "/elsewhere"}, "/var/run/jervis/token")
    made = settings.Settings()
    assert os.environ["PATH"] != "/elsewhere"
    assert (made.task_uid, made.attempt, made.mode.value, made.max_steps) == ("u", 3, "Background", 7)
    assert (made.use_delegation_graph, made.wall_clock_seconds) == (True, 90.0)
    assert made.run_token_file == "/var/run/jervis/token"


def test_the_token_of_the_run_is_for_this_process_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert warm_start.keep("secret", path) == str(path)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("secret", 0o600)
    assert warm_start.keep("", tmp_path / "none") == ""
    assert not (tmp_path / "none").exists()


@pytest.mark.services
async def test_a_waiting_process_works_on_the_task_that_it_gets(desk: Desk, operator: Operator) -> None:
    desk.fake.set_script({job.TAG: [job.reply()]})
    own = {name: desk.task.environment.pop(name) for name in OWN[:3]} | {"JERVIS_ATTEMPT": "1"}
    running = desk.task.start(1, **pooled(desk.task.folder, operator))
    await running.logged("waiting for a task")
    await waiting.eventually(lambda: len(operator.shown) > 1)
    assert desk.calls() == 0
    assert not desk.store.all("orchestrator_fences"), "it has taken no task"
    operator.given = warm_assignment.Given(environment=own, token="of-the-run")
    ended = await desk.task.end(running)
    assert (ended.status, ended.message["exitReason"], ended.message["attempt"]) == (0, "Answered", 1)
    assert set(operator.shown) == {"Bearer which-pod"}
    assert (desk.task.folder / "run-token").read_text() == "of-the-run"


@pytest.mark.services
async def test_an_operator_that_refuses_or_is_away_is_asked_again(desk: Desk, operator: Operator) -> None:
    own = {name: desk.task.environment.pop(name) for name in OWN[:3]} | {"JERVIS_ATTEMPT": "1"}
    operator.answers = [(503, {"error": "away"}), (401, {"error": "not yet"})]
    operator.given = warm_assignment.Given(environment=own)
    await desk.ends("Answered", [job.reply()], **pooled(desk.task.folder, operator))
    assert len(operator.shown) == 3


async def test_one_that_is_asked_to_stop_drains_without_a_task(tmp_path: Path, operator: Operator) -> None:
    started = job.Job(tmp_path, "mongodb://127.0.0.1:1", "none", "http://127.0.0.1:1", "http://127.0.0.1:1")
    for name in OWN[:3]:
        started.environment.pop(name)
    running = started.start(1, **pooled(tmp_path, operator))
    await running.logged("waiting for a task")
    await waiting.eventually(lambda: bool(operator.shown))
    running.process.terminate()
    ended = await started.end(running)
    assert (ended.status, ended.message["exitReason"]) == (42, "Drained")
    assert json.loads((tmp_path / f"termination-{started.uid}-1").read_text())["attempt"] == 0
