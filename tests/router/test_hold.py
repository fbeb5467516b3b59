"""How long a GPU may be held and a backend be silent, for whom, and options that would make it load a model anew."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from crds.priority import Priority
from router import client
from router.proxy import hygiene, message, stall
from tests.router import process, wire

_LINE = b'{"message": {"content": "on and on"}, "done": false}\n'
_LAST = b'{"message": {"content": ""}, "done": true}\n'
_CHAT = {"model": "m", "messages": []}
_INTERNAL = [("X-Jervis-Internal", "true")]
_SHORT = {"hold_seconds": "1"}


class Endless:
    """A backend that writes until its client is gone, or `enough` is set; nothing before `begin` is."""

    def __init__(self) -> None:
        self.begin, self.enough = asyncio.Event(), asyncio.Event()
        self.begin.set()
        self.left = 0

    async def play(self, message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request."""
        gone = asyncio.ensure_future(reader.read(1))
        await self.begin.wait()
        writer.write(wire.chunked_head() + wire.chunk(_LINE))
        while not (gone.done() or self.enough.is_set()):
            writer.write(wire.chunk(_LINE))
            await asyncio.wait([gone], timeout=0.05)
        if gone.done():
            self.left += 1
            return False
        gone.cancel()
        writer.write(wire.chunk(_LAST) + wire.chunk(b""))
        return False


def _raw(path: str = "/api/chat", headers: list[tuple[str, str]] | None = None) -> bytes:
    return wire.post(path, {**_CHAT, "stream": True}, headers or [])


async def _metric(router: process.Router, caller: str) -> float:
    return await router.total(f'jervis_router_holds_ended_total{{caller="{caller}"}}')


@pytest.mark.parametrize(
    ("settings", "headers", "caller", "name"),
    [
        (_SHORT, _INTERNAL, "internal", "holdSeconds"),
        ({"foreign_hold_seconds": "1"}, [], "foreign", "foreignHoldSeconds"),
    ],
)
async def test_an_answer_without_an_end_gives_its_gpu_back(
    tmp_path: Path, settings: dict[str, str], headers: list[tuple[str, str]], caller: str, name: str
) -> None:
    endless = Endless()
    async with process.before(tmp_path, endless.play, spec={"numParallel": 1}, **settings) as (router, backend):
        answer = await router.send(_raw(headers=headers))
        assert (answer.status, answer.clean) == (200, False)
        *lines, last = answer.body.splitlines(keepends=True)
        assert set(lines) == {_LINE}
        assert f"router.settings.{name}" in json.loads(last)["error"]
        await router.until(lambda s: s["backends"][0]["inFlight"] == 0)
        assert endless.left == 1
        shown = await router.backend("raw")
        assert (shown["healthy"], shown["circuit"], shown["modelsFailing"]) == (True, "Closed", [])
        assert await _metric(router, caller) == 1
        # On /v1 the words come as an event.
        answer = await router.send(_raw("/v1/chat/completions", headers))
        assert (answer.clean, await _metric(router, caller)) == (False, 2)
        assert backend.requests[0].header("X-Jervis-Internal") is None


async def test_foreign_clients_are_not_bounded(tmp_path: Path) -> None:
    endless = Endless()
    async with process.before(tmp_path, endless.play, name="a", spec={"numParallel": 2}, **_SHORT) as (router, _):
        foreign = asyncio.create_task(router.send(_raw()))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 1)
        # One that is bounded, began later and is over by now.
        assert not (await router.send(_raw(headers=_INTERNAL))).clean
        assert not foreign.done()
        endless.enough.set()
        answer = await foreign
        assert (answer.clean, answer.body.splitlines(keepends=True)[-1]) == (True, _LAST)
        assert (await _metric(router, "internal"), await _metric(router, "foreign")) == (1, 0)


async def test_a_cpu_is_slow_and_no_gpu(tmp_path: Path) -> None:
    endless, other = Endless(), Endless()
    async with wire.backend(endless.play) as cpu, wire.backend(other.play, models=["g:latest"]) as gpu:
        specs = [process.spec("cpu", cpu.url, kind="CPU"), process.spec("gpu", gpu.url)]
        async with process.running(tmp_path, specs, **_SHORT) as router:
            await router.until(lambda s: all(b["healthy"] for b in s["backends"]))
            slow = asyncio.create_task(router.send(_raw(headers=_INTERNAL)))
            await router.until(lambda s: any(b["inFlight"] for b in s["backends"]))
            ended = wire.post("/api/chat", {**_CHAT, "model": "g"}, _INTERNAL)
            assert not (await router.send(ended)).clean
            assert not slow.done()
            endless.enough.set()
            assert (await slow).clean


async def test_neither_the_queue_nor_the_load_counts(tmp_path: Path) -> None:
    endless = Endless()
    endless.begin.clear()
    endless.enough.set()
    async with process.before(tmp_path, endless.play, spec={"numParallel": 1}, **_SHORT) as (router, _):
        tasks = [asyncio.create_task(router.send(_raw(headers=_INTERNAL))) for _ in range(2)]
        await router.until(lambda s: (s["backends"][0]["inFlight"], s["queue"]["waiting"]) == (1, 1))
        await asyncio.sleep(2.5)  # longer than the hold and the sweep after it
        endless.begin.set()
        assert [(await task).clean for task in tasks] == [True, True]
        assert await _metric(router, "internal") == 0


def test_the_sweep_ends_a_hold_once_and_bounds_silence_as_before() -> None:
    now = 0.0

    class One:
        since, limit, ends = 0.0, 5.0, 10.0

        def __init__(self) -> None:
            self.seen: list[str] = []

        def expire(self, limit: float) -> None:
            self.seen.append(f"silent {limit:g}")

        def exceed(self) -> None:
            self.seen.append("exceeded")

        def cut(self) -> None:
            self.seen.append("cut")

        def lose(self, backend: str) -> None:
            self.seen.append(backend)

    watch, one = stall.Watch(now=lambda: now), One()
    watch.open(one)
    for now, since, count in ((5.0, 0.0, 0), (10.0, 9.0, 0), (10.5, 9.0, 1), (12.0, 9.0, 0), (14.5, 9.0, 1)):  # noqa: B007  # the clock
        one.since = since
        assert watch.sweep() == count
    assert one.seen == ["exceeded", "silent 5"]


@pytest.mark.parametrize(
    ("identity", "header", "internal"),
    [
        (message.ANYBODY, None, False),
        (message.ANYBODY, b"false", False),
        (message.ANYBODY, b"true", True),
        (message.Identity("alice"), None, False),
        (message.Identity("client", run="uid"), None, True),
    ],
)
def test_who_is_bounded(identity: message.Identity, header: bytes | None, internal: bool) -> None:
    special = {} if header is None else {hygiene.INTERNAL: header}
    request = message.Request(None, b"POST", b"/api/chat", b"", special)  # type: ignore[arg-type]  # no client is needed
    request.identity = identity
    assert hygiene.internal(request) is internal
    # A router that takes over hears the same.
    assert (b"x-jervis-internal" in hygiene.claim(request, "P1")) is (header is not None)


async def test_our_own_client_says_so_and_finds_out(tmp_path: Path) -> None:
    endless = Endless()
    async with (
        process.before(tmp_path, endless.play, name="a", **_SHORT) as (router, _),
        httpx.AsyncClient(transport=client.few(), timeout=60) as http,
    ):
        with pytest.raises(client.Broken, match="holdSeconds"):
            await client.Client(router.url, http).chat("m", [{"role": "user", "content": "x"}], Priority.P1)
        assert await _metric(router, "internal") == 1


async def test_explain_names_it(tmp_path: Path) -> None:
    settings = {"hold_seconds": "120", "foreign_hold_seconds": "0"}

    died = wire.plain(b'{"error": "model runner has unexpectedly stopped"}', status="500 Internal Server Error")
    async with process.before(tmp_path, wire.answering(died), **settings) as (router, _), router.http() as http:

        async def said(query: str = "", **headers: str) -> dict[str, Any]:
            answer = await http.get(f"/router/explain?model=m{query}", headers=headers)
            document: dict[str, Any] = answer.json()
            return document

        assert (await said())["longestHoldSeconds"] is None
        assert (await said("&internal=true"))["longestHoldSeconds"] == 120
        assert (await said(**{"X-Jervis-Internal": "true"}))["longestHoldSeconds"] == 120
        assert (await said("&internal=false", **{"X-Jervis-Internal": "true"}))["longestHoldSeconds"] is None
        assert (await said())["quarantined"] == 0
        assert [(await router.send(_raw())).status for _ in range(2)] == [500, 422]
        assert (await said())["quarantined"] == 1


# Silence, and options of the runner.

_HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
_TOOLS = [{"type": "function", "function": {"name": "write", "parameters": {}}}]


async def _pauses(message: wire.Message, reader: Any, writer: asyncio.StreamWriter) -> None:
    """A first piece, silence as when a tool call is composed, and the rest."""
    writer.write(wire.chunked_head() + wire.chunk(b'{"n":1}\n'))
    await writer.drain()
    await asyncio.sleep(4)
    with suppress(ConnectionError):
        writer.write(wire.chunk(b'{"n":2,"done":true}\n') + wire.chunk(b""))
        await writer.drain()


async def test_a_stream_that_composes_a_tool_call_is_not_cut(tmp_path: Path) -> None:
    async with process.before(tmp_path, _pauses, between_chunks_seconds="1") as (router, _):
        for padding in ("", "x" * 70_000):
            plain, composing = await asyncio.gather(
                router.post("/api/chat", {**_HELLO, "pad": padding}),
                router.post("/api/chat", {**_HELLO, "pad": padding, "tools": _TOOLS}),
            )
            assert (plain.clean, "silent" in plain.body.decode()) == (False, True)
            assert (composing.clean, composing.body) == (True, b'{"n":1}\n{"n":2,"done":true}\n')


async def test_a_cpu_has_longer_deadlines_and_is_not_blamed_for_being_late(tmp_path: Path) -> None:
    limits = {"first_byte_seconds": "1", "cpu_first_byte_seconds": "3", "circuit_failures": "1"}
    async with wire.backend(wire.silent, models=("cpu",)) as cpu, wire.backend(wire.silent, models=("gpu",)) as gpu:
        specs = [process.spec("c", cpu.url, kind="CPU"), process.spec("g", gpu.url)]
        async with process.running(tmp_path, specs, **limits) as router:
            for model, name, failing in (("gpu", "g", ["gpu:latest"]), ("cpu", "c", [])):
                answer = await router.post("/api/chat", {**_HELLO, "model": model})
                assert (answer.status, answer.header("X-Ollama-Router-Reason")) == (504, "BackendLate")
                allowed = {"g": "1 s", "c": "3 s"}[name]
                assert f"silent for {allowed}" in answer.json()["error"]
                assert (await router.backend(name))["modelsFailing"] == failing


async def test_options_of_the_runner_are_the_routers_for_models_that_it_owns(tmp_path: Path) -> None:
    runner = {"num_gpu": 0, "num_batch": 8, "num_thread": 2, "use_mmap": False, "main_gpu": 1}
    options = {**runner, "num_ctx": 2048, "seed": 7}
    async with wire.backend(wire.answering()) as backend:
        backend.ps = [{"name": "m:latest", "model": "m:latest", "size": 1, "size_vram": 1}]
        sets = process.model_set({"name": "m", "numCtx": 8192})
        async with process.running(tmp_path, [process.spec("raw", backend.url, vram="1Gi", modelSets=sets)]) as router:
            await router.until(lambda s: s["backends"][0]["loaded"] == ["m:latest"])
            for pad in ("", "x" * 70_000):
                raw = wire.post("/api/chat", {**_HELLO, "options": options, "pad": pad})
                assert (await router.send(raw)).status == 200
            sent = [json.loads(r.body) for r in backend.requests if r.path == "/api/chat"]
            dropped = dict.fromkeys(options) | {"num_ctx": 8192, "seed": 7}
            assert [body["options"] for body in sent] == [dropped] * 2
            assert await router.metric("jervis_router_context_unset_total") == 0
            assert (await router.post("/v1/chat/completions", _HELLO)).status == 200
            assert await router.metric("jervis_router_context_unset_total") == 1
            for option in runner:
                assert await router.metric(f'jervis_router_runner_options_dropped_total{{option="{option}"}}') == 2
