"""What the client makes of records as servers of either API write them, and of odd ones: a fault of the other side."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from crds.priority import Priority
from router import client
from router.backends import verdict
from router.client import endless, vectors

_ASK = [{"role": "user", "content": "q"}]
_DONE = {"model": "m", "message": {"content": ""}, "done": True, "prompt_eval_count": 3, "eval_count": 4}


def _body(*records: Any) -> bytes:
    lines = (each if isinstance(each, bytes) else json.dumps(each, ensure_ascii=False).encode() for each in records)
    return b"\n".join([*lines, b""])


def _said(content: Any, **more: Any) -> dict[str, Any]:
    return {"message": {"content": content} | more, "done": False}


async def _call(body: bytes, kind: str = "chat", status: int = 200, charset: str = "") -> Any:
    headers = {"Content-Type": f"application/x-ndjson{charset}"}
    server = httpx.MockTransport(lambda request: httpx.Response(status, content=body, headers=headers))
    async with httpx.AsyncClient(transport=server) as http:
        asked = client.Client("http://router", http)
        match kind:
            case "embed":
                return await asked.embed("m", ["a"], Priority.P0)
            case "rerank":
                return await asked.rerank("m", "q", ["a"], Priority.P0)
            case "status":
                return await asked.status()
            case "announce":
                return await asked.announce("owner")
        return await asked.converse("m", _ASK, Priority.P0)


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029", "\x0b", "\r", "\U0001f600"])
async def test_any_character_is_of_its_record(character: str) -> None:
    reply = await _call(_body(_said(f"a{character}b"), _DONE))
    assert reply.text == f"a{character}b"


async def test_a_server_that_does_not_know_the_bound_is_not_listened_to_for_ever() -> None:
    taken = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal taken
        for taken in range(1000):
            yield _body(_said(f"word {taken} "))

    server = httpx.MockTransport(lambda request: httpx.Response(200, content=body()))
    async with httpx.AsyncClient(transport=server) as http:
        reply = await client.Client("http://router", http).converse("m", _ASK, Priority.P0, num_predict=10)
    assert (reply.cut, reply.endless, reply.text.split()[-1]) == (True, False, "19")
    assert taken < 30


@pytest.mark.parametrize("charset", ["", "; charset=utf-16", "; charset=latin-1", "; charset=none"])
async def test_json_is_utf_8(charset: str) -> None:
    assert (await _call(_body(_said("é"), _DONE), charset=charset)).text == "é"


async def test_halves_of_characters_are_replaced() -> None:
    assert (await _call(_body(b'{"message": {"content": "a\\ud83d"}}', _DONE))).text == "a\ufffd"


@pytest.mark.parametrize(
    ("records", "whole"),
    [
        ([_said("\n"), *(_said(piece) for piece in ('{"a": "', "1 ", "2 ", "3 ", "4 ", "5 ", '"}'))], False),
        ([_said("\n"), *(_said(piece) for piece in ('{"a": "', "1", '"}'))], True),
        ([_said("", thinking="So"), *(_said(piece) for piece in ('{"a": "', "1 ", "2 ", "3 ", "4 ", '"}'))], True),
        ([_said("<think>"), *(_said(piece) for piece in ("a ", "b ", "</think>", '{"a": 1', "}"))], True),
    ],
    ids=["too long", "short", "thoughts", "open thoughts"],
)
async def test_json_without_thoughts_has_no_room_for_them(records: list[dict[str, Any]], whole: bool) -> None:
    body = _body(*records, _DONE)
    server = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    async with httpx.AsyncClient(transport=server) as http:
        asked = client.Client("http://router", http)
        reply = await asked.converse("m", _ASK, Priority.P0, unthought=4)
    assert (reply.cut, reply.endless) == (not whole, False)
    assert reply.text.strip() == (
        '{"a": "1 2' if not whole else "".join(r["message"]["content"] for r in records).strip()
    )


@pytest.mark.parametrize(
    "reason",
    [
        "Failed to create new sequence: failed to process inputs: image: unknown format",
        "template: :1:2: executing: no such method",
        "failed to parse grammar",
    ],
)
async def test_what_every_server_would_refuse_is_not_asked_for_again(reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    for status in (500, 200):
        with pytest.raises(client.Rejected, match=reason.split(":")[0]):
            await _call(body + b"\n", status=status)
    with pytest.raises(client.Unavailable):
        await _call(json.dumps({"error": "llama runner process has terminated"}).encode(), status=500)


@pytest.mark.parametrize(("tokens", "cut"), [(89, False), (90, True), (400, False)])
async def test_a_prompt_that_fills_its_window_was_cut_and_a_longer_one_had_another(tokens: int, cut: bool) -> None:
    """Where a GpuBackend states a larger window, the router asks for that one."""
    body = _body(_said("ok"), _DONE | {"prompt_eval_count": tokens})
    server = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    async with httpx.AsyncClient(transport=server) as http:
        asked = client.Client("http://router", http).converse("m", _ASK, Priority.P0, num_ctx=90)
        if cut:
            with pytest.raises(client.TooLong):
                await asked
        else:
            assert (await asked).text == "ok"


async def test_what_is_null_is_not_there() -> None:
    records = {"message": None}, _said(None, thinking=None, tool_calls=None), _said("a") | {"error": None}, _DONE
    assert (await _call(_body(*records))).text == "a"


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (_body({"message": "hi"}, _DONE), "chat", 200),
        (_body(_said([{"type": "text", "text": "hi"}]), _DONE), "chat", 200),
        (_body(_said(5), _DONE), "chat", 200),
        (_body(_said("", thinking={"a": 1}), _DONE), "chat", 200),
        (_body(b"[" * 100_000), "chat", 200),
        (_body(b'{"message": {"content": ' + b"1" * 5000 + b"}}"), "chat", 200),
        (b"[" * 100_000, "chat", 500),
        (b"[" * 100_000, "embed", 200),
        (b'{"embeddings": ["a"]}', "embed", 200),
        (b'{"embeddings": 5}', "embed", 200),
        (b'{"embeddings": [[true]]}', "embed", 200),
        (b'{"results": [5]}', "rerank", 200),
        (b'{"results": {"index": 0}}', "rerank", 200),
        (b'{"results": [{"index": 0, "relevance_score": 1' + b"0" * 400 + b"}]}", "rerank", 200),
        (b'{"results": [{"index": 0, "relevance_score": NaN}]}', "rerank", 200),
        (b"[" * 100_000, "status", 200),
        (b"{}", "announce", 200),
    ],
)
async def test_an_odd_record_is_a_fault_of_the_other_side(body: bytes, kind: str, status: int) -> None:
    with pytest.raises(client.Unavailable):
        await _call(body, kind, status)


async def test_a_deeply_nested_refusal_is_a_refusal() -> None:
    with pytest.raises(client.Rejected):
        await _call(b"[" * 100_000, status=400)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"error": "failed to encode response: json: unsupported value: NaN"}', 500),
        (b'{"error": "json: unsupported value: +Inf"}', 500),
        (b'{"error": "Out of range float values are not JSON compliant: nan"}', 500),
        (b'{"embeddings": [[NaN, 1.0]]}', 200),
        (b'{"embeddings": [[1e400, 1.0]]}', 200),
        (b'{"embeddings": [[null, 1.0]]}', 200),
    ],
)
async def test_a_text_whose_vector_is_no_number_is_not_sent_again(body: bytes, status: int) -> None:
    with pytest.raises(client.NoNumber) as caught:
        await _call(body, "embed", status)
    assert caught.value.field == "input"


async def test_vectors_are_numbers() -> None:
    assert await _call(b'{"embeddings": [[1, 0.5]]}', "embed") == [[1.0, 0.5]]


def _rows(row: str, chars: int) -> list[dict[str, Any]]:
    return [_said(row)] * (chars // len(row))


async def test_a_table_with_equal_rows_is_no_loop_and_a_loop_is_none() -> None:
    row = "| 2024 | 0 | 0 | none | open |\n"
    table = await _call(_body(*_rows(row, endless.WINDOW // 2), _said("That is all."), _DONE))
    assert (table.cut, table.endless, table.text.endswith("That is all.")) == (False, False, True)
    loop = await _call(_body(*_rows(row, 2 * endless.WINDOW), _DONE))
    assert (loop.cut, loop.endless) == (True, True)
    # At its bound a shorter one is known, too.
    bound = _DONE | {"done_reason": "length"}
    for said, endless_ in ((_rows(row, 2 * endless.LOOP), True), ([_said("The year 2024.")], False)):
        reply = await _call(_body(*said, bound))
        assert (reply.cut, reply.endless) == (True, endless_)


# Answers about embedding models.


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1.0]}], [[1.0], [2.0]]),
        ([{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}], [[2.0]]),
        ([{"index": 0, "embedding": "AACAPw=="}], []),
        ([{"embedding": [1.0]}, 5], []),
        (None, []),
        ("no", []),
    ],
)
def test_vectors_come_by_their_index_and_one_that_is_missing_is_missing(data: Any, expected: list[list[float]]) -> None:
    assert vectors.listed({"data": data}) == expected


@pytest.mark.parametrize(
    ("reason", "failed"),
    [
        ('do embedding request: Post "http://127.0.0.1:1/embedding": EOF', True),
        ("llama runner process no longer running: -1", True),
        ("connection refused", True),
        ("the input length exceeds the context length", False),
        ("invalid input type", False),
        ("option: connection refused", False),
    ],
)
def test_a_runner_that_was_not_there_says_nothing_of_the_texts(reason: str, failed: bool) -> None:
    assert verdict.runner_failed(reason) is failed


@pytest.mark.parametrize(
    ("about", "parameters", "expected"),
    [
        ({"general.architecture": "bert", "bert.context_length": 512}, "", 512),
        ({"general.architecture": "bert", "bert.context_length": 512}, "num_ctx                        256", 256),
        ({"general.architecture": "qwen3", "qwen3.context_length": 40960}, 'stop "a"\nnum_ctx 8192\n', 8192),
        ({"general.architecture": "bert", "bert.context_length": True}, "num_ctx many", None),
        ({}, None, None),
        (None, 7, None),
    ],
)
def test_the_window_is_the_smaller_of_context_and_num_ctx(about: Any, parameters: Any, expected: int | None) -> None:
    assert vectors.shown_window({"model_info": about, "parameters": parameters}) == expected


@pytest.mark.parametrize(("size", "expected"), [(512, 512), (0, None), (-1, None), ("512", None), (None, None)])
def test_the_listed_window_is_a_count(size: Any, expected: int | None) -> None:
    assert vectors.listed_window({"max_model_len": size}) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("input (812 tokens) is too large to process. increase the physical batch size", True),
        ("Input validation error: `inputs` must have less than 512 tokens. Given: 812", True),
        ("the model runner has unexpectedly stopped", False),
    ],
)
def test_a_text_that_is_too_long_is_known_by_its_words(message: str, expected: bool) -> None:
    assert vectors.too_long(message) is expected
