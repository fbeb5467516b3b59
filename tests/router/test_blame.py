"""Whose fault a failure is, and what follows: the request's, the model's, the server's, or none (a restart)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
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

    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        status, body = by_model.get(message.json()["model"], ("200 OK", b"{}"))
        writer.write(wire.plain(body, status=status))
        return True

    return script


def _ask(router: process.Router, model: str = "m", path: str = "/api/chat", **more: Any) -> Any:
    return wire.ask(router.port, wire.post(path, {"model": model, **more}))


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
    async with (
        wire.backend(script) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url, numParallel=2)]) as router,
    ):
        first = asyncio.create_task(_ask(router))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 1)
        answer = await _ask(router, path="/v1/responses")
        assert (answer.status, answer.body) == (404, _GONE)
        assert (await router.backend("raw"))["models"] == ["m:latest"]
        others = [asyncio.create_task(_ask(router)) for _ in range(3)]
        await router.until(lambda s: s["queue"]["waiting"] == 2)
        assert (await _statuses_of_waiting(router, "/v1/messages", gate)) == 404
        assert [(await task).status for task in (first, *others)] == [200] * 4


async def _statuses_of_waiting(router: process.Router, path: str, gate: asyncio.Event) -> int:
    """Ask while others wait, then let all of them go on."""
    task = asyncio.create_task(_ask(router, path=path))
    await router.until(lambda s: s["queue"]["waiting"] == 3)
    gate.set()
    return int((await task).status)


async def test_an_endpoint_that_one_version_lacks_is_asked_of_another(tmp_path: Path) -> None:
    old = _fails(m=("404 Not Found", _GONE))
    async with wire.backend(old) as first, wire.backend(_fails()) as second:
        specs = [process.spec("a", first.url), process.spec("b", second.url)]
        async with process.running(tmp_path, specs) as router:
            answer = await _ask(router, path="/v1/responses")
            assert (answer.status, answer.header("X-Ollama-Router-Backend")) == (200, "b")
            assert [b["models"] for b in (await router.status())["backends"]] == [["m:latest"]] * 2


async def test_a_missing_model_in_ollama_s_words_is_gone_from_the_catalogue(tmp_path: Path) -> None:
    async with (
        wire.backend(_fails(m=("404 Not Found", _MISSING)), models=_TWO) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)], probe_interval_seconds="60") as router,
    ):
        assert await _statuses(router, 3) == [404] * 3
        assert (await router.backend("raw"))["models"] == ["other:latest"]
        assert len(backend.requests) == 1


async def test_a_client_s_own_mistakes_harm_neither_the_backend_nor_the_model(tmp_path: Path) -> None:
    wrong = _fails(m=("500 Internal Server Error", _OPTION))
    async with wire.backend(wrong, models=_TWO) as first, wire.backend(_fails(), models=_TWO) as second:
        specs = [process.spec("a", first.url), process.spec("b", second.url, drain=True)]
        async with process.running(tmp_path, specs) as router:
            assert await _statuses(router, 12) == [500] * 12
            backend = await router.backend("a")
            assert (backend["circuit"], backend["modelsFailing"]) == ("Closed", [])
            first.script = _fails()
            assert await _statuses(router, 1) == [200]
            assert (len(first.requests), len(second.requests)) == (13, 0)


async def test_a_model_that_crashes_is_closed_alone_and_comes_back(tmp_path: Path) -> None:
    settings = {"circuit_pause_seconds": "0.5", "restart_grace_seconds": "0"}
    async with (
        wire.backend(_fails(m=("500 Internal Server Error", _CRASH)), models=_TWO) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)], **settings) as router,
    ):
        backend.probing.clear()  # a circuit is half-opened by a probe, however long the pause seems on a busy machine
        assert await _statuses(router, 7) == [500] * 5 + [503] * 2
        assert await _statuses(router, 3, "other") == [200] * 3
        shown = await router.backend("raw")
        assert (shown["healthy"], shown["circuit"], shown["modelsFailing"]) == (True, "Closed", ["m:latest"])
        assert "m:latest" in shown["models"]
        assert len(backend.requests) == 8
        backend.script = _fails()
        backend.probing.set()
        await router.until(lambda s: s["backends"][0]["modelsFailing"] == [])
        assert await _statuses(router, 2) == [200] * 2


async def test_an_answer_about_a_model_says_nothing_about_its_runner(tmp_path: Path) -> None:
    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        asked = message.path == "/api/show"
        writer.write(wire.plain(b"{}") if asked else wire.plain(_CRASH, status="500 Internal Server Error"))
        return True

    settings = {"circuit_pause_seconds": "300", "restart_grace_seconds": "0"}
    async with (
        wire.backend(script) as backend,
        process.running(tmp_path, [process.spec("a", backend.url)], **settings) as router,
    ):
        statuses = []
        for _ in range(6):
            statuses += await _statuses(router, 1)
            assert (await _ask(router, path="/api/show")).status == 200
        assert statuses == [500] * 5 + [503]


async def test_a_busy_backend_does_not_attract_everybody(tmp_path: Path) -> None:
    busy = _fails(m=("503 Service Unavailable", _BUSY))
    async with wire.backend(busy) as first, wire.backend(_fails()) as second:
        specs = [process.spec("a", first.url), process.spec("b", second.url)]
        async with process.running(tmp_path, specs, probe_interval_seconds="0.2") as router:
            assert await _statuses(router, 200) == [200] * 200
            assert len(second.requests) == 200
            # Once, and again after each pause; never as often as it would be the least loaded one.
            assert len(first.requests) < 50
            first.script = _fails()
            await router.until(lambda s: s["backends"][0]["circuit"] == "HalfOpen")
            assert await _statuses(router, 2) == [200] * 2
            assert (await router.backend("a"))["circuit"] == "Closed"


async def test_a_busy_backend_still_answers_questions_and_is_listed(tmp_path: Path) -> None:
    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        asked = message.path == "/api/show"
        writer.write(wire.plain(b"{}") if asked else wire.plain(_BUSY, status="503 Service Unavailable"))
        return True

    async with (
        wire.backend(script) as backend,
        process.running(tmp_path, [process.spec("a", backend.url)], probe_interval_seconds="60") as router,
    ):
        assert (await _ask(router)).status == 503
        assert (await router.backend("a"))["circuit"] == "Open"
        assert [(await _ask(router, path="/api/show")).status for _ in range(3)] == [200] * 3
        tags = await wire.ask(router.port, wire.request("GET", "/api/tags"))
        assert [one["name"] for one in tags.json()["models"]] == ["m:latest"]


async def test_the_queue_waits_out_a_restart(tmp_path: Path) -> None:
    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await gate.wait()
        writer.write(wire.plain(message.body))
        return True

    gate = asyncio.Event()
    tasks: list[asyncio.Task[wire.Message]] = []
    async with wire.backend(script, port=ports.free()) as before:
        router = process.start(tmp_path, [process.spec("raw", before.url, numParallel=1)])
        try:
            await process.serving(router)
            for number in range(6):
                tasks.append(asyncio.create_task(_ask(router, n=number)))
                await router.until(
                    lambda s, waiting=number: (
                        s["queue"]["waiting"] == waiting  # type: ignore[misc]
                        and s["backends"][0]["inFlight"] == 1
                    )
                )
            port = before.port
            await _restarted(router, before, port, gate, tasks)
        finally:
            router.process.kill()
            router.process.wait()


async def _restarted(
    router: process.Router,
    before: wire.Backend,
    port: int,
    gate: asyncio.Event,
    tasks: list[asyncio.Task[wire.Message]],
) -> None:
    """End the server and start it again on its port."""
    assert before.server is not None
    before.server.close()
    await before.close()
    await router.until(lambda s: not s["backends"][0]["healthy"])
    newcomer = asyncio.create_task(_ask(router, n=6))
    await router.until(lambda s: s["queue"]["waiting"] == 7)
    gate.set()
    async with wire.backend(before.script, port=port) as after:
        answers = [await task for task in (*tasks, newcomer)]
        assert [a.status for a in answers] == [200] * 7
        # The one that ran there first: it has waited longest.
        assert [json.loads(r.body)["n"] for r in after.requests] == [0, 1, 2, 3, 4, 5, 6]


async def test_who_waits_for_a_backend_that_stays_away_is_refused_in_the_end(tmp_path: Path) -> None:
    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await asyncio.Event().wait()
        return False

    async with wire.backend(script) as backend:
        specs = [process.spec("raw", backend.url, numParallel=1)]
        async with process.running(tmp_path, specs, restart_grace_seconds="1") as router:
            tasks = [asyncio.create_task(_ask(router)) for _ in range(4)]
            await router.until(lambda s: s["queue"]["waiting"] == 3)
            assert backend.server is not None
            backend.server.close()
            await backend.close()
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
    async def never(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await asyncio.Event().wait()
        return False

    many = 40  # more than what may be repeated at once when a backend fails
    async with wire.backend(never) as first, wire.backend(_fails()) as second:
        specs = [process.spec("a", first.url, weight=100), process.spec("b", second.url, drain=True)]
        async with process.running(tmp_path, specs, probe_timeout_seconds="0.6") as router:
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
    async def never(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await asyncio.Event().wait()
        return False

    async with wire.backend(never) as first, wire.backend(_fails()) as second:
        specs = [process.spec("a", first.url, numParallel=40), process.spec("b", second.url, numParallel=40)]
        async with process.running(tmp_path, specs, probe_timeout_seconds="1") as router:
            await router.until(lambda s: all(b["healthy"] for b in s["backends"]))
            tasks = [asyncio.create_task(_ask(router, path="/api/embed", input="x")) for _ in range(60)]
            await router.until(lambda s: s["backends"][0]["inFlight"] >= 25 and s["backends"][1]["inFlight"] == 0)
            first.mute = True
            answers = [await task for task in tasks]
            assert [a.status for a in answers] == [200] * 60
            assert {a.header("X-Ollama-Router-Backend") for a in answers} == {"b"}
            assert len(second.requests) == 60


async def test_a_runner_that_hangs_behind_a_healthy_server_is_given_up_sooner_for_vectors(tmp_path: Path) -> None:
    async def never(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await reader.read()
        return False

    async with wire.backend(never) as first, wire.backend(_fails()) as second:
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
    async with wire.backend(_fails()) as backend:
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
    async with (
        wire.backend(script) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url, modelSets=sets)]) as router,
    ):
        assert await _statuses(router, 2) == [200] * 2
        await router.until(lambda s: [one["name"] for one in s["backends"][0]["memory"]] == ["", "m:latest"])
