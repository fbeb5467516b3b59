"""The history over HTTP while MongoDB is away: every answer says what is wrong and who can mend it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web

from controllers import lease
from controllers.archive import http, mongo
from tests.controllers.archive.build import NOW, UID


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """A server whose archive is at a port where nobody listens."""
    archive = mongo.Archive("mongodb://127.0.0.1:1", "jervis", fence=lambda: None, timeout=1, absent=0.2)
    application = web.Application()
    http.History(archive).serve(application)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()
    archive.close()


@pytest.mark.parametrize("path", ["/api/v1/history", f"/api/v1/history/{UID}"])
async def test_an_absent_mongodb_is_503_and_later(address: str, path: str) -> None:
    async with ClientSession() as http_session, http_session.get(address + path) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        told = (await answer.json())["error"]
        assert (told["code"], told["field"]) == ("unavailable", None)
        assert told["message"].startswith("MongoDB did not tell the history")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/v1/history?limit=many", "limit"),
        ("/api/v1/history?phase=Done&phase=Error", "phase"),
        ("/api/v1/history?what=ever", "what"),
        ("/api/v1/history/not-a-uid", "uid"),
    ],
)
async def test_a_wrong_parameter_is_400_before_mongodb_is_asked(address: str, path: str, field: str) -> None:
    async with ClientSession() as http_session, http_session.get(address + path) as answer:
        assert answer.status == 400
        told = (await answer.json())["error"]
        assert (told["code"], told["field"]) == ("bad_request", field)
        assert told["remedy"]


async def test_the_description_needs_no_mongodb(address: str) -> None:
    async with ClientSession() as http_session, http_session.get(address + "/openapi.json") as answer:
        assert answer.status == 200
        assert (await answer.json())["openapi"] == "3.1.0"


async def test_a_replica_that_does_not_hold_the_lease_writes_nothing() -> None:
    def fence() -> None:
        raise lease.Fenced("this replica does not hold the lease")

    archive = mongo.Archive("mongodb://127.0.0.1:1", "jervis", fence=fence, timeout=1, absent=0.2)
    with pytest.raises(lease.Fenced):
        await archive.prepare()
    with pytest.raises(lease.Fenced):
        await archive.store({"_id": UID})
    with pytest.raises(lease.Fenced):
        await archive.sweep([UID], NOW)
    archive.close()
