"""Who may do what: names of the router, pages of other origins, paths, compressed bodies, reservations, addresses."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from router.proxy import encoding, refusal
from router.proxy.connection import Broken
from router.proxy.pool import Pool
from tests.router import process, wire

_PERSON, _OTHER, _ADMIN = "person-token-0123456789", "other-token-0123456789", "admin-token-0123456789"
_LOW = "low-token-0123456789"
_CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def _tokens(directory: Path) -> str:
    entries: list[dict[str, Any]] = [
        {"name": "person", "token": _PERSON},
        {"name": "other", "token": _OTHER},
        {"name": "low", "token": _LOW, "ceiling": "P1"},
        {"name": "admin", "token": _ADMIN, "admin": True},
    ]
    return process.tokens(directory, *entries)


# Names.


def _named(host: str, method: str = "GET", path: str = "/api/tags", more: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}Content-Length: 0\r\n\r\n".encode()


async def test_a_page_reaches_the_router_neither_by_a_name_of_its_own_nor_from_its_origin(tmp_path: Path) -> None:
    specs = [process.spec("raw", "http://127.0.0.1:1")]
    async with process.running(tmp_path, specs, allowed_hosts='["ollama.example.com"]') as router:
        foreign = await router.send(_named("rebound.evil.com"))
        assert foreign.status == 403
        assert "JERVIS_ROUTER_ALLOWED_HOSTS" in foreign.json()["error"]
        for path in ("/healthz", "/"):
            assert (await router.send(_named("rebound.evil.com", path=path))).status == 403
        assert (await router.send(_named("ollama.example.com", path="/healthz"))).status == 200
        cross = _named("router", "POST", "/router/announce", "Origin: http://evil.com\r\n")
        assert (await router.send(cross)).status == 403
        # Its own page may, and hears of the body that it did not send.
        same = _named("router", "POST", "/router/announce", "Origin: http://router\r\n")
        assert (await router.send(same)).status == 400


_AGENT = ("Origin", "https://agent.example.com")


async def test_pages_call_no_path_unless_a_setting_names_them(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering(), origins='["https://agent.example.com"]') as (router, backend):
        chat = {"model": "m", "messages": []}
        for origin in ("https://evil.com", "null", "http://router.test.evil.com"):
            for raw in (
                wire.post("/api/chat", chat, [("Origin", origin)]),
                wire.post("/v1/chat/completions", chat, [("Origin", origin)]),
                wire.request("OPTIONS", "/api/chat", headers=[("Origin", origin)]),
                wire.request("GET", "/api/tags", headers=[("Origin", origin)]),
                wire.request("GET", "/router/status", headers=[("Origin", origin)]),
                # What a form sends, which no browser asks about before.
                wire.request("POST", "/api/chat", b"{}", [("Origin", origin), ("Content-Type", "text/plain")]),
            ):
                answer = await router.send(raw)
                assert (answer.status, answer.header("Access-Control-Allow-Origin")) == (403, None), raw
        assert backend.requests == []
        # curl and SDKs stay as they are.
        assert (await router.send(wire.request("POST", "/api/chat", b'{"model": "m"}'))).status == 200
        assert (await router.post("/api/chat", chat, [_AGENT])).status == 200
        assert backend.requests[-1].header("Origin") is None


async def test_a_page_that_a_setting_names_may_call_and_read(tmp_path: Path) -> None:
    settings = {"tokens_file": _tokens(tmp_path), "origins": '["https://agent.example.com"]'}
    async with process.before(tmp_path, wire.answering(), **settings) as (router, backend):
        wanted = ("Access-Control-Request-Headers", "authorization,content-type")
        # A browser shows no token when it asks whether it may.
        asked = await router.send(wire.request("OPTIONS", "/api/chat", headers=[_AGENT, wanted]))
        assert (asked.status, asked.header("Access-Control-Allow-Headers")) == (204, wanted[1])
        assert asked.header("Access-Control-Allow-Origin") == _AGENT[1]
        for raw in (
            wire.post("/api/chat", {"model": "m"}, [_AGENT, *wire.bearer(_PERSON)]),
            wire.post("/api/chat", {"model": "m"}, [_AGENT]),
            wire.request("GET", "/api/tags", headers=[_AGENT, *wire.bearer(_PERSON)]),
        ):
            answer = await router.send(raw)
            assert answer.header("Access-Control-Allow-Origin") == _AGENT[1], answer.status
            assert answer.header("Vary") == "Origin"
        assert len(backend.requests) == 1


async def test_where_every_caller_shows_a_token_the_name_is_free(tmp_path: Path) -> None:
    specs = [process.spec("raw", "http://127.0.0.1:1")]
    async with process.running(tmp_path, specs, tokens_file=_tokens(tmp_path)) as router:
        raw = _named("ollama.company.com", path="/router/status", more=f"Authorization: Bearer {_PERSON}\r\n")
        assert (await router.send(raw)).status == 200


# Paths.


async def test_paths_that_no_setting_names_are_an_administrators(tmp_path: Path) -> None:
    settings = {"tokens_file": _tokens(tmp_path), "extra_paths": '["/v1/rerank"]'}
    async with process.before(tmp_path, wire.answering(), **settings) as (router, backend):
        for path in ("/api/signout", "/api/me", "/api/experimental/web_search", "/v1/brand-new"):
            answer = await router.post(path, {"model": "m"}, wire.bearer(_PERSON))
            assert answer.status == 404, path
        for path in ("/api/pull", "/api/delete"):
            assert (await router.post(path, {"model": "m"}, wire.bearer(_PERSON))).status == 403, path
        assert not backend.requests
        named = [*wire.bearer(_ADMIN), ("X-Ollama-Router-Backend", "raw")]
        assert (await router.post("/api/signout", {}, named)).status == 200
        assert (await router.post("/v1/rerank", {"model": "m"}, wire.bearer(_PERSON))).status == 200
        assert [request.path for request in backend.requests] == ["/api/signout", "/v1/rerank"]


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions", "/v1/messages"])
async def test_nothing_runs_a_model_without_naming_it(tmp_path: Path, path: str) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, backend):
        bodies = [b"", b"{}", b'{"model":""}', b"not json", b'{"model":7}', b"\x28\xb5\x2f\xfd", b" " * 70_000 + b"[1]"]
        for body in bodies:
            answer = await router.send(wire.request("POST", path, body))
            assert answer.status == 400
        assert (await router.get(path)).status == 405
        assert not backend.requests
        # A browser asks before it sends; that runs nothing.
        assert (await router.send(wire.request("OPTIONS", path))).status == 200


async def test_older_clients_call_the_model_by_name(tmp_path: Path) -> None:
    async with (
        wire.backend(wire.answering(), models=("a:latest",)) as one,
        wire.backend(wire.answering(), models=("b:latest",)) as two,
        process.running(tmp_path, [process.spec("one", one.url), process.spec("two", two.url)]) as router,
    ):
        for _ in range(3):
            answer = await router.post("/api/show", {"name": "b"})
            assert (answer.status, answer.header("X-Ollama-Router-Backend")) == (200, "two")
        assert (len(one.requests), len(two.requests)) == (0, 3)


# Compressed bodies.

_PLAIN = json.dumps(_CHAT).encode()
_PACKED = {
    "zstd": zstandard.ZstdCompressor().compress(_PLAIN),
    "gzip": gzip.compress(_PLAIN),
    "deflate": zlib.compress(_PLAIN),
}


async def test_a_compressed_body_reaches_the_backend_plain_and_takes_a_slot(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, backend):
        for name, packed in _PACKED.items():
            raw = wire.request("POST", "/v1/responses", packed, [("Content-Encoding", name)])
            assert (await router.send(raw)).status == 200, name
        assert [(r.body, r.header("Content-Encoding")) for r in backend.requests] == [(_PLAIN, None)] * 3
        metric = 'jervis_router_requests_total{backend="raw",model="m:latest",priority="Auto"}'
        assert await router.metric(metric) == 3
        for name in ("br", "compress", "gzip, zstd"):
            answer = await router.send(wire.request("POST", "/api/chat", b"x", [("Content-Encoding", name)]))
            assert (answer.status, answer.header("Accept-Encoding")) == (415, "zstd, gzip, deflate")
        broken = wire.request("POST", "/api/chat", _PACKED["zstd"][:-9], [("Content-Encoding", "zstd")])
        assert (await router.send(broken)).status == 400


@pytest.mark.parametrize("name", _PACKED)
def test_decoding_is_bounded(name: str) -> None:
    plain = b"\0" * (40 << 20)
    packs: dict[str, Callable[[bytes], bytes]] = {
        "zstd": zstandard.ZstdCompressor().compress,
        "gzip": gzip.compress,
        "deflate": zlib.compress,
    }
    packed = packs[name](plain)
    assert encoding.decoded(packed, name, len(plain)) == plain
    with pytest.raises(refusal.Refusal) as caught:
        encoding.decoded(packed, name, encoding.MOST)
    assert caught.value.status == 413
    for spoiled in (packed[:-20], b"x" + packed, b""):
        with pytest.raises(refusal.Refusal) as caught:
            encoding.decoded(spoiled, name, len(plain))
        assert caught.value.status == 400


# Reservations.


async def test_a_reservation_belongs_to_the_identity_that_made_it(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering(), tokens_file=_tokens(tmp_path)) as (router, _):

        async def call(what: str, token: str, **body: str) -> wire.Message:
            return await router.post(f"/router/{what}", {"owner": "job", **body}, wire.bearer(token))

        low = await call("announce", _LOW)
        assert (low.status, "ceiling" in low.json()["error"]) == (403, True)
        lease = (await call("announce", _PERSON)).json()["leaseId"]
        for guess in ({}, {"leaseId": lease}):
            for what in ("announce", "release"):
                stranger = await call(what, _OTHER, **guess)
                assert stranger.status == 409
                assert "person" not in stranger.body.decode()
        shown = (await router.status_with(_PERSON))["backends"][0]["reservation"]
        assert shown["owner"] == "person/job"
        explained = await router.get("/router/explain?model=m&priority=P3", wire.bearer(_OTHER))
        (choice,) = explained.json()["candidates"]
        assert choice["why"].startswith("reserved by person/job:")
        assert (await call("release", _PERSON)).json()["released"] is True


async def test_without_a_token_a_reservation_is_released_by_its_id_alone(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, _):
        lease = (await router.post("/router/announce", {"owner": "job"})).json()["leaseId"]
        without = await router.post("/router/release", {"owner": "job"})
        assert (without.status, without.json()["error"].split(":")[0]) == (400, "leaseId")
        shown = (await router.status())["backends"][0]["reservation"]
        assert shown["owner"] == ""
        explained = await router.get("/router/explain?model=m&priority=P3")
        (choice,) = explained.json()["candidates"]
        assert choice["why"] == "reserved: background waits until it is due"
        assert b"job" not in explained.body
        # Nor can a caller without a token pretend to be one with a token.
        assert (await router.post("/router/announce", {"owner": "person/job"})).status == 400
        done = await router.post("/router/release", {"owner": "job", "leaseId": lease})
        assert done.json()["released"] is True


async def test_callers_without_a_token_may_have_a_ceiling(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering(), anonymous_ceiling="P2") as (router, _):
        raw = wire.post("/api/chat", _CHAT, [("X-Ollama-Priority", "0")])
        assert (await router.send(raw)).status == 200
        assert await router.metric('jervis_router_priority_clamped_total{asked="P0",given="P2"}') == 1
        assert (await router.status())["lastUserP0"] is None
        assert (await router.post("/router/announce", {"owner": "job"})).status == 403


# Addresses.


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1",
        "http://2130706433:1",
        "http://169.254.169.254",
        "http://[::ffff:169.254.1.1]",
        "http://[fd00:ec2::254]",
    ],
)
async def test_a_backend_is_never_called_where_the_operator_would_not(url: str) -> None:
    with pytest.raises(Broken, match="never called"):
        await Pool(url, loopback=False).connect()


async def test_a_host_that_is_no_name_is_out_of_reach() -> None:
    with pytest.raises(Broken, match="no name"):
        await Pool(f"http://{'a' * 70}.example:1").connect()
