"""How long a backend may be silent, and options of clients that would make it load a model anew."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.router import process, wire

_CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
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
    async with (
        wire.backend(_pauses) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)], between_chunks_seconds="1") as router,
    ):
        for padding in ("", "x" * 70_000):
            plain, composing = await asyncio.gather(
                wire.ask(router.port, wire.post("/api/chat", {**_CHAT, "pad": padding})),
                wire.ask(router.port, wire.post("/api/chat", {**_CHAT, "pad": padding, "tools": _TOOLS})),
            )
            assert (plain.clean, "silent" in plain.body.decode()) == (False, True)
            assert (composing.clean, composing.body) == (True, b'{"n":1}\n{"n":2,"done":true}\n')


async def test_a_cpu_has_longer_deadlines_and_is_not_blamed_for_being_late(tmp_path: Path) -> None:
    async def silent(message: wire.Message, reader: asyncio.StreamReader, writer: Any) -> None:
        await reader.read()

    limits = {"first_byte_seconds": "1", "cpu_first_byte_seconds": "3", "circuit_failures": "1"}
    async with wire.backend(silent, models=("cpu",)) as cpu, wire.backend(silent, models=("gpu",)) as gpu:
        specs = [process.spec("c", cpu.url, kind="CPU"), process.spec("g", gpu.url)]
        async with process.running(tmp_path, specs, **limits) as router:
            for model, name, failing in (("gpu", "g", ["gpu:latest"]), ("cpu", "c", [])):
                answer = await wire.ask(router.port, wire.post("/api/chat", {**_CHAT, "model": model}))
                assert (answer.status, answer.header("X-Ollama-Router-Reason")) == (504, "BackendLate")
                allowed = {"g": "1 s", "c": "3 s"}[name]
                assert f"silent for {allowed}" in answer.json()["error"]
                assert (await router.backend(name))["modelsFailing"] == failing


async def test_options_of_the_runner_are_the_routers_for_models_that_it_owns(tmp_path: Path) -> None:
    async def play(message: wire.Message, reader: Any, writer: asyncio.StreamWriter) -> bool:
        writer.write(wire.plain(b"{}"))
        return True

    runner = {"num_gpu": 0, "num_batch": 8, "num_thread": 2, "use_mmap": False, "main_gpu": 1}
    options = {**runner, "num_ctx": 2048, "seed": 7}
    async with wire.backend(play) as backend:
        backend.ps = [{"name": "m:latest", "model": "m:latest", "size": 1, "size_vram": 1}]
        sets = process.model_set({"name": "m", "numCtx": 8192})
        async with process.running(tmp_path, [process.spec("raw", backend.url, vram="1Gi", modelSets=sets)]) as router:
            await router.until(lambda s: s["backends"][0]["loaded"] == ["m:latest"])
            for pad in ("", "x" * 70_000):
                raw = wire.post("/api/chat", {**_CHAT, "options": options, "pad": pad})
                assert (await wire.ask(router.port, raw)).status == 200
            sent = [json.loads(r.body) for r in backend.requests if r.path == "/api/chat"]
            dropped = dict.fromkeys(options) | {"num_ctx": 8192, "seed": 7}
            assert [body["options"] for body in sent] == [dropped] * 2
            assert await router.metric("jervis_router_context_unset_total") == 0
            assert (await wire.ask(router.port, wire.post("/v1/chat/completions", _CHAT))).status == 200
            assert await router.metric("jervis_router_context_unset_total") == 1
            for option in runner:
                assert await router.metric(f'jervis_router_runner_options_dropped_total{{option="{option}"}}') == 2
