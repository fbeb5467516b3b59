"""Bounded HTTP against servers that mean no good, and against honest ones that do not do as they were asked."""

from __future__ import annotations

import asyncio
import gzip
import random
import ssl
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from clients import http, tls_trust
from hack.cluster import certificates
from tests.clients import servers

TEXT = random.Random(1).randbytes(200_000)
_RAW = zlib.compressobj(wbits=-15)


async def body(answer: bytes | servers.Write, most: int = 1 << 20, seconds: float = http.SECONDS) -> bytes:
    async with (
        servers.answering(answer) as (port, _),
        http.client(tls=servers.TLS, seconds=seconds) as client,
        client.stream("GET", f"http://127.0.0.1:{port}/") as response,
    ):
        return await http.read(response, most)


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        pytest.param("identity", TEXT, id="identity"),
        pytest.param("gzip", gzip.compress(TEXT), id="gzip"),
        pytest.param("GZIP", gzip.compress(TEXT), id="upper case"),
        pytest.param("utf-8, gzip", gzip.compress(TEXT) + bytes(512), id="padded"),
        pytest.param("none", TEXT, id="none"),
        pytest.param("aws-chunked", TEXT, id="no compression"),
        pytest.param("gzip", gzip.compress(TEXT[:7]) + gzip.compress(TEXT[7:]), id="two members"),
        pytest.param("deflate", zlib.compress(TEXT), id="deflate"),
        pytest.param("deflate", _RAW.compress(TEXT) + _RAW.flush(), id="deflate without its frame"),
        pytest.param("gzip", gzip.compress(b"\0" * 900_000), id="zeros"),
    ],
)
async def test_what_an_honest_server_encodes_all_the_same_is_read(coding: str, packed: bytes) -> None:
    assert await body(servers.response(packed, f"Content-Encoding: {coding}")) in (TEXT, b"\0" * 900_000)


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "zstd", "identity, br", "deflate,gzip", "gzip, gzip, gzip"])
async def test_of_any_other_coding_nothing_is_read(coding: str) -> None:
    with pytest.raises(httpx.DecodingError, match="which was not asked for"):
        await body(servers.response(TEXT, f"Content-Encoding: {coding}"))


@pytest.mark.parametrize("packed", [gzip.compress(TEXT)[:-9], b"no gzip at all", gzip.compress(b"") * 90])
async def test_what_cannot_be_inflated_is_an_error_of_httpx(packed: bytes) -> None:
    with pytest.raises(httpx.DecodingError):
        await body(servers.response(packed, "Content-Encoding: gzip"))


@pytest.mark.parametrize("layers", [1, 2])
async def test_an_answer_that_grows_is_ended_before_it_is_large(layers: int) -> None:
    answer = servers.bomb(layers)
    assert len(answer) < (400_000, 3_000)[layers - 1]
    tracemalloc.start()
    try:
        with pytest.raises((http.TooLarge, httpx.DecodingError)):
            await body(answer)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


async def test_a_body_without_an_end_is_ended_at_the_bound() -> None:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    with pytest.raises(http.TooLarge, match="1048576"):
        await body(write)


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", b""], ids=["body", "head"])
async def test_an_answer_that_drips_ends_in_time(start: bytes) -> None:
    """Each wait is short, so that httpx's own timeouts never end it."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        for _ in range(99):
            writer.write(b"x" if start else b"HTTP/1.1 103 Early Hints\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)

    with pytest.raises(httpx.ReadTimeout, match=r"longer than 0\.3 s"):
        await body(write, 1000, seconds=0.3)


async def test_a_head_without_an_end_is_refused() -> None:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(5000):
            writer.write(b"X-Field-%d: %s\r\n" % (number, b"y" * 1000))
            await writer.drain()

    with pytest.raises(httpx.RemoteProtocolError):
        await body(write)


async def test_no_coding_is_asked_for_and_neither_cookies_nor_redirects_are_taken() -> None:
    answer = servers.response(b"{}", "Set-Cookie: a=b", "Location: http://127.0.0.1:1/", status=302)
    async with servers.answering(answer) as (port, heads), http.client(tls=servers.TLS) as client:
        for _ in range(2):
            response = await client.get(f"http://127.0.0.1:{port}/", headers={"Accept-Encoding": "gzip"})
            assert response.status_code == 302
    assert len(heads) == 2
    for head in heads:
        assert "accept-encoding: identity" in head.lower()
        assert "cookie" not in head.lower()


class Names:
    """A resolver whose answers are taken one after the other."""

    def __init__(self, *answers: Sequence[str] | Exception) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, int]]()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_connection_goes_to_an_address_that_was_judged_under_the_name_of_the_url() -> None:
    names = Names(["127.0.0.9", "127.0.0.1"], PermissionError("metadata"))
    async with (
        servers.answering(servers.response(b"{}")) as (port, heads),
        http.client(tls=servers.TLS, find=names) as client,
    ):
        assert (await client.get(f"http://gpu.test:{port}/a")).status_code == 200
        # The connection was judged; no second answer of the name can lead elsewhere.
        assert (await client.get(f"http://gpu.test:{port}/b")).status_code == 200
        assert names.asked == [("gpu.test", port)]
        with pytest.raises(httpx.ConnectError, match="metadata"):
            await client.get(f"http://other.test:{port}/")
    assert [line for head in heads for line in head.splitlines() if line.startswith("Host")] == 2 * [
        f"Host: gpu.test:{port}"
    ]


async def test_what_judges_says_why_and_a_name_without_address_is_no_server() -> None:
    class ForbiddenError(Exception):
        pass

    async with http.client(tls=servers.TLS, find=Names(ForbiddenError("never"))) as client:
        with pytest.raises(ForbiddenError, match="never"):
            await client.get("http://bad.test/")
    async with http.client(tls=servers.TLS, find=Names([])) as client:
        with pytest.raises(httpx.ConnectError, match=r"bad\.test has no address"):
            await client.get("http://bad.test/")
        with pytest.raises(httpx.UnsupportedProtocol):
            await client.get("ftp://bad.test/")


async def test_a_kept_connection_serves_no_other_name(tmp_path: Path) -> None:
    """Its certificate was verified for the one that it was opened for."""
    authority = certificates.Authority(tmp_path)
    pair = authority.issue("good", "/CN=good.test", ["good.test"])
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(pair.certificate, pair.key)
    trusted = tls_trust.context(authority.pair.certificate.read_text())
    async with (
        servers.answering(servers.response(b"{}"), tls=served) as (port, heads),
        http.client(tls=trusted, find=servers.here) as client,
    ):
        assert (await client.get(f"https://good.test:{port}/")).status_code == 200
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get(f"https://other.test:{port}/")
    assert len(heads) == 1


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304), ("GET", 429), ("GET", 401), ("GET", 204)])
async def test_what_an_error_is_counts_whatever_its_body_is(method: str, status: int) -> None:
    body = b"" if status in (204, 304) else TEXT
    answer = servers.response(body, "Content-Encoding: br", "Retry-After: 7", status=status)
    async with servers.answering(answer) as (port, _), http.client(tls=servers.TLS) as client:
        response = await client.request(method, f"http://127.0.0.1:{port}/")
    assert (response.status_code, response.headers["Retry-After"], response.content) == (status, "7", b"")


async def test_a_name_has_underscores_or_a_dot_at_its_end() -> None:
    async with (
        servers.answering(servers.response(b"{}")) as (port, _),
        http.client(tls=servers.TLS, find=servers.here) as client,
    ):
        for name in ("with_underscore.test", "dotted.test."):
            assert (await client.get(f"http://{name}:{port}/")).status_code == 200
