"""Signs of life: a client that asked hears that its stream waits, and its request waits, moves and fails as before."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import ollama
import openai
import pytest

from tests.router import process, wire

_ASKS = [("X-Jervis-Progress", "true")]
_EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "hi"}}]}\n\n'
_DONE = b"data: [DONE]\n\n"
_OFTEN = {"progress_seconds": "0.05"}
_STREAM = {"model": "m", "stream": True, "messages": []}


class Slow:
    """A backend whose answers begin and go on when the test says so."""

    def __init__(
        self, first: bytes = _EVENT + _DONE, rest: bytes = b"", content_type: str = "text/event-stream"
    ) -> None:
        self.begin, self.proceed = asyncio.Event(), asyncio.Event()
        self.first, self.rest, self.content_type = first, rest, content_type
        self.open = 0

    async def play(self, message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request."""
        self.open += 1
        gone = asyncio.ensure_future(reader.read(1))
        begun = asyncio.ensure_future(self.begin.wait())
        await asyncio.wait([gone, begun], return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        self.open -= 1
        if gone.done():
            return False
        gone.cancel()
        writer.write(wire.chunked_head(self.content_type) + wire.chunk(self.first))
        if self.rest:
            await writer.drain()
            await self.proceed.wait()
            writer.write(wire.chunk(self.rest))
        writer.write(wire.chunk(b""))
        return False


async def _chunks(reader: asyncio.StreamReader, number: int) -> list[bytes]:
    found = []
    for _ in range(number):
        size = int(await reader.readuntil(b"\r\n"), 16)
        found.append((await reader.readexactly(size + 2))[:-2])
    return found


async def _rest(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    """What comes until the end, and whether that is a proper one."""
    message = wire.Message("", [("Transfer-Encoding", "chunked")])
    await wire.read_body(reader, message, until_eof=False)
    return message.body, message.clean


async def test_who_waits_in_the_queue_is_told_his_position(tmp_path: Path) -> None:
    slow = Slow()
    async with (
        wire.backend(slow.play) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url, numParallel=1)], **_OFTEN) as router,
        wire.connected(router.port) as (reader, writer),
    ):
        others = []
        for _ in range(2):
            others.append(asyncio.create_task(wire.ask(router.port, wire.post("/v1/chat/completions", _STREAM))))
            await router.until(lambda s: s["backends"][0]["inFlight"] + s["queue"]["waiting"] == len(others))
        writer.write(wire.post("/v1/chat/completions", _STREAM, [*_ASKS, ("X-Request-Id", "mine")]))
        head = await wire.read_head(reader)
        assert (head.status, head.header("Content-Type"), head.header("X-Request-Id")) == (
            200,
            "text/event-stream",
            "mine",
        )
        told = await _chunks(reader, 3)
        assert set(told) == {b": queued, position 2 for its model: waits for a slot of raw\n\n"}
        slow.begin.set()
        body, clean = await _rest(reader)
        assert clean
        assert body.endswith(_EVENT + _DONE)
        comments = [part for part in body.removesuffix(_EVENT + _DONE).split(b"\n\n") if part]
        assert all(part.startswith(b": ") for part in comments)
        for answer in await asyncio.gather(*others):
            assert answer.body == _EVENT + _DONE, "who did not ask gets the backend's bytes"
            assert answer.header("X-Ollama-Router-Backend") == "raw"
        assert all(request.header("X-Jervis-Progress") is None for request in backend.requests)
        assert await router.metric('jervis_router_signs_of_life_total{phase="queue"}') >= 3


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
async def test_ollama_s_streams_get_empty_records_and_only_who_asks(tmp_path: Path, path: str) -> None:
    last = b'{"model":"m","done":true}\n'
    slow = Slow(last, content_type="application/x-ndjson")
    async with (
        wire.backend(slow.play) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)], progress_for_all="true", **_OFTEN) as router,
        wire.connected(router.port) as (reader, writer),
    ):
        plain = asyncio.create_task(wire.ask(router.port, wire.post(path, {"model": "m"})))
        writer.write(wire.post(path, {"model": "m"}, _ASKS))
        assert (await wire.read_head(reader)).header("Content-Type") == "application/x-ndjson"
        for line in await _chunks(reader, 2):
            record = json.loads(line)
            text = record["message"].pop("content") if path == "/api/chat" else record["response"]
            assert (text, record["model"], record["done"]) == ("", "m", False)
            assert record["progress"] == "sent to raw, which has not begun to answer"
        slow.begin.set()
        body, clean = await _rest(reader)
        assert (body.splitlines(keepends=True)[-1], clean) == (last, True)
        assert (await plain).body == last


async def test_everybody_s_streams_of_v1_get_comments_when_the_setting_says_so(tmp_path: Path) -> None:
    slow = Slow()
    async with (
        wire.backend(slow.play) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)], progress_for_all="true", **_OFTEN) as router,
        wire.connected(router.port) as (reader, writer),
    ):
        writer.write(wire.post("/v1/chat/completions", _STREAM))
        await wire.read_head(reader)
        assert await _chunks(reader, 2) == [b": waiting\n\n"] * 2
        whole = asyncio.create_task(wire.ask(router.port, wire.post("/v1/chat/completions", {"model": "m"})))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 2)
        await _chunks(reader, 4)
        slow.begin.set()
        assert (await whole).body == _EVENT + _DONE, "an answer in one piece gets none"


async def test_between_events_that_end_with_crlf_too(tmp_path: Path) -> None:
    event = _EVENT.replace(b"\n", b"\r\n")
    slow = Slow(event, _DONE)
    slow.begin.set()
    async with (
        wire.backend(slow.play) as backend,
        process.running(tmp_path, [process.spec("one", backend.url)], **_OFTEN) as router,
        wire.connected(router.port) as (reader, writer),
    ):
        writer.write(wire.post("/v1/chat/completions", _STREAM, _ASKS))
        await wire.read_head(reader)
        assert await _chunks(reader, 2) == [event, b": the answer goes on\n\n"]
        slow.proceed.set()


async def test_between_events_and_never_inside_one(tmp_path: Path) -> None:
    inside, after = Slow(_EVENT[:20], _EVENT[20:] + _DONE), Slow(_EVENT, _DONE)
    async with wire.backend(inside.play, ["in:latest"]) as one, wire.backend(after.play, ["after:latest"]) as two:
        specs = [process.spec("one", one.url), process.spec("two", two.url)]
        async with (
            process.running(tmp_path, specs, **_OFTEN) as router,
            wire.connected(router.port) as (cut, cut_writer),
            wire.connected(router.port) as (reader, writer),
        ):
            for slow in (inside, after):
                slow.begin.set()
            cut_writer.write(wire.post("/v1/chat/completions", {**_STREAM, "model": "in"}, _ASKS))
            await wire.read_head(cut)
            assert await _chunks(cut, 1) == [_EVENT[:20]]
            writer.write(wire.post("/v1/chat/completions", {**_STREAM, "model": "after"}, _ASKS))
            assert (await wire.read_head(reader)).header("X-Ollama-Router-Backend") == "two"
            assert await _chunks(reader, 4) == [_EVENT, *[b": the answer goes on\n\n"] * 3]
            inside.proceed.set()
            after.proceed.set()
            assert await _rest(cut) == (_EVENT[20:] + _DONE, True)
            body, clean = await _rest(reader)
            assert (body.endswith(_DONE), clean) == (True, True)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
async def test_a_failure_after_the_head_is_shown_in_the_stream(tmp_path: Path, path: str) -> None:
    answer = asyncio.Event()

    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await answer.wait()
        writer.write(wire.plain(b'{"error": {"message": "template: no"}}', status="400 Bad Request"))
        return False

    async with (
        wire.backend(script) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)], **_OFTEN) as router,
        wire.connected(router.port) as (reader, writer),
    ):
        writer.write(wire.post(path, _STREAM, _ASKS))
        assert (await wire.read_head(reader)).status == 200
        await _chunks(reader, 1)
        answer.set()
        body, clean = await _rest(reader)
        assert not clean, "it is not taken for the end of an answer"
        last = body.strip().splitlines()[-1].removeprefix(b"data: ")
        said = json.loads(last)["error"]
        assert (said if isinstance(said, str) else said["message"]) == "template: no"
        status = await router.until(lambda s: s["backends"][0]["inFlight"] == 0)
        assert status["backends"][0]["circuit"] == "Closed"


async def test_who_waits_too_long_hears_it_in_the_stream(tmp_path: Path) -> None:
    slow = Slow()
    settings = {**_OFTEN, "deadline_p3_seconds": "0.5"}
    async with (
        wire.backend(slow.play) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url, numParallel=1)], **settings) as router,
        wire.connected(router.port) as (reader, writer),
    ):
        first = asyncio.create_task(wire.ask(router.port, wire.post("/v1/chat/completions", _STREAM)))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 1)
        writer.write(wire.post("/v1/chat/completions", _STREAM, [*_ASKS, ("X-Ollama-Priority", "3")]))
        await wire.read_head(reader)
        body, clean = await _rest(reader)
        assert (b"waited" in body, clean) == (True, False), body
        slow.begin.set()
        await first


async def test_a_request_that_has_only_signs_gives_way_and_moves(tmp_path: Path) -> None:
    gpu, cpu = Slow(), Slow()
    cpu.begin.set()
    models = process.model_set({"name": "m", "cpuAllowed": True})
    async with wire.backend(gpu.play) as fast, wire.backend(cpu.play) as spare:
        specs = [
            process.spec("gpu", fast.url, numParallel=1),
            process.spec("cpu", spare.url, kind="CPU", numParallel=1, modelSets=models),
        ]
        async with (
            process.running(tmp_path, specs, **_OFTEN) as router,
            wire.connected(router.port) as (reader, writer),
        ):
            writer.write(wire.post("/v1/chat/completions", _STREAM, [*_ASKS, ("X-Ollama-Priority", "3")]))
            await wire.read_head(reader)
            assert await _chunks(reader, 1) == [b": sent to gpu, which has not begun to answer\n\n"]
            urgent = wire.post("/v1/chat/completions", _STREAM, [("X-Ollama-Priority", "0")])
            first = asyncio.create_task(wire.ask(router.port, urgent))
            body, clean = await _rest(reader)
            assert (body.endswith(_EVENT + _DONE), body.count(_EVENT), clean) == (True, 1, True)
            assert len(spare.requests) == 1
            gpu.begin.set()
            assert (await first).header("X-Ollama-Router-Backend") == "gpu"


async def test_a_hangup_is_noticed_although_signs_were_sent(tmp_path: Path) -> None:
    slow = Slow()
    async with (
        wire.backend(slow.play) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url, numParallel=1)], **_OFTEN) as router,
    ):
        for waiting in (0, 1):
            async with wire.connected(router.port) as (reader, writer):
                writer.write(wire.post("/v1/chat/completions", _STREAM, _ASKS))
                await wire.read_head(reader)
                await _chunks(reader, 2)
                if not waiting:
                    async with wire.connected(router.port) as (second, asking):
                        asking.write(wire.post("/v1/chat/completions", _STREAM, _ASKS))
                        await wire.read_head(second)
                        await _chunks(second, 2)
                    await router.until(lambda s: s["queue"]["waiting"] == 0)
                    assert len(backend.requests) == 1
            await router.until(lambda s: s["backends"][0]["inFlight"] == 0)
        assert await router.metric('jervis_router_client_hangups_total{phase="queue"}') == 1
        assert await router.metric('jervis_router_client_hangups_total{phase="first_byte"}') == 2


async def test_openai_s_and_ollama_s_clients_read_streams_with_signs(tmp_path: Path) -> None:
    events, lines = Slow(), Slow(b'{"model":"l","message":{"role":"assistant","content":"hi"},"done":true}\n')
    lines.content_type = "application/x-ndjson"
    headers = dict(_ASKS)
    messages: Any = [{"role": "user", "content": "x"}]
    async with wire.backend(events.play) as one, wire.backend(lines.play, ["l:latest"]) as two:
        specs = [process.spec("one", one.url), process.spec("two", two.url)]
        async with process.running(tmp_path, specs, drain_seconds="0", **_OFTEN) as router:

            async def by_openai() -> list[str]:
                async with openai.AsyncOpenAI(
                    base_url=router.url + "/v1", api_key="unused", max_retries=0, default_headers=headers
                ) as client:
                    stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
                    return [part.choices[0].delta.content or "" async for part in stream]

            async def by_ollama() -> list[str]:
                async with ollama.AsyncClient(host=router.url, trust_env=False, headers=headers) as client:
                    parts = await client.chat(model="l", messages=messages, stream=True)
                    return [part.message.content or "" async for part in parts]

            answers = asyncio.gather(by_openai(), by_ollama())
            sent = 'jervis_router_signs_of_life_total{phase="first_byte"}'
            await process.eventually(lambda: router.metric(sent), lambda number: number >= 6)
            events.begin.set()
            lines.begin.set()
            said, heard = await answers
            assert said == ["hi"]
            assert (heard[-1], set(heard[:-1])) == ("hi", {""})

            events.begin.clear()
            async with openai.AsyncOpenAI(
                base_url=router.url + "/v1", api_key="unused", max_retries=0, default_headers=headers
            ) as client:
                asked = asyncio.create_task(client.chat.completions.create(model="m", messages=messages, stream=True))
                stream = await asked
                router.terminate()
                with pytest.raises(openai.APIError, match="shutting down"):
                    async for _ in stream:
                        pass
            await router.ended()
