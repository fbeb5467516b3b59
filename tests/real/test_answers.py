"""Runs and the decision agent ask a real model: each ends with an answer or a question, and none by what it wrote."""

from __future__ import annotations

import signal
from typing import Any

import httpx
import pytest

from bench.real import passes
from kb import api, client
from tests.kb.service import program
from tests.orchestrator_job import job
from tests.real import serving
from tests.real.conftest import MODEL, PATIENCE
from tests.real.test_mail import request
from tests.router import process

pytestmark = pytest.mark.services

_SCOPE = passes.OWNER.model_dump(by_alias=True)
_ENDS = {"Answered", "NeedsInput"}
_QUESTION = "On which day is the router released?"
_ORDER = "Search the knowledge base for the name of the person who tests the failover, and report it."


async def _known(kb: program.Program, http: httpx.AsyncClient) -> client.Client:
    reading = client.Client(kb.url, http, attempts=1)
    await reading.ingest(request())
    return reading


def _unanswered(ended: job.Ended) -> str:
    return f"{ended.message}\n{ended.lines[-20:]}"


async def test_one_question_is_answered_or_asked_back(
    kb: program.Program, http: httpx.AsyncClient, task: job.Job, results: job.Store
) -> None:
    await _known(kb, http)
    results.remember(task.memory(scope=_SCOPE, content=_QUESTION))
    ended = await task.end(task.start(), patience=PATIENCE)
    assert ended.message["exitReason"] in _ENDS, _unanswered(ended)
    [result] = results.all("task_results", _id=task.uid)
    assert result["exitReason"] == ended.message["exitReason"]


async def test_one_order_is_worked_on_with_tools(
    kb: program.Program, http: httpx.AsyncClient, task: job.Job, results: job.Store, ollama: serving.Ollama
) -> None:
    """SmolLM2's template has no tools, so the run chooses them by the shape of an answer."""
    await _known(kb, http)
    before = len(ollama.ended("/api/chat"))
    results.remember(task.memory(scope=_SCOPE, content=_ORDER, type="UserTask", mode="Background"))
    flags = {"JERVIS_USE_DELEGATION_GRAPH": "true", "JERVIS_USE_SPECIALIST_AGENTS": "true", "JERVIS_MODE": "Background"}
    ended = await task.end(task.start(1, **flags), patience=PATIENCE)
    assert ended.message["exitReason"] in _ENDS, _unanswered(ended)
    # A plan, an agent's turn, and the answer, at the least; none was refused by the server.
    codes = ollama.ended("/api/chat")[before:]
    assert len(codes) >= 3
    assert 500 not in codes


async def test_the_decision_agent_looks_before_it_ends(kb: program.Program, http: httpx.AsyncClient) -> None:
    reading = await _known(kb, http)
    question = api.AgenticSearch(scope=passes.OWNER, query=_QUESTION)
    async with reading.agent.ask(question) as stream:
        events: list[Any] = [event async for event in stream]
    assert events[-1].type == "complete"
    assert events[-1].outcome in ("answered", "impossible"), [event.message for event in events if event.message]
    assert any(event.type == "result" for event in events), "it has searched before it ended"


async def test_a_preempted_run_leaves_the_gpu_at_once_and_goes_on_later(
    kb: program.Program,
    http: httpx.AsyncClient,
    task: job.Job,
    results: job.Store,
    router: process.Router,
) -> None:
    await _known(kb, http)
    results.remember(task.memory(scope=_SCOPE, content=_QUESTION))
    running = task.start(JERVIS_DRAIN_GRACE_SECONDS="0.2")
    # The run embeds its question first.
    await router.until(lambda s: MODEL in {each["model"] for each in s["backends"][0]["running"]}, patience=PATIENCE)
    running.process.send_signal(signal.SIGTERM)
    drained = await task.end(running, patience=PATIENCE)
    assert (drained.status, drained.message["exitReason"]) == (42, "Drained")
    await router.until(lambda status: status["backends"][0]["inFlight"] == 0)
    ended = await task.end(task.start(2), attempt=2, patience=PATIENCE)
    assert ended.message["exitReason"] in _ENDS, _unanswered(ended)
