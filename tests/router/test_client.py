"""The door for Python, against a real router before a simulator and before sockets that misbehave."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from crds import errors
from crds.priority import Priority
from router import client, priority
from router.client import schema
from router.settings import Settings
from tests.fakes.ollama import process as ollama
from tests.router import process, wire


class Answered(schema.Shape):
    answer: str


_ASK = [{"role": "user", "content": "hello"}]


async def test_chat_embed_and_status(tmp_path: Path) -> None:
    with ollama.running(models=["qwen2.5:7b", "qwen3-embedding:8b"]) as fake:
        async with process.running(tmp_path, [process.spec("g", fake.url)]) as router, router.http() as http:
            door = client.Client(router.url + "/", http)
            text = await door.chat("qwen2.5:7b", _ASK, Priority.P0, num_ctx=8192)
            assert text
            whole = {"model": "qwen2.5:7b", "messages": _ASK, "stream": False}
            direct = await http.post(fake.url + "/api/chat", json=whole)
            assert text == direct.json()["message"]["content"]
            seen = fake.requests(path="/api/chat")[0]
            assert seen["body"]["options"] == {"num_ctx": 8192}
            wire_schema = schema.wire(Answered)
            assert "answer" in json.loads(await door.chat("qwen2.5:7b", _ASK, Priority.P3, format_schema=wire_schema))
            reply = await door.converse("qwen2.5:7b", _ASK, Priority.P0, num_predict=3)
            assert reply.prompt_tokens > 0
            assert 0 < reply.answer_tokens <= 3
            assert fake.requests(path="/api/chat")[-1]["body"]["options"] == {"num_predict": 3}
            tool = {"type": "function", "function": {"name": "routeTask", "parameters": {"type": "object"}}}
            fake.set_script({"t/v1": [{"toolCalls": [{"name": "routeTask", "arguments": {"a": [1]}}]}]})
            tagged = [{"role": "user", "content": "[prompt:t/v1]"}]
            called = await door.converse("qwen2.5:7b", tagged, Priority.P0, tools=[tool])
            assert (called.text, called.calls) == ("", (client.ToolCall("routeTask", {"a": [1]}),))
            assert fake.requests(path="/api/chat")[-1]["body"]["tools"] == [tool]
            vectors = await door.embed("qwen3-embedding:8b", ["one", "two", "one"], Priority.P3)
            assert [len(v) for v in vectors] == [384] * 3
            assert vectors[0] == pytest.approx(vectors[2])
            before = fake.count()
            assert await door.embed("qwen3-embedding:8b", [], Priority.P3) == []
            status = await door.status()
            assert [(b.name, b.kind, b.healthy, b.in_flight) for b in status.backends] == [("g", "GPU", True, 0)]
            assert status.last_p0 is not None
            assert fake.count(path="/api/embed") == 1 <= before


def test_no_client_gives_up_before_the_router_does() -> None:
    given = Settings()
    deadlines = dict(zip(Priority, (given.deadlines[priority.LEVELS[one]] for one in Priority), strict=True))
    assert {one: deadlines[one] + given.first_byte_seconds for one in Priority} == client.SILENCE


async def test_texts_whose_runner_ended_are_embedded_later(tmp_path: Path) -> None:
    """Ollama answers 400 then, which otherwise is the request's own fault."""
    with ollama.running(models=["qwen3-embedding:8b"]) as fake:
        fake.set_faults([{"match": {"path": "/api/embed"}, "nth": 1, "crash": {}}])
        async with process.running(tmp_path, [process.spec("g", fake.url)]) as router, router.door() as door:
            with pytest.raises(client.Unavailable, match="HTTP 400: do embedding request: "):
                await door.embed("qwen3-embedding:8b", ["one"], Priority.P3)
            assert len(await door.embed("qwen3-embedding:8b", ["one"], Priority.P3)) == 1


async def test_wrong_model_is_permanent_and_named(tmp_path: Path) -> None:
    with ollama.running(models=["qwen2.5:7b"]) as fake:
        async with process.running(tmp_path, [process.spec("g", fake.url)]) as router, router.door() as door:
            with pytest.raises(client.Rejected, match="'qwen9:1b'") as caught:
                await door.chat("qwen9:1b", _ASK, Priority.P0)
            assert isinstance(caught.value, errors.Permanent)
            assert caught.value.field == "model"
            assert "GpuBackend" in (caught.value.remedy or "")


async def test_busy_and_broken_are_operational(tmp_path: Path) -> None:
    answers = [
        wire.plain(b'{"error":"server busy"}', status="429 Too Many Requests\r\nRetry-After: 7"),
        wire.chunked_head() + wire.chunk(b'{"error":"runner stopped"}\n') + wire.chunk(b""),
        wire.chunked_head() + wire.chunk(b"\n") + wire.chunk(b""),
        wire.chunked_head() + wire.chunk(b'{"message":{"content":"half"},"done":false}\n'),
        wire.chunked_head() + wire.chunk(b"<html>\n") + wire.chunk(b""),
    ]
    async with process.before(tmp_path, wire.in_turn(*answers)) as (router, _), router.door() as door:
        raised = []
        for _ in answers:
            with pytest.raises(client.Unavailable) as caught:
                await door.chat("m", _ASK, Priority.P3)
            raised.append(caught.value)
        assert [e.retry_after for e in raised] == [7, None, None, None, None]
        assert "server busy" in raised[0].message
        assert "runner stopped" in raised[1].message
        assert "broke off" in raised[2].message
        assert all(isinstance(e, errors.Operational) for e in raised)


def _lines(*records: dict[str, object]) -> bytes:
    body = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    return wire.chunked_head() + wire.chunk(body) + wire.chunk(b"")


_DONE: dict[str, object] = {"message": {"content": ""}, "done": True, "prompt_eval_count": 90, "eval_count": 3}
_REFUSED = wire.plain(
    b'{"error":"registry.ollama.ai/library/m:latest does not support tools"}', status="400 Bad Request"
)


async def test_what_engines_do_beside_the_simulation(tmp_path: Path) -> None:
    blanks = [{"message": {"content": "\n"}, "done": False}] * 600
    answers = [
        # Ollama ends a model that writes the same token thirty times like this.
        _lines({"message": {"content": "half"}, "done": False}),
        _lines({"message": {"content": "{"}, "done": False}, *blanks, _DONE),
        _lines({"message": {"content": "", "thinking": "hm"}}, {"message": {"content": "yes"}}, _DONE),
        _REFUSED,
        _lines({"message": {"content": '{"name": "find", "arguments": {"q": "a"}}'}}, _DONE),
        _lines({"message": {"content": '{"answer": "done"}'}}, _DONE),
        wire.plain(b'{"error":"\\"m\\" does not support thinking"}', status="400 Bad Request"),
        _lines({"message": {"content": "ok"}}, _DONE),
        _lines({"message": {"content": "ok"}}, _DONE),
        wire.plain(b'{"error":"the input length exceeds the context length"}', status="400 Bad Request"),
        _lines({"message": {"content": "ok"}}, _DONE),
    ]

    tool = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}
    async with process.before(tmp_path, wire.in_turn(*answers)) as (router, backend), router.door() as door:
        ended = await door.converse("m", _ASK, Priority.P3)
        assert (ended.text, ended.cut, ended.endless) == ("half", True, True)
        blank = await door.converse("m", _ASK, Priority.P3)
        assert blank.cut
        assert len(blank.text) < 600
        thought = await door.converse("m", _ASK, Priority.P3)
        assert (thought.text, thought.thinking) == ("yes", "hm")
        called = await door.converse("m", _ASK, Priority.P3, tools=[tool])
        assert called.calls == (client.ToolCall("find", {"q": "a"}),)
        # The next call knows.
        assert (await door.converse("m", _ASK, Priority.P3, tools=[tool])).text == "done"
        assert (await door.converse("m", _ASK, Priority.P3, think=True)).text == "ok"
        for answer_number in range(2):
            with pytest.raises(client.TooLong) as caught:
                await door.converse("m", _ASK, Priority.P3, num_ctx=90)
            assert caught.value.field == "messages", answer_number
        with pytest.raises(client.TooLong):
            assert [piece.text async for piece in door.stream("m", _ASK, Priority.P3, num_ctx=90)]
        bodies = [json.loads(request.body) for request in backend.requests]
    assert [("tools" in body, "format" in body, body.get("think")) for body in bodies[3:8]] == [
        (True, False, None), (False, True, False), (False, True, False), (False, False, True), (False, False, None)
    ]  # fmt: skip
    assert all(body["truncate"] is False and body["shift"] is False for body in bodies)


async def test_nobody_there_is_operational_and_a_bad_address_is_not() -> None:
    async with httpx.AsyncClient(verify=False) as http:
        with pytest.raises(client.Unavailable, match=r"http://127\.0\.0\.1:9"):
            await client.Client("http://127.0.0.1:9", http).embed("m", ["x"], Priority.P3)
        with pytest.raises(client.Rejected, match="not an address"):
            await client.Client("router:11430", http).status()


async def test_a_cancelled_call_hangs_up(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.silent) as (router, _), router.door() as door:
        call = asyncio.create_task(door.chat("m", _ASK, Priority.P0))
        await router.until(lambda s: s["backends"][0]["inFlight"] == 1)
        call.cancel()
        await router.until(lambda s: s["backends"][0]["inFlight"] == 0)
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_gpu_is_reserved_renewed_refused_to_others_and_given_back(tmp_path: Path) -> None:
    sets = process.model_set({"name": "qwen2.5:7b"})
    with ollama.running(models=["qwen2.5:7b"]) as fake:
        specs = [process.spec("g", fake.url, modelSets=sets)]
        async with process.running(tmp_path, specs) as router, router.door() as door:
            first = await door.announce("operator", "qwen2.5:7b")
            assert (first.backend, first.model_set) == ("g", "set")
            assert (await door.announce("operator", lease_id=first.lease_id)).lease_id == first.lease_id
            for stranger in (door.announce("somebody"), door.release("somebody", first.lease_id)):
                with pytest.raises(client.Taken, match="another owner") as caught:
                    await stranger
            assert caught.value.retry_after
            assert [await door.release("operator", first.lease_id) for _ in range(2)] == [True, False]


async def test_a_token_is_read_anew_for_each_call(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = client.token_file(str(file))
    with pytest.raises(client.Unavailable, match="cannot be read"):
        token()
    for content in ("first", "second\n"):
        file.write_text(content)
        assert token() == content.strip()
    assert client.token_file("")() is None
