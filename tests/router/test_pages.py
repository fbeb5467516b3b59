"""What Ollama answers by itself and a router has to answer for it: pages of other origins, paths that do not exist,
forms, and bodies that are no JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.proxy import body, forms
from tests.router import process, wire

_PAGE = "http://localhost:3000"
_TOKEN = "person-token-0123456789"
_CALLS = [
    *(("GET", path, 200) for path in ("/api/tags", "/api/ps", "/api/version", "/v1/models", "/api/tags/")),
    ("POST", "/api/chat", 404),  # no such model
    ("POST", "/v1/chat/completions", 404),
    ("GET", "/api/nope", 404),
]


def _from(origin: str, method: str, path: str, more: wire.Fields = ()) -> bytes:
    return wire.request(method, path, b'{"model":"zz"}' if method == "POST" else b"", [("Origin", origin), *more])


async def test_pages_of_this_machine_read_every_answer_as_they_read_ollama_s(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, _):
        for method, path, status in _CALLS:
            answer = await router.send(_from(_PAGE, method, path))
            assert (answer.status, answer.header("Access-Control-Allow-Origin")) == (status, _PAGE), path
            asks = [("Access-Control-Request-Method", method), ("Access-Control-Request-Headers", "authorization")]
            asked = await router.send(_from(_PAGE, "OPTIONS", path, asks))
            assert (asked.status, asked.header("Access-Control-Allow-Headers")) == (204, "authorization"), path
        for origin in ("https://evil.example", "http://localhost.evil.example", "http://evil.example:3000"):
            answer = await router.send(_from(origin, "GET", "/api/tags"))
            assert (answer.status, answer.header("Access-Control-Allow-Origin")) == (403, None), origin


async def test_a_browser_asks_first_without_a_token(tmp_path: Path) -> None:
    tokens = process.tokens(tmp_path, {"name": "person", "token": _TOKEN})
    async with process.before(tmp_path, wire.answering(), tokens_file=tokens) as (router, _):
        asks = [("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "authorization")]
        assert (await router.send(_from(_PAGE, "OPTIONS", "/v1/chat/completions", asks))).status == 204
        refused = await router.send(_from(_PAGE, "POST", "/v1/chat/completions"))
        assert (refused.status, refused.header("Access-Control-Allow-Origin")) == (401, _PAGE)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/responses/r1", 404),
        ("POST", "/v1/messages/count_tokens", 404),
        ("POST", "/v1/moderations", 404),
        ("GET", "/v1/files", 404),
        ("GET", "/api/nope", 404),
        ("PUT", "/api/tags", 405),
        ("OPTIONS", "/v1/models", 405),
        ("POST", "/v1/models", 405),
        ("GET", "/api/chat/", 405),
        ("POST", "/api/pull", 403),
    ],
)
async def test_what_no_backend_is_asked_for_is_refused_in_the_form_of_its_api(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, backend):
        answer = await router.send(wire.request(method, path, b'{"model":"m"}'))
        assert answer.status == status
        error = answer.json()["error"]
        assert isinstance(error, dict) == path.startswith("/v1/")
        assert (answer.header("Allow") is not None) == (status == 405)
        assert not backend.requests


async def test_a_slash_at_the_end_changes_nothing(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, backend):
        assert (await router.post("/api/chat/", {"model": "m", "messages": []})).status == 200
        assert [request.path for request in backend.requests] == ["/api/chat"]


_FORM = (
    b'--B\r\nContent-Disposition: form-data; name="file"; filename="model"\r\n\r\nRIFF\r\n'
    b'--B\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n--B--\r\n'
)


async def test_a_form_goes_to_the_backend_that_has_its_model(tmp_path: Path) -> None:
    path = "/v1/audio/transcriptions"
    async with (
        wire.backend(wire.answering(), models=("a:latest",)) as one,
        wire.backend(wire.answering(), models=("whisper:latest",)) as two,
        process.running(
            tmp_path, [process.spec("one", one.url), process.spec("two", two.url)], extra_paths=f'["{path}"]'
        ) as router,
    ):
        for _ in range(2):
            asked = wire.request("POST", path, _FORM, [("Content-Type", 'multipart/form-data; boundary="B"')])
            answer = await router.send(asked)
            assert (answer.status, answer.header("X-Ollama-Router-Backend")) == (200, "two")
        assert [request.body for request in two.requests] == [_FORM, _FORM]


@pytest.mark.parametrize(
    "form",
    [b"", b"--B", b"--B\r\n\r\n", b"--B--\r\n", b"--B\r\nContent-Disposition: form-data\r\n\r\nx", b"--C\r\n\r\nm\r\n"],
)
async def test_a_broken_form_names_no_model(form: bytes) -> None:
    assert await forms.peek(form, b"B") == body.NOTHING


async def test_a_large_form_is_read_as_a_small_one() -> None:
    large = _FORM.replace(b"RIFF", b"R" * 5_000_000)
    assert (await forms.peek(large, b"B")).model == "whisper:latest"


async def test_a_body_that_is_no_json_is_called_so(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, backend):
        answer = await router.send(wire.request("POST", "/api/chat", b'{"model": "m", "messages": [}'))
        assert answer.status == 400
        assert "line 1 column 29" in answer.json()["error"]
        assert not backend.requests


async def test_transfer_codings_other_than_chunks_are_refused(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.answering()) as (router, backend):
        head = b"POST /api/chat HTTP/1.1\r\nHost: router\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
        assert (await router.send(head + b"2\r\n{}\r\n0\r\n\r\n")).status == 501
        assert not backend.requests
