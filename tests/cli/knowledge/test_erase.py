"""`jervis-kb erase` against an HTTP server that answers as the service does."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator

import pytest

from cli.knowledge import erase
from tests.cli import outside
from tests.cli.knowledge.conftest import Run
from tests.kb import scopes


@pytest.fixture
async def service() -> AsyncIterator[outside.Erasures]:
    """Done with an erasure after three looks."""
    async with outside.Erasures(3).serving() as server:
        yield server


async def test_it_is_followed_to_its_end(service: outside.Erasures, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erase, "_PAUSE", 0.0)
    where = ("--client", "acme", "--project", "shop", "--by", "jana", "--url", service.url)
    said = (await run("erase", *where, "--yes")).succeeded()
    assert said.out == "Erased: 2 documents, 1 tasks.\n"
    assert "Being erased, so far: nothing." in said.err
    [draft] = service.asked
    assert (draft.scope.project_id, draft.by) == ("shop", "jana")


async def test_it_wants_the_name_again(service: outside.Erasures, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    where = ("--client", "acme", "--by", "jana", "--url", service.url, "--no-wait")
    monkeypatch.setattr("sys.stdin", io.StringIO("shop\n"))
    (await run("erase", *where)).refused("nothing was erased")
    assert service.asked == []
    monkeypatch.setattr("sys.stdin", io.StringIO("acme\n"))
    assert "its projects and groups included" in (await run("erase", *where)).succeeded().err
    assert (len(service.asked), service.looks) == (1, 0)


def test_what_has_to_be_typed() -> None:
    names = [erase.named(where) for where in (scopes.SHOP, scopes.RETAIL, scopes.ACME, scopes.GLOBAL)]
    assert names == ["shop", "retail", "acme", "global"]
    assert "not its projects" in erase.about(scopes.RETAIL)
