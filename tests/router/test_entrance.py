"""Who may enter: bearer tokens, administrators, tokens that backends want; and the wire as an attacker would use it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from contracts.tokens import token_reviews
from router import auth
from tests import waiting
from tests.router import process, wire

_PERSON, _ADMIN = "person-token-0123456789", "admin-token-0123456789"
_EMBED = {"model": "m", "input": "x"}


def _tokens(directory: Path) -> str:
    person, admin = {"name": "person", "token": _PERSON, "ceiling": "P2"}, {"name": "admin", "token": _ADMIN}
    return process.tokens(directory, person, {**admin, "admin": True})


async def test_with_tokens_everybody_says_who_they_are(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering(), tokens_file=_tokens(tmp_path)) as (router, backend):
        raw = wire.post("/api/embed", _EMBED)
        refused = await router.send(raw)
        assert (refused.status, refused.header("WWW-Authenticate")) == (401, 'Bearer realm="jervis"')
        assert "Authorization: Bearer" in refused.json()["error"]
        wrong = await router.post("/v1/embeddings", _EMBED, wire.bearer("x" * 20))
        assert (wrong.status, wrong.json()["error"]["type"]) == (401, "authentication_error")
        lists = [(await router.get(p)).status for p in ("/api/tags", "/router/status")]
        assert lists == [401, 401]
        free = [(await router.get(p)).status for p in ("/", "/healthz", "/metrics")]
        assert free == [200, 200, 200]
        assert not backend.requests
        for headers in (wire.bearer(_PERSON), [("x-api-key", _PERSON)]):
            assert (await router.post("/api/embed", _EMBED, headers)).status == 200
        # The token opened the router; no backend gets to see it.
        assert [(r.header("Authorization"), r.header("x-api-key")) for r in backend.requests] == [(None, None)] * 2
        assert await router.metric('jervis_router_unauthorized_total{status="401"}') == 4


async def test_a_body_is_not_even_read_without_a_token(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering(), tokens_file=_tokens(tmp_path)) as (router, _):
        head = b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n"
        assert (await router.send(head)).status == 401


async def test_ceiling_of_a_token_lowers_the_claim(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering(), tokens_file=_tokens(tmp_path)) as (router, _):
        for token in (_PERSON, _ADMIN):
            raw = wire.post("/api/embed", _EMBED, [*wire.bearer(token), ("X-Ollama-Priority", "0")])
            assert (await router.send(raw)).status == 200
        sample = 'jervis_router_requests_total{backend="raw",model="m:latest",priority="%s"}'
        assert [await router.metric(sample % level) for level in ("P0", "P2")] == [1, 1]
        assert await router.metric('jervis_router_priority_clamped_total{asked="P0",given="P2"}') == 1


async def test_administration_needs_an_administrator_and_one_backend(tmp_path: Path) -> None:
    async with process.before_two(
        tmp_path,
        wire.answering(wire.chunked_head() + wire.chunk(b'{"status":"success"}\n') + wire.chunk(b"")),
        wire.answering(wire.chunked_head() + wire.chunk(b'{"status":"success"}\n') + wire.chunk(b"")),
        tokens_file=_tokens(tmp_path),
    ) as (router, a, b):

        async def pull(*headers: tuple[str, str]) -> wire.Message:
            return await router.post("/api/pull", {"model": "new"}, headers)

        assert (await pull()).status == 401
        assert (await pull(*wire.bearer(_PERSON), ("X-Ollama-Router-Backend", "a"))).status == 403
        unnamed = await pull(*wire.bearer(_ADMIN))
        assert (unnamed.status, unnamed.json()["error"].endswith("one of: a, b")) == (400, True)
        done = await pull(*wire.bearer(_ADMIN), ("X-Ollama-Router-Backend", "b"))
        assert (done.status, done.body) == (200, b'{"status":"success"}\n')
        assert (len(a.requests), len(b.requests)) == (0, 1)
        assert b.requests[0].header("X-Ollama-Router-Backend") is None
        assert [x["inFlight"] for x in (await router.status_with(_ADMIN))["backends"]] == [0, 0]


async def test_without_tokens_nobody_is_an_administrator(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, backend):
        raw = wire.request("DELETE", "/api/delete", b'{"model":"m"}', [("X-Ollama-Router-Backend", "raw")])
        assert (await router.send(raw)).status == 403
        assert not backend.requests


async def test_where_tokens_are_optional_a_wrong_one_is_still_refused(tmp_path: Path) -> None:
    opened = process.before(tmp_path, wire.answering(), tokens_file=_tokens(tmp_path), token_required="false")
    async with opened as (router, _):

        async def ask(path: str, *headers: tuple[str, str]) -> int:
            return (await router.post(path, _EMBED, headers)).status

        assert [await ask("/api/embed"), await ask("/api/embed", *wire.bearer("w" * 20))] == [200, 401]
        target = ("X-Ollama-Router-Backend", "raw")
        assert [await ask("/api/pull", target), await ask("/api/pull", target, *wire.bearer(_ADMIN))] == [403, 200]


async def test_tokens_are_read_again_when_the_file_changes(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering(), tokens_file=_tokens(tmp_path)) as (router, _):
        fresh = "fresh-token-0123456789"
        (tmp_path / "tokens.json").write_text(json.dumps([{"name": "fresh", "token": fresh}]))

        async def status() -> int:
            return (await router.post("/api/embed", _EMBED, wire.bearer(fresh))).status

        assert await waiting.eventually(status, good=lambda code: code == 200) == 200
        assert (await router.post("/api/embed", _EMBED, wire.bearer(_PERSON))).status == 401


@pytest.mark.parametrize("text", ["{", '[{"name":"a"}]', '[{"name":"a","token":"short"}]', "null"])
async def test_unusable_tokens_stop_the_start_with_the_field(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(text)
    router = process.start(tmp_path, [], tokens_file=str(path))
    assert await router.ended() == 2
    assert "tokens.json" in router.text()
    assert "name" in router.text()


@pytest.mark.parametrize("key", ["token", "bearer"])
async def test_a_backend_behind_authentication_gets_its_own_token(tmp_path: Path, key: str) -> None:
    (tmp_path / "gpu-secret").mkdir()
    (tmp_path / "gpu-secret" / "token").write_text("another-token\n")
    (tmp_path / "gpu-secret" / key).write_text("backend-token\n")
    reference = {"name": "gpu-secret"} if key == "token" else {"name": "gpu-secret", "key": key}
    opened = process.before(tmp_path, wire.answering(), spec={"secretRef": reference}, secrets_dir=str(tmp_path))
    async with opened as (router, backend):

        async def seen() -> Any:
            await router.post("/api/embed", _EMBED, wire.bearer("of-the-client"))
            return backend.requests[-1].header("Authorization")

        assert await waiting.eventually(seen, good=lambda value: value == "Bearer backend-token")


async def test_background_mode_is_no_user_activity_and_stays_here(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, backend):
        urgent = ("X-Ollama-Priority", "0")
        await router.post("/api/embed", _EMBED, [urgent, ("X-Jervis-Mode", "Background")])
        status = await router.status()
        assert status["lastUserP0"] is None
        assert status["lastP0"].endswith("Z")
        assert backend.requests[-1].header("X-Jervis-Mode") is None
        assert status["backends"][0]["lastUserP0"] is None
        await router.post("/api/embed", _EMBED, [urgent, ("X-Jervis-Mode", "Foreground")])
        # The document is shared for a while by those who ask for it.
        status = await router.until(lambda document: document["lastUserP0"] is not None)
        assert status["lastUserP0"].endswith("Z")
        assert status["backends"][0]["lastUserP0"] >= status["lastUserP0"], "the backend that it was given to"


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (b"GET /api/tags HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", 400),
        (b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(300)) + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 400_000, 431),
    ],
    ids=["two framings", "two lengths", "space in a name", "TLS", "CONNECT", "many fields", "endless head"],
)
async def test_what_is_not_a_proper_request_is_refused_and_the_connection_ends(
    tmp_path: Path, raw: bytes, status: int
) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, backend):
        answer = await router.send(raw)
        assert (answer.status, answer.header("Connection")) == (status, "close")
        assert not backend.requests


async def test_requests_sent_ahead_are_answered_in_order(tmp_path: Path) -> None:
    async with (
        process.before(tmp_path, wire.echo) as (router, backend),
        wire.connected(router.port) as (reader, writer),
    ):
        bodies = [{"model": "m", "input": "x" * n} for n in (1, 60_000, 3, 4)]
        writer.write(b"".join(wire.post("/api/embed", body) for body in bodies))
        answers = []
        for _ in bodies:
            answer = await wire.read_answer(reader)
            answers.append(answer.json())
        assert answers == bodies
        assert [r.json() for r in backend.requests] == bodies


async def test_an_offer_of_another_protocol_is_ignored(tmp_path: Path) -> None:
    async with (
        process.before(tmp_path, wire.answering()) as (router, backend),
        wire.connected(router.port) as (reader, writer),
    ):
        offer = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")]
        for _ in range(2):
            writer.write(wire.post("/api/embed", _EMBED, offer))
            answer = await wire.read_answer(reader)
            assert (answer.status, answer.body) == (200, b"{}")
        assert all(r.header("Upgrade") is None and r.header("HTTP2-Settings") is None for r in backend.requests)


async def test_a_client_that_sends_slowly_is_cut_off_and_holds_no_slot(tmp_path: Path) -> None:
    async with (
        process.before(tmp_path, wire.answering(), client_read_seconds="0.4") as (router, backend),
        wire.connected(router.port) as (reader, writer),
    ):
        writer.write(b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        answer = await wire.read_answer(reader)
        assert (answer.status, answer.header("Connection")) == (408, "close")
        assert answer.header("X-Ollama-Router-Reason") == "ClientTooSlow"
        assert await reader.read() == b""
        assert not backend.requests
        assert (await router.status())["queue"]["waiting"] == 0


async def test_the_body_of_an_offer_is_never_a_request_of_its_own(tmp_path: Path) -> None:
    async with (
        process.before(tmp_path, wire.answering()) as (router, backend),
        wire.connected(router.port) as (reader, writer),
    ):
        inner = b"POST /api/embed HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        raw = wire.request("POST", "/api/show", inner, [("Connection", "Upgrade"), ("Upgrade", "h2c")])
        for at in (0, 1, len(raw) - 20, len(raw) - 1):
            writer.write(raw[:at])
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(raw[at:])
            answer = await wire.read_answer(reader)
            assert answer.status == 200
        assert [r.body for r in backend.requests] == [inner] * 4
        offer = b"Connection: Upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = b"POST /api/chat HTTP/1.1\r\nHost: x\r\n" + offer
        assert (await router.send(chunks + wire.chunk(inner) + wire.chunk(b""))).status == 400


async def test_answers_are_kept_believed_while_nobody_can_be_asked_and_asked_once() -> None:
    clock, asked, away = 0.0, 0, False

    async def review(token: str) -> str | None:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        if away:
            raise auth.Away("no way")
        return "system:serviceaccount:default:friend" if token == "good" else None

    reviewed = auth.reviewed(review, auth.accounts(["default/*"], [], namespace="jervis"), now=lambda: clock)
    good, bad = token_reviews.digest("good"), token_reviews.digest("bad")
    found = await asyncio.gather(*(reviewed.find("good", "10.0.0.1") for _ in range(50)))
    assert ({identity and identity.name for identity in found}, asked) == ({"system:serviceaccount:default:friend"}, 1)
    assert await reviewed.find("bad", "10.0.0.1") is None
    assert (reviewed.recall(good)[0], reviewed.recall(bad)) == (True, (True, None))
    clock = 30.0
    assert (reviewed.recall(good)[0], reviewed.recall(bad)[0]) == (True, False)
    clock, away = 100.0, True
    assert reviewed.recall(good)[0] is False
    assert await reviewed.find("good", "10.0.0.1") == found[0]
    clock = 1000.0
    with pytest.raises(auth.Away):
        await reviewed.find("good", "10.0.0.1")
