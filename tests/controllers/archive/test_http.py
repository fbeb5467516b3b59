"""The history over HTTP while MongoDB is away: every answer says what is wrong and who can repair it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any
from urllib.parse import quote

import pytest
import yarl
from aiohttp import ClientSession

from clients import mongo
from controllers.archive import http, tickets
from controllers.archive.mongo import Archive
from crds import scope
from kube import lease
from tests import httpserver
from tests.controllers.archive.build import NOW, UID, no_contents

TICKET = "a-ticket"
HEADERS = {"X-Jervis-Ticket": TICKET}
READER, ANOTHER = "system:serviceaccount:team:jervis-history", "system:serviceaccount:team:x"


async def review(token: str, audience: str) -> dict[str, Any]:
    """The apiserver's answer: it knows one token."""
    return {"authenticated": token == TICKET, "audiences": [audience], "user": {"username": READER}}


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """A server whose archive is at a port without a listener."""
    client = mongo.client("mongodb://127.0.0.1:1", 1, absent=0.2)
    archive = Archive(client["jervis"], fence=lambda: None)
    access = tickets.Tickets(review, "jervis-history", clock=lambda: 0.0)
    async with httpserver.serving(http.History(archive, access, no_contents).application()) as url:
        yield url
    client.close()


@pytest.fixture
async def session(address: str) -> AsyncIterator[ClientSession]:
    """With a ticket."""
    async with ClientSession(address, headers=HEADERS) as made:
        yield made


@pytest.mark.parametrize("path", ["/api/v1/history", f"/api/v1/history/{UID}", f"/api/v1/artifacts/{UID}/k"])
async def test_an_absent_mongodb_is_503_and_later(session: ClientSession, path: str) -> None:
    async with session.get(path) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        told = (await answer.json())["error"]
        assert (told["code"], told["field"]) == ("unavailable", None)
        assert told["message"].startswith("MongoDB did not read the history")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/v1/history?limit=many", "limit"),
        ("/api/v1/history?phase=Done&phase=Error", "phase"),
        ("/api/v1/history?what=ever", "what"),
        ("/api/v1/history?name=Not_a_Name", "name"),
        ("/api/v1/history?since=yesterday", "since"),
        ("/api/v1/history?since=2027-03-01T12:00:00", "since"),
        ("/api/v1/history/not-a-uid", "uid"),
        ("/api/v1/traces/not-a-uid", "uid"),
        ("/api/v1/artifacts/not-a-uid", "uid"),
    ],
)
async def test_a_wrong_parameter_is_400_before_mongodb_is_asked(session: ClientSession, path: str, field: str) -> None:
    async with session.get(path) as answer:
        assert answer.status == 400
        told = (await answer.json())["error"]
        assert (told["code"], told["field"]) == ("bad_request", field)
        assert told["remedy"]


async def test_the_description_needs_no_mongodb(session: ClientSession) -> None:
    async with session.get("/openapi.json") as answer:
        assert answer.status == 200
        assert (await answer.json())["openapi"] == "3.1.0"


async def test_a_replica_that_does_not_hold_the_lease_writes_nothing() -> None:
    def fence() -> None:
        raise lease.Fenced("this replica does not hold the lease")

    client = mongo.client("mongodb://127.0.0.1:1", 1, absent=0.2)
    archive = Archive(client["jervis"], fence=fence)
    with pytest.raises(lease.Fenced):
        await archive.prepare()

    async def documents() -> AsyncGenerator[dict[str, str]]:
        yield {"_id": UID}

    with pytest.raises(lease.Fenced):
        await archive.store(documents())
    with pytest.raises(lease.Fenced):
        await archive.abandon([UID])
    with pytest.raises(lease.Fenced):
        await archive.sweep([UID], NOW)
    client.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"X-Jervis-Ticket": "another"}, 401),
        ({"Authorization": "Basic a-ticket"}, 401),
        ({"X-Jervis-Ticket": "x" * 9000}, 400),
        ({"Authorization": f"Bearer {TICKET}"}, 503),
        ({"authorization": f"bearer {TICKET}"}, 503),
    ],
    ids=["none", "wrong", "basic", "endless", "bearer", "lower-case"],
)
async def test_only_a_ticket_gets_as_far_as_the_archive(address: str, headers: dict[str, str], status: int) -> None:
    async with ClientSession(headers=headers) as session, session.get(f"{address}/api/v1/history") as answer:
        assert answer.status == status
        if status == 401:
            assert (await answer.json())["error"]["field"] == "X-Jervis-Ticket"
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")


async def test_the_apiserver_is_asked_once_in_a_while_about_a_ticket() -> None:
    asked, now = [], [0.0]

    async def counted(token: str, audience: str) -> dict[str, Any]:
        asked.append(token)
        return await review(token, audience)

    access = tickets.Tickets(counted, "jervis-history", clock=lambda: now[0])
    for _ in range(3):
        assert await access.namespace(TICKET, "10.0.0.7") == "team"
        with pytest.raises(tickets.Denied):
            await access.namespace("other", "10.0.0.7")
    assert asked == [TICKET, "other"]
    now[0] = tickets.KEPT_SECONDS
    assert await access.namespace(TICKET, "10.0.0.7") == "team"
    assert asked[2:] == [TICKET]


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": True, "audiences": ["else"], "user": {"username": READER}},
        {"authenticated": True, "user": {"username": READER}},
        {"authenticated": True, "audiences": ["history.jervis.dev"], "user": {"username": "jervis-history"}},
        {"authenticated": True, "audiences": ["history.jervis.dev"], "user": {"username": ANOTHER}},
        {},
    ],
)
async def test_what_is_no_ticket(status: dict[str, Any]) -> None:
    async def answer(token: str, audience: str) -> dict[str, Any]:
        return status

    with pytest.raises(tickets.Denied):
        await tickets.Tickets(answer, "jervis-history", clock=lambda: 0.0).namespace(TICKET, "10.0.0.7")


KEYS = ("x/../../queue", "x/../../../../metrics", "..", "0b2f8a0e", "a/b")


class _Archive:
    """One task, whose result names what a misled model wrote."""

    async def one(self, uid: str) -> dict[str, Any]:
        spec = {"spec": {"clientId": "acme"}}
        kept = {"namespace": "team", "clientId": "acme", "task": spec, "object": spec}
        return {**kept, "result": {"artifacts": list(KEYS)}}

    async def texts(self, uid: str, keys: Sequence[str]) -> dict[str, str]:
        return {}


async def test_only_what_can_be_a_key_is_asked_for() -> None:
    asked: list[str] = []

    async def contents(viewer: scope.Scope, key: str) -> bytes:
        asked.append(key)
        return b"text"

    access = tickets.Tickets(review, "jervis-history", clock=lambda: 0.0)
    served = http.History(_Archive(), access, contents).application()  # type: ignore[arg-type]  # the outside
    async with httpserver.serving(served) as base, ClientSession(headers=HEADERS) as session:
        for key in KEYS:
            url = yarl.URL(f"{base}/api/v1/artifacts/{UID}/{quote(key, safe='')}", encoded=True)
            async with session.get(url) as answer:
                # aiohttp's own router answers for ".." itself.
                assert answer.status == (200 if key in ("0b2f8a0e", "a/b") else 404), key
    assert asked == ["0b2f8a0e", "a/b"]
