"""Whose fault a failure is, and what follows: the request's, the model's, the server's, or none (a restart)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from router.proxy import pool
from tests import ports
from tests.router import process, wire

_GONE = b"404 page not found"
_MISSING = b'{"error":"model \'m\' not found"}'
_OPTION = b'{"error":"option \\"num_ctx\\" must be of type integer"}'
_CRASH = b'{"error":"llama runner process has terminated: exit status 2"}'
_BUSY = b'{"error":"server busy, please try again.  maximum pending requests exceeded"}'
_TWO = ("m:latest", "other:latest")


def _fails(**by_model: tuple[str, bytes]) -> wire.Script:
    """Answer with that status and body for a model, 200 and `{}` for any other."""

    def reply(message: wire.Message) -> bytes:
        status, body = by_model.get(message.json()["model"], ("200 OK", b"{}"))
        return wire.plain(body, status=status)

    return wire.replying(reply)


def _shows_alone(failure: bytes, status: str) -> wire.Script:
    """It answers about its models, and everything else with a failure."""
    asked, other = wire.plain(b"{}"), wire.plain(failure, status=status)
    return wire.replying(lambda message: asked if message.path == "/api/show" else other)


def _ask(router: process.Router, model: str = "m", path: str = "/api/chat", **more: Any) -> Any:
    return router.post(path, {"model": model, **more})


def _stands(waiting: int, status: dict[str, Any]) -> bool:
    """One request runs, and so many wait."""
    return bool(status["queue"]["waiting"] == waiting and status["backends"][0]["inFlight"] == 1)


async def _statuses(router: process.Router, times: int, model: str = "m") -> list[int]:
    return [(await _ask(router, model)).status for _ in range(times)]


async def test_an_unknown_endpoint_takes_no_model_away(tmp_path: Path) -> None:
    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        known = message.path == "/api/chat"
        if known:
            await gate.wait()
        writer.write(wire.plain(b"{}") if known else wire.plain(_GONE, "text/plain", "404 Not Found"))
        return True

    gate = asyncio.Event()
    async with process.before(tmp_path, script, spec={"numParallel": 2}) as (router, _):
        first = asyncio.create_task(_ask(router))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 1)
        answer = await _ask(router, path="/v1/responses")
        assert (answer.status, answer.body) == (404, _GONE)
        assert (await router.backend("raw"))["models"] == ["m:latest"]
        others = [asyncio.create_task(_ask(router)) for _ in range(3)]
        await router.until(lambda s: s["queue"]["waiting"] == 2)
        unknown = asyncio.create_task(_ask(router, path="/v1/messages"))
        await router.until(lambda s: s["queue"]["waiting"] == 3)
        gate.set()
        assert (await unknown).status == 404
        assert [(await task).status for task in (first, *others)] == [200] * 4


async def test_an_endpoint_that_one_version_lacks_is_asked_of_another(tmp_path: Path) -> None:
    old = _fails(m=("404 Not Found", _GONE))
    async with process.before_two(tmp_path, old, wire.answering()) as (router, _, _):
        answer = await _ask(router, path="/v1/responses")
        assert (answer.status, answer.header("X-Ollama-Router-Backend")) == (200, "b")
        assert [b["models"] for b in (await router.status())["backends"]] == [["m:latest"]] * 2


async def test_a_missing_model_in_ollama_s_words_is_gone_from_the_catalogue(tmp_path: Path) -> None:
    async with process.before(
        tmp_path, _fails(m=("404 Not Found", _MISSING)), models=_TWO, probe_interval_seconds="60"
    ) as (router, backend):
        assert await _statuses(router, 3) == [404] * 3
        assert (await router.backend("raw"))["models"] == ["other:latest"]
        assert len(backend.requests) == 1


async def test_a_client_s_own_mistakes_harm_neither_the_backend_nor_the_model(tmp_path: Path) -> None:
    wrong = _fails(m=("500 Internal Server Error", _OPTION))
    opened = process.before_two(tmp_path, wrong, wire.answering(), models=_TWO, specs=({}, {"drain": True}))
    async with opened as (router, first, second):
        assert await _statuses(router, 12) == [500] * 12
        backend = await router.backend("a")
        assert (backend["circuit"], backend["modelsFailing"]) == ("Closed", [])
        first.script = wire.answering()
        assert await _statuses(router, 1) == [200]
        assert (len(first.requests), len(second.requests)) == (13, 0)


async def test_a_model_that_crashes_is_closed_alone_and_comes_back(tmp_path: Path) -> None:
    settings = {"circuit_pause_seconds": "0.5", "restart_grace_seconds": "0"}
    opened = process.before(tmp_path, _fails(m=("500 Internal Server Error", _CRASH)), models=_TWO, **settings)
    async with opened as (router, backend):
        backend.probing.clear()  # a circuit is half-opened by a probe, however long the pause seems on a busy machine
        assert await _statuses(router, 7) == [500] * 5 + [503] * 2
        assert await _statuses(router, 3, "other") == [200] * 3
        shown = await router.backend("raw")
        assert (shown["healthy"], shown["circuit"], shown["modelsFailing"]) == (True, "Closed", ["m:latest"])
        assert "m:latest" in shown["models"]
        assert len(backend.requests) == 8
        backend.script = wire.answering()
        backend.probing.set()
        await router.until(lambda s: s["backends"][0]["modelsFailing"] == [])
        assert await _statuses(router, 2) == [200] * 2


async def test_an_answer_about_a_model_says_nothing_about_its_runner(tmp_path: Path) -> None:
    settings = {"circuit_pause_seconds": "300", "restart_grace_seconds": "0"}
    async with process.before(tmp_path, _shows_alone(_CRASH, "500 Internal Server Error"), **settings) as (router, _):
        statuses = []
        for _ in range(6):
            statuses += await _statuses(router, 1)
            assert (await _ask(router, path="/api/show")).status == 200
        assert statuses == [500] * 5 + [503]


async def test_a_busy_backend_does_not_attract_everybody(tmp_path: Path) -> None:
    busy = _fails(m=("503 Service Unavailable", _BUSY))
    opened = process.before_two(tmp_path, busy, wire.answering(), probe_interval_seconds="0.2")
    async with opened as (router, first, second):
        assert await _statuses(router, 200) == [200] * 200
        assert len(second.requests) == 200
        # Once, and again after each pause; never as often as it would be the least loaded one.
        assert len(first.requests) < 50
        first.script = wire.answering()
        await router.until(lambda s: s["backends"][0]["circuit"] == "HalfOpen")
        assert await _statuses(router, 2) == [200] * 2
        assert (await router.backend("a"))["circuit"] == "Closed"


async def test_a_busy_backend_still_answers_questions_and_is_listed(tmp_path: Path) -> None:
    busy = _shows_alone(_BUSY, "503 Service Unavailable")
    async with process.before(tmp_path, busy, probe_interval_seconds="60") as (router, _):
        assert (await _ask(router)).status == 503
        assert (await router.backend("raw"))["circuit"] == "Open"
        assert [(await _ask(router, path="/api/show")).status for _ in range(3)] == [200] * 3
        tags = await router.get("/api/tags")
        assert [one["name"] for one in tags.json()["models"]] == ["m:latest"]


async def test_the_queue_waits_out_a_restart(tmp_path: Path) -> None:
    gate = asyncio.Event()
    tasks: list[asyncio.Task[wire.Message]] = []
    async with wire.backend(wire.gated(gate, wire.echo), port=ports.free()) as before:
        router = process.start(tmp_path, [process.spec("raw", before.url, numParallel=1)])
        try:
            await process.serving(router)
            for number in range(6):
                tasks.append(asyncio.create_task(_ask(router, n=number)))
                await router.until(partial(_stands, number))
            await before.end()
            await router.until(lambda s: not s["backends"][0]["healthy"])
            newcomer = asyncio.create_task(_ask(router, n=6))
            await router.until(lambda s: s["queue"]["waiting"] == 7)
            gate.set()
            async with wire.backend(before.script, port=before.port) as after:
                answers = [await task for task in (*tasks, newcomer)]
                assert [a.status for a in answers] == [200] * 7
                # The one that ran there first: it has waited longest.
                assert [json.loads(r.body)["n"] for r in after.requests] == [0, 1, 2, 3, 4, 5, 6]
        finally:
            router.process.kill()
            router.process.wait()


async def test_who_waits_for_a_backend_that_stays_away_is_refused_in_the_end(tmp_path: Path) -> None:
    opened = process.before(tmp_path, wire.deaf, spec={"numParallel": 1}, restart_grace_seconds="1")
    async with opened as (router, backend):
        tasks = [asyncio.create_task(_ask(router)) for _ in range(4)]
        await router.until(lambda s: s["queue"]["waiting"] == 3)
        await backend.end()
        # What ran there was sent; the others were not.
        assert sorted([(await task).status for task in tasks]) == [502, 503, 503, 503]
        # It has been away for longer than anybody waits: said at once.
        assert (await _ask(router)).status == 503


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/api/embed", {"input": "x"}),
        ("/api/chat", {"stream": False}),
        ("/api/chat", {}),
    ],
    ids=["vectors", "not streamed", "streamed"],
)
async def test_what_has_not_begun_on_a_backend_that_falls_silent_goes_on_elsewhere(
    tmp_path: Path, path: str, document: Mapping[str, Any]
) -> None:
    many = 40  # more than what may be repeated at once when a backend fails
    async with process.before_two(
        tmp_path, wire.deaf, wire.answering(), specs=({"weight": 100}, {"drain": True}), probe_timeout_seconds="0.6"
    ) as (router, first, second):
        await router.until(lambda s: all(b["healthy"] for b in s["backends"]))
        tasks = [asyncio.create_task(_ask(router, path=path, **document)) for _ in range(many)]
        await router.until(lambda s: s["backends"][0]["inFlight"] == many)
        first.mute = True
        await router.until(lambda s: not s["backends"][0]["healthy"])
        await router.until(lambda s: s["queue"]["waiting"] == many)
        assert (len(tasks), second.requests) == (many, [])
        for task in tasks:
            task.cancel()


async def test_the_others_of_a_silent_backend_s_pool_take_over(tmp_path: Path) -> None:
    async with process.before_two(
        tmp_path, wire.deaf, wire.answering(), specs=({"numParallel": 40},) * 2, probe_timeout_seconds="1"
    ) as (router, first, second):
        await router.until(lambda s: all(b["healthy"] for b in s["backends"]))
        tasks = [asyncio.create_task(_ask(router, path="/api/embed", input="x")) for _ in range(60)]
        await router.until(lambda s: s["backends"][0]["inFlight"] >= 25 and s["backends"][1]["inFlight"] == 0)
        first.mute = True
        answers = [await task for task in tasks]
        assert [a.status for a in answers] == [200] * 60
        assert {a.header("X-Ollama-Router-Backend") for a in answers} == {"b"}
        assert len(second.requests) == 60


async def test_a_runner_that_hangs_behind_a_healthy_server_is_given_up_sooner_for_vectors(tmp_path: Path) -> None:
    async with wire.backend(wire.silent) as first, wire.backend(wire.answering()) as second:
        specs = [process.spec("a", first.url), process.spec("b", second.url)]
        # The time is that of the backend that answers, too.
        settings = {"embedding_seconds": "2", "circuit_failures": "2"}
        async with process.running(tmp_path, specs, **settings) as router:
            for _ in range(2):
                answer = await _ask(router, path="/v1/embeddings", input="x")
                assert (answer.status, answer.header("X-Ollama-Router-Backend")) == (200, "b")
            hung = await router.backend("a")
            assert (hung["healthy"], hung["circuit"], hung["modelsFailing"]) == (True, "Closed", ["m:latest"])
            assert (await _ask(router, path="/v1/embeddings", input="x")).status == 200
            assert len(first.requests) == 2


async def test_connections_to_backends_notice_a_host_that_is_gone() -> None:
    async with wire.backend(wire.answering()) as backend:
        connection = await pool.Pool(backend.url).connect()
        assert connection._transport is not None
        bare = connection._transport.get_extra_info("socket")
        assert len(pool._OPTIONS) == len(pool._SOCKET)
        assert [bare.getsockopt(level, option) for level, option, _ in pool._OPTIONS] == [
            value for _, _, value in pool._OPTIONS
        ]
        connection.abort()


@pytest.mark.parametrize("record", [{"size": "big", "size_vram": "odd"}, {"size": None}, {}])
async def test_odd_answers_about_the_memory_do_not_wedge_a_gpu(tmp_path: Path, record: Mapping[str, Any]) -> None:
    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        backend.ps = [None, 7, {"name": ["m"]}, {"model": "m:latest", **record}]
        writer.write(wire.plain(b"{}"))
        return True

    sets = process.model_set({"name": "m"})
    async with process.before(tmp_path, script, spec={"modelSets": sets}) as (router, backend):
        assert await _statuses(router, 2) == [200] * 2
        await router.until(lambda s: [one["name"] for one in s["backends"][0]["memory"]] == ["", "m:latest"])
