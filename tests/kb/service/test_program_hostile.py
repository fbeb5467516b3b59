"""Requests that are not sent by mistake: each gets an answer that says whose fault it is; the next one is served."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import httpx
import pytest

from kb import api
from tests.kb import scopes, world
from tests.kb.files import making
from tests.kb.service import program
from tests.kb.service.callers import SHOP

pytestmark = pytest.mark.services

TEXTS = [
    "\x00", "a\x00b", "\ud800", "\U0010ffff", "\u202e", "x" * 5_000, "$where", "{{7*7}}", "'; DROP TABLE jobs; --",
    "a" * 200 + "\x00", "../../etc/passwd", "\r\nX-Evil: 1", "%00", "%ED%A0%80", "9" * 400, "-1", "1e9999", "NaN",
    "*", "\u0661",
]  # fmt: skip
MOMENTS = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59Z", "2026-02-30T00:00:00Z"]
QUERIES = [
    ("GET", "/api/v1/queue", ("limit",)),
    ("GET", "/api/v1/aliases", ("key",)),
    ("GET", "/api/v1/aliases/candidates", ("key",)),
    ("DELETE", "/api/v1/aliases", ("alias",)),
    ("DELETE", "/api/v1/documents", ("sourceUrn",)),
    ("GET", "/api/v1/health/consistency", ("after", "limit")),
    ("GET", "/api/v1/graph/nodes", ("key", "q", "type", "limit")),
    ("GET", "/api/v1/graph/relationship", ("source", "type", "target", "limit", "asOf")),
    ("GET", "/api/v1/rules", ("ruleType",)),
    ("GET", "/api/v1/rules/history", ("ruleKey",)),
    ("DELETE", "/api/v1/rules", ("ruleKey", "deletedBy")),
    ("GET", "/api/v1/memory/session", ("limit",)),
    ("GET", "/api/v1/memory/procedural", ("trigger", "limit")),
    ("DELETE", "/api/v1/memory/procedural", ("id",)),
    ("GET", "/api/v1/erasures", ()),
    ("GET", "/api/v1/user-context", ()),
    ("POST", "/api/v1/ingest/file", ("filename", "sourceUrn", "title", "kind", "observedAt")),
]


def document(**more: Any) -> dict[str, Any]:
    return {"scope": SHOP, "sourceUrn": "u:1", "kind": "email", "content": "text", **more}


def bodies() -> list[tuple[str, Any]]:
    made: list[tuple[str, Any]] = []
    for text in TEXTS:
        made += [
            ("/api/v1/ingest", document(title=text, content=text + " said", sourceUrn=text + "u")),
            ("/api/v1/ingest", document(metadata={text: text})),
            ("/api/v1/ingest", document(content=f"user:{text}|OWNS|file:{text}", attachments=[text + "n"])),
            ("/api/v1/retrieve", {"scope": SHOP, "query": text, "sources": [text + "*"], "kinds": [text]}),
            ("/api/v1/retrieve", {"scope": SHOP, "query": text, "explain": True}),
            ("/api/v1/store", {"scope": SHOP, "subject": text, "content": text}),
            ("/api/v1/graph/traverse", {"scope": SHOP, "start": [text], "edgeTypes": [text]}),
            ("/api/v1/memory/session", {"scope": SHOP, "source": "chat", "summary": text[:200], "id": text[:200]}),
            ("/api/v1/memory/task/t", {"scope": SHOP, "structuredData": {text: text}}),
            ("/api/v1/memory/task/t", {"scope": SHOP, "structuredData": {"a": {f"${text}": text, "a.b": 1}}}),
            ("/api/v1/queue/prioritize", {"scope": SHOP, "id": text}),
            ("/api/v1/queue/retry", {"scope": SHOP, "id": text}),
            ("/api/v1/crawl", {"scope": SHOP, "url": f"http://{text}/"}),
            ("/api/v1/retrieve", {"scope": {"clientId": text}, "query": "q"}),
        ]  # fmt: skip
    for moment in MOMENTS:
        made.append(("/api/v1/ingest", document(observedAt=moment, sourceUrn=f"m:{moment}")))
        made += [
            ("/api/v1/retrieve", {"scope": SHOP, "query": "q", name: moment}) for name in ("since", "until", "asOf")
        ]
    deep: Any = "end"
    for _ in range(200):
        deep = {"a": deep}
    return [
        *made,
        ("/api/v1/ingest", document(metadata={"deep": deep})),
        ("/api/v1/ingest", document(metadata={str(number): number for number in range(20_000)})),
        ("/api/v1/ingest", document(content=None, contentRef={"key": "k" * 9_000, "sha256": "0" * 64, "bytes": 1})),
        ("/api/v1/ingest", document(content=" \n\t")),
        ("/api/v1/retrieve", {"scope": SHOP, "query": "(" * 4_000 + "a" * 4_000}),
    ]


RAW = [
    b"",
    b"{",
    b"[" * 100_000,
    b'{"scope": ' * 50_000,
    b"\xff\xfe",
    b"null",
    b"[]",
    b'"text"',
    b"1e999",
    b'"\\ud800"',
]
NAMES = "dns is away"
HEADERS = [{"X-Ollama-Priority": value} for value in ("-1", "99", "P9", "\u0661".encode(), "1,2", "x" * 4_000)] + [
    {"Content-Type": "text/html"},
    {"Accept": "application/x-ndjson, */*;q=nan"},
    {"traceparent": "00-" + "f" * 200},
]


def everything() -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and what goes with it."""
    made: list[tuple[str, str, dict[str, Any]]] = []
    for (method, path, names), text in itertools.product(QUERIES, [*TEXTS[::2], *MOMENTS]):
        given = text.encode("utf-8", "surrogatepass")
        made += [(method, path, {"params": {**SHOP, name: given}}) for name in names or ("clientId",)]
    made += [("POST", path, {"content": json.dumps(body)}) for path, body in bodies()]
    asked = ("/api/v1/ingest", "/api/v1/retrieve", "/api/v1/crawl")
    made += [("POST", path, {"content": raw}) for raw, path in itertools.product(RAW, asked)]
    paths = ("/api/v1/ingest/file", "/api/v1/ingest/image")
    packed = (b"PK\x03\x04" + b"\x00" * 100, making.zip_bomb(300))
    files = [*packed, b"%PDF-1.7", making.mails_within_mails(60), b"\x00" * 9]
    made += [("POST", path, {"params": SHOP, "content": raw}) for raw, path in itertools.product(files, paths)]
    plain = {"scope": SHOP, "query": "q"}
    made += [("POST", "/api/v1/retrieve", {"json": plain, "headers": headers}) for headers in HEADERS]
    odd = ("/api/v1/content/..%2f..%2fetc", "/api/v1/memory/task/%00", "/kb/%2e%2e/%2e%2e/etc/passwd", "//api")
    return [*made, *(("GET", path, {"params": SHOP}) for path in odd)]


async def test_every_one_is_answered_and_none_is_a_bug(run: program.Running) -> None:
    wrong: list[str] = []
    async with run() as kb:

        async def send(method: str, path: str, **more: Any) -> None:
            try:
                answer = await kb.http.request(method, kb.url + path, **more)
            except (httpx.InvalidURL, UnicodeEncodeError, httpx.LocalProtocolError):
                return  # it cannot even be sent
            if path.endswith("/crawl") and NAMES in answer.text:
                return  # names as any other; a resolver that is away cannot say that they do not exist
            if answer.status_code >= 500:
                wrong.append(f"{method} {path} {str(more)[:300]}: {answer.status_code} {answer.text[:200]}")
            elif answer.status_code >= 400 and path.startswith("/api/"):
                said = answer.json()["error"]
                if "no query parameter" in said["message"]:
                    wrong.append(f"{method} {path} {str(more)[:300]}: it never came to the handler")
                if not said["message"]:
                    wrong.append(f"{method} {path} {str(more)[:300]}: no message")

        described = (await kb.http.get("/api/v1/openapi.json")).json()["paths"]
        for method, path, names in QUERIES:
            read = {one["name"] for one in described[path][method.lower()]["parameters"]}
            assert set(names) <= read, f"{method} {path} reads none of {set(names) - read}"
        waiting = everything()

        async def work() -> None:
            while waiting:
                method, path, more = waiting.pop()
                await send(method, path, **more)

        await asyncio.gather(*(work() for _ in range(12)))
        await kb.client.learning.index(world.request(urn="after"))
        question = api.RetrieveRequest(scope=scopes.SHOP, query="login bug", sources=["after"])
        assert (await kb.client.retrieve(question)).items
        log = kb.log.read_text()
    unhandled = [line[:600] for line in log.splitlines() if '"unhandled"' in line or '"broken"' in line]
    assert (wrong, unhandled) == ([], []), "\n".join([*wrong[:20], *unhandled[:5]])
