"""Signs of life: a client that asked hears that its stream waits, and its request waits, moves and fails as before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import ollama
import openai
import pytest
from openai.types.responses import ResponseErrorEvent

from tests import waiting
from tests.router import process, wire

_ASKS = [("X-Jervis-Progress", "true")]
_CHAT = "/v1/chat/completions"
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


async def _answered(reader: asyncio.StreamReader, number: int) -> list[bytes]:
    """As `_chunks`, from the first piece of the answer on: on a busy machine signs may come before it."""
    (first,) = await _chunks(reader, 1)
    while first.startswith(b": sent to "):
        (first,) = await _chunks(reader, 1)
    return [first, *await _chunks(reader, number - 1)]


async def _rest(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    """What comes until the end, and whether that is a proper one."""
    message = wire.Message("", [("Transfer-Encoding", "chunked")])
    await wire.read_body(reader, message, until_eof=False)
    return message.body, message.clean


@asynccontextmanager
async def _streamed(
    directory: Path, script: wire.Script, path: str = _CHAT, asks: wire.Fields = _ASKS, **more: Any
) -> AsyncIterator[tuple[process.Router, wire.Backend, asyncio.StreamReader]]:
    """A router before one backend, and a stream that it answers: the head has been read."""
    async with (
        process.before(directory, script, **_OFTEN, **more) as (router, backend),
        wire.connected(router.port) as (reader, writer),
    ):
        writer.write(wire.post(path, _STREAM, asks))
        assert (await wire.read_head(reader)).status == 200
        yield router, backend, reader


async def test_who_waits_in_the_queue_is_told_his_position(tmp_path: Path) -> None:
    slow = Slow()
    async with (
        process.before(tmp_path, slow.play, spec={"numParallel": 1}, **_OFTEN) as (router, backend),
        wire.connected(router.port) as (reader, writer),
    ):
        others = []
        for _ in range(2):
            others.append(asyncio.create_task(router.post(_CHAT, _STREAM)))
            await router.until(lambda s: s["backends"][0]["inFlight"] + s["queue"]["waiting"] == len(others))
        writer.write(wire.post(_CHAT, _STREAM, [*_ASKS, ("X-Request-Id", "mine")]))
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
        process.before(tmp_path, slow.play, progress_for_all="true", **_OFTEN) as (router, _),
        wire.connected(router.port) as (reader, writer),
    ):
        plain = asyncio.create_task(router.post(path, {"model": "m"}))
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
    async with _streamed(tmp_path, slow.play, asks=(), progress_for_all="true") as (router, _, reader):
        assert await _chunks(reader, 2) == [b": waiting\n\n"] * 2
        whole = asyncio.create_task(router.post(_CHAT, {"model": "m"}))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 2)
        await _chunks(reader, 4)
        slow.begin.set()
        assert (await whole).body == _EVENT + _DONE, "an answer in one piece gets none"


async def test_between_events_that_end_with_crlf_too(tmp_path: Path) -> None:
    event = _EVENT.replace(b"\n", b"\r\n")
    slow = Slow(event, _DONE)
    slow.begin.set()
    async with _streamed(tmp_path, slow.play) as (_, _, reader):
        assert await _answered(reader, 2) == [event, b": the answer goes on\n\n"]
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
            cut_writer.write(wire.post(_CHAT, {**_STREAM, "model": "in"}, _ASKS))
            await wire.read_head(cut)
            assert await _answered(cut, 1) == [_EVENT[:20]]
            writer.write(wire.post(_CHAT, {**_STREAM, "model": "after"}, _ASKS))
            await wire.read_head(reader)
            assert await _answered(reader, 4) == [_EVENT, *[b": the answer goes on\n\n"] * 3]
            assert [request.json()["model"] for request in two.requests] == ["after"]
            inside.proceed.set()
            after.proceed.set()
            assert await _rest(cut) == (_EVENT[20:] + _DONE, True)
            body, clean = await _rest(reader)
            assert (body.endswith(_DONE), clean) == (True, True)


@pytest.mark.parametrize("path", [_CHAT, "/api/chat"])
async def test_a_failure_after_the_head_is_shown_in_the_stream(tmp_path: Path, path: str) -> None:
    answer = asyncio.Event()
    fails = wire.closing(wire.plain(b'{"error": {"message": "template: no"}}', status="400 Bad Request"))
    async with _streamed(tmp_path, wire.gated(answer, fails), path) as (router, _, reader):
        await _chunks(reader, 1)
        answer.set()
        body, clean = await _rest(reader)
        assert not clean, "it is not taken for the end of an answer"
        last = body.strip().splitlines()[-1].removeprefix(b"data: ")
        said = json.loads(last)["error"]
        assert (said if isinstance(said, str) else said["message"]) == "template: no"
        status = await router.until(lambda s: s["backends"][0]["inFlight"] == 0)
        assert status["backends"][0]["circuit"] == "Closed"


_TYPED = {"error": {"message": "n is too large", "type": "BadRequestError", "param": "n", "code": 400}}
_OLLAMA_S = {"error": {"message": "template: no", "type": "invalid_request_error", "param": None, "code": None}}
_CLAUDE_S = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}
_CRASHED = {"error": "llama runner process has terminated: exit status 2"}


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        (_CHAT, 400, _TYPED),
        ("/v1/completions", 400, _OLLAMA_S),
        ("/v1/messages", 429, _CLAUDE_S),
        ("/v1/responses", 400, _TYPED),
        ("/api/chat", 500, _CRASHED),
    ],
)
async def test_a_backend_s_error_is_the_same_with_a_sign_and_without(
    tmp_path: Path, path: str, status: int, said: dict[str, Any]
) -> None:
    answer = asyncio.Event()
    fails = wire.gated(answer, wire.closing(wire.plain(json.dumps(said).encode(), status=f"{status} No")))
    async with _streamed(tmp_path, fails, path, request_log="all", circuit_failures="2") as (router, _, reader):
        await _chunks(reader, 1)
        answer.set()
        body, clean = await _rest(reader)
        before, last = [b"", *body.strip().splitlines()][-2:]
        named = before if before.startswith(b"event: ") else b""  # another sign of Ollama's streams is a line as well
        shown = json.loads(last.removeprefix(b"data: "))
        assert ({key: shown[key] for key in said}, clean) == (said, False)
        # Clients of these two skip an event without a name, or without a type.
        assert (named == b"event: error") == (path in ("/v1/messages", "/v1/responses"))
        assert shown.get("type") == ("error" if named else None)
        plain = await router.post(path, _STREAM)
        assert (plain.status, plain.json()) == (status, said)

        signed, unsigned = await router.logged(2)
        kept = ("outcome", "status", "backend", "reason", "attempts", "bytes", "prompt_tokens", "answer_tokens")
        assert [signed.get(name) for name in kept] == [unsigned.get(name) for name in kept]
        assert (signed["outcome"], signed["status"], signed["backend"]) == ("error", status, "raw")
        assert await router.metric(f'jervis_router_responses_total{{by="backend",code="{status // 100}xx"}}') == 2
        assert await router.metric(f'jervis_router_responses_total{{by="router",code="{status // 100}xx"}}') == 0
        labels = 'backend="raw",model="m:latest",priority="Auto"'
        assert await router.metric(f"jervis_router_requests_total{{{labels}}}") == 2
        failing = ["m:latest"] if status == 500 else []
        await router.until(lambda s: s["backends"][0]["modelsFailing"] == failing)


@pytest.mark.parametrize(
    ("status", "sent", "kind"),
    [
        (404, b"404 page not found", "not_found_error"),
        (401, b"", "authentication_error"),
        (400, b'{"error": "it is only a text"}', "invalid_request_error"),
        (200, b'{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}', "api_error"),
    ],
)
async def test_an_answer_that_has_no_error_of_openai_s_gets_the_type_of_its_status(
    tmp_path: Path, status: int, sent: bytes, kind: str
) -> None:
    answer = asyncio.Event()
    answers = wire.gated(answer, wire.closing(wire.plain(sent, status=f"{status} As It Is")))
    async with _streamed(tmp_path, answers, request_log="all") as (router, _, reader):
        await _chunks(reader, 1)
        answer.set()
        body, clean = await _rest(reader)
        error = json.loads(body.strip().splitlines()[-1].removeprefix(b"data: "))["error"]
        assert (error["type"], error["param"], error["code"], clean) == (kind, None, None, False)
        assert error["message"] == (
            "it is only a text" if status == 400 else f"the backend answered {status} and sent no stream"
        )
        (line,) = await router.logged(1)
        assert (line["outcome"], line["status"], line["backend"]) == ("error", status, "raw")
        if status == 200:
            assert (line["prompt_tokens"], line["answer_tokens"]) == (7, 5), "they were used all the same"


async def test_an_error_that_breaks_off_is_shown_as_far_as_it_is_known(tmp_path: Path) -> None:
    answer = asyncio.Event()
    breaks = wire.closing(wire.chunked_head("application/json") + wire.chunk(b'{"choices": ['))
    async with _streamed(tmp_path, wire.gated(answer, breaks), request_log="all") as (router, _, reader):
        await _chunks(reader, 1)
        answer.set()
        body, clean = await _rest(reader)
        events = [part for part in body.split(b"\n\n") if part.startswith(b"data: ")]
        assert (len(events), b"sent no stream" in events[-1], clean) == (1, True, False)
        (line,) = await router.logged(1)
        assert (line["outcome"], line["status"]) == ("broken", 200)


async def test_the_router_s_refusal_has_the_type_that_it_has_without_a_sign(tmp_path: Path) -> None:
    gone = b'{"error": {"message": "model \'m\' not found", "type": "not_found_error", "param": null, "code": null}}'
    answer = asyncio.Event()

    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await answer.wait()
        backend.models = []
        writer.write(wire.plain(gone, status="404 Not Found"))
        return False

    async with (
        process.before(tmp_path, script, spec={"numParallel": 1}, request_log="all", **_OFTEN) as (router, backend),
        wire.connected(router.port) as (reader, writer),
    ):
        first = asyncio.create_task(router.post(_CHAT, _STREAM))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 1)
        writer.write(wire.post(_CHAT, _STREAM, _ASKS))
        await wire.read_head(reader)
        await _chunks(reader, 1)
        answer.set()
        body, clean = await _rest(reader)
        assert (await first).status == 404
        error = json.loads(body.strip().splitlines()[-1].removeprefix(b"data: "))["error"]
        plain = await router.post(_CHAT, _STREAM)
        assert (error["type"], clean) == ("not_found_error", False)
        assert error == plain.json()["error"]
        refused = [line for line in await router.logged(3) if line["outcome"] == "refused"]
        assert [(line["status"], line["reason"]) for line in refused] == [(404, "UnknownModel")] * 2


async def test_who_waits_too_long_hears_it_in_the_stream(tmp_path: Path) -> None:
    slow = Slow()
    async with (
        process.before(
            tmp_path, slow.play, spec={"numParallel": 1}, deadlines="[600, 900, 1800, 1800, 4]", **_OFTEN
        ) as (router, _),
        wire.connected(router.port) as (reader, writer),
    ):
        first = asyncio.create_task(router.post(_CHAT, _STREAM))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 1)
        writer.write(wire.post(_CHAT, _STREAM, [*_ASKS, ("X-Ollama-Priority", "3")]))
        await wire.read_head(reader)
        body, clean = await _rest(reader)
        assert (b"waited" in body, clean) == (True, False), body
        slow.begin.set()
        await first


async def test_a_request_that_has_only_signs_gives_way_and_moves(tmp_path: Path) -> None:
    gpu, cpu = Slow(), Slow()
    cpu.begin.set()
    models = process.model_set({"name": "m", "cpuAllowed": True})
    async with (
        process.before_two(
            tmp_path,
            gpu.play,
            cpu.play,
            names=("gpu", "cpu"),
            specs=({"numParallel": 1}, {"kind": "CPU", "numParallel": 1, "modelSets": models}),
            **_OFTEN,
        ) as (router, _, spare),
        wire.connected(router.port) as (reader, writer),
    ):
        writer.write(wire.post(_CHAT, _STREAM, [*_ASKS, ("X-Ollama-Priority", "3")]))
        await wire.read_head(reader)
        assert await _chunks(reader, 1) == [b": sent to gpu, which has not begun to answer\n\n"]
        urgent = wire.post(_CHAT, _STREAM, [("X-Ollama-Priority", "0")])
        first = asyncio.create_task(router.send(urgent))
        body, clean = await _rest(reader)
        assert (body.endswith(_EVENT + _DONE), body.count(_EVENT), clean) == (True, 1, True)
        assert len(spare.requests) == 1
        gpu.begin.set()
        assert (await first).header("X-Ollama-Router-Backend") == "gpu"


async def test_a_hangup_is_noticed_although_signs_were_sent(tmp_path: Path) -> None:
    slow = Slow()
    async with process.before(tmp_path, slow.play, spec={"numParallel": 1}, **_OFTEN) as (router, backend):
        for waiting in (0, 1):
            async with wire.connected(router.port) as (reader, writer):
                writer.write(wire.post(_CHAT, _STREAM, _ASKS))
                await wire.read_head(reader)
                await _chunks(reader, 2)
                if not waiting:
                    async with wire.connected(router.port) as (second, asking):
                        asking.write(wire.post(_CHAT, _STREAM, _ASKS))
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

            async def by_ollama() -> list[str]:
                async with ollama.AsyncClient(host=router.url, trust_env=False, headers=headers) as client:
                    parts = await client.chat(model="l", messages=messages, stream=True)
                    return [part.message.content or "" async for part in parts]

            async with openai.AsyncOpenAI(
                base_url=router.url + "/v1", api_key="unused", max_retries=0, default_headers=headers
            ) as client:

                async def by_openai() -> list[str]:
                    stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
                    return [part.choices[0].delta.content or "" async for part in stream]

                answers = asyncio.gather(by_openai(), by_ollama())
                sent = 'jervis_router_signs_of_life_total{phase="first_byte"}'
                await waiting.eventually(lambda: router.metric(sent), good=lambda number: number >= 6)
                events.begin.set()
                lines.begin.set()
                said, heard = await answers
                assert said == ["hi"]
                assert (heard[-1], set(heard[:-1])) == ("hi", {""})

                events.begin.clear()
                stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
                router.terminate()
                with pytest.raises(openai.APIError, match="shutting down"):
                    async for _ in stream:
                        pass
            await router.ended()


async def test_a_stream_of_anthropic_s_that_breaks_off_ends_with_a_named_event(tmp_path: Path) -> None:
    breaks = wire.closing(wire.chunked_head("text/event-stream") + wire.chunk(b"event: message_start\ndata: {}\n\n"))
    async with process.before(tmp_path, breaks) as (router, _):
        answer = await router.post("/v1/messages", _STREAM)
        name, data = answer.body.strip().split(b"\n\n")[-1].splitlines()
        assert (name, answer.clean) == (b"event: error", False)
        said = json.loads(data.removeprefix(b"data: "))
        assert (said["type"], said["error"]["type"]) == ("error", "api_error")
        refused = await router.post("/v1/messages", {**_STREAM, "model": "unknown"})
        assert (refused.json()["type"], refused.json()["error"]["type"]) == ("error", "not_found_error")


async def test_openai_s_client_reads_a_late_error_of_responses(tmp_path: Path) -> None:
    """Its own model of the event takes it, and so does the client, which raises for the member `error`."""
    begun = b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{}}\n\n'
    breaks = wire.closing(wire.chunked_head("text/event-stream") + wire.chunk(begun))
    async with process.before(tmp_path, breaks) as (router, _):
        answer = await router.post("/v1/responses", _STREAM)
        name, data = answer.body.strip().split(b"\n\n")[-1].splitlines()
        assert (name, answer.clean) == (b"event: error", False)
        event = ResponseErrorEvent.model_validate_json(data.removeprefix(b"data: "))
        assert (event.type, event.code) == ("error", "api_error")
        assert event.message.startswith("backend 'raw': ")
        async with openai.AsyncOpenAI(base_url=router.url + "/v1", api_key="unused", max_retries=0) as client:
            stream = await client.responses.create(model="m", input="x", stream=True)
            with pytest.raises(openai.APIError, match="backend 'raw'"):
                async for _ in stream:
                    pass
