"""`jervis-kb erase` against an HTTP server that answers as the service does."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from cli.knowledge import __main__ as program
from cli.knowledge import erase
from kb import api
from tests import httpserver
from tests.kb import scopes


class Service:
    """Remembers what it was asked; done with the erasure after two looks."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[api.ErasureDraft] = []
        self.looks = 0

    async def ask(self, request: web.Request) -> web.Response:
        draft = api.ErasureDraft.model_validate_json(await request.read())
        self.asked.append(draft)
        return self._answer(self._erasure(draft), 202)

    async def look(self, request: web.Request) -> web.Response:
        self.looks += 1
        if self.looks == 1:
            problem = {"error": {"code": "unavailable", "message": "mongodb is away"}}
            return web.json_response(problem, status=503)
        return self._answer(api.Erasures(erasures=[self._erasure(self.asked[-1])]), 200)

    def _erasure(self, draft: api.ErasureDraft) -> api.Erasure:
        return api.Erasure(
            id="e1",
            scope=draft.scope,
            state="Done" if self.looks >= 3 else "Running",
            requested_by=draft.by,
            requested_at=datetime(2026, 3, 1, tzinfo=UTC),
            erased={"documents": self.looks, "rules": 0},
        )

    @staticmethod
    def _answer(reply: Any, status: int) -> web.Response:
        return web.Response(status=status, text=reply.model_dump_json(by_alias=True), content_type="application/json")


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made, app = Service(), web.Application()
    app.router.add_post("/api/v1/erasures", made.ask)
    app.router.add_get("/api/v1/erasures", made.look)
    async with httpserver.serving(app) as made.url:
        yield made


async def run(*arguments: str) -> int:
    """The program in a thread, as its own event loop wants it."""

    def call() -> int:
        try:
            return program.main(arguments)
        except SystemExit as ended:
            return int(ended.code or 0)

    return await asyncio.to_thread(call)


async def test_it_is_followed_to_its_end(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase, "_PAUSE", 0.0)
    where = ("--client", "acme", "--project", "shop", "--by", "jana", "--url", service.url)
    assert await run("erase", *where, "--yes") == 0
    said = capsys.readouterr()
    assert said.out == "Erased: 3 documents.\n"
    assert "Being erased, so far: nothing." in said.err
    [draft] = service.asked
    assert (draft.scope.project_id, draft.by) == ("shop", "jana")


async def test_it_wants_the_name_again(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("--client", "acme", "--by", "jana", "--url", service.url, "--no-wait")
    monkeypatch.setattr("sys.stdin", io.StringIO("shop\n"))
    assert await run("erase", *where) != 0
    assert "nothing was erased" in capsys.readouterr().err
    assert service.asked == []
    monkeypatch.setattr("sys.stdin", io.StringIO("acme\n"))
    assert await run("erase", *where) == 0
    assert "its projects and groups included" in capsys.readouterr().err
    assert (len(service.asked), service.looks) == (1, 0)


def test_what_has_to_be_typed() -> None:
    names = [erase.named(where) for where in (scopes.SHOP, scopes.RETAIL, scopes.ACME, scopes.GLOBAL)]
    assert names == ["shop", "retail", "acme", "global"]
    assert "not its projects" in erase.about(scopes.RETAIL)
