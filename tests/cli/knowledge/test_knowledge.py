"""`jervis-kb` against a knowledge base on a socket: a folder goes in, a question is answered."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import stamina

from cli import codes
from cli.knowledge import access
from kb import client
from kb.retrieve import rank, search
from tests import ports, waiting
from tests.cli.knowledge.conftest import Run
from tests.kb import scopes, world
from tests.kb.service import serving
from tests.router import wire

WHERE = ["--client", "acme", "--project", "shop", "--group", "retail"]


@pytest.fixture
async def kb(open_world: world.Opening) -> AsyncIterator[tuple[world.ObservedState, str]]:
    async with open_world(within="kb") as made, serving.over(made, made.meters) as (_, raw):
        yield made, str(raw.base_url)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "notes"
    (place / "deep").mkdir(parents=True)
    (place / "login.md").write_text("The login bug JERV-123 affects UserService.kt.")
    (place / "deep" / "team.txt").write_text("Petr Svoboda leads the core team.")
    (place / "empty.md").write_text("")
    (place / ".hidden.md").write_text("secret")
    (place / "blank.md").write_text("  \n")
    return place


async def test_a_folder_goes_in_and_a_question_is_answered(
    kb: tuple[world.ObservedState, str], folder: Path, run: Run
) -> None:
    made, url = kb
    said = await run("ingest", str(folder), *WHERE, "--url", url)
    said.refused("empty.md: it is empty", "blank.md: it has no visible character")
    # The service runs in this process and its log goes to the same place.
    assert said.out.splitlines()[-1] == "2 new, 0 replaced, 1 left out, 1 failed"
    assert (await made.graph.counts(scopes.SHOP)).documents == 2

    (folder / "blank.md").unlink()
    again = (await run("ingest", str(folder), *WHERE, "--url", url)).succeeded()
    assert again.out.splitlines()[-1] == "0 new, 2 replaced, 1 left out, 0 failed"

    question = ("ask", "Who leads the core team?", *WHERE, "--url", url)
    assert "file::notes/deep/team.txt" in (await run(*question)).succeeded().out
    [item] = (await run(*question, "-o", "json", "-n", "1")).succeeded().json["items"]
    assert item["provenance"]["title"] == "deep/team.txt"
    assert "Nothing is known" in (await run("ask", "Who?", "--client", "other", "--url", url)).succeeded().out


async def test_a_file_that_comes_back_with_an_older_date_is_the_newer_version(
    kb: tuple[world.ObservedState, str], tmp_path: Path, run: Run
) -> None:
    made, url = kb
    folder = tmp_path / "notes"
    folder.mkdir()
    for text, day in (("Jana Novak leads the core team.", 2), ("Petr Svoboda leads the core team.", 1)):
        (folder / "team.txt").write_text(text)
        at = datetime(2026, 1, day, tzinfo=UTC).timestamp()
        os.utime(folder / "team.txt", (at, at))
        done = (await run("ingest", str(folder), *WHERE, "--url", url)).succeeded()
    assert done.out.splitlines()[-1] == "0 new, 1 replaced, 0 left out, 0 failed"
    [item] = (await made.ask("Who leads the core team?")).items
    assert item.content == "Petr Svoboda leads the core team."


async def test_evidence_that_may_not_answer_is_called_so(kb: tuple[world.ObservedState, str], run: Run) -> None:
    made, _ = kb
    await made.ingest(world.request("Petr Svoboda leads the core team.", urn="u:1", title="Team"))

    def finder(breadth: search.Breadth) -> search.Search:
        parts = (made.graph, made.vectors, made.embedder, made.meters, rank.Weights(), breadth)
        return search.Search(*parts, threshold=0.6)

    async with serving.over(dataclasses.replace(made, finder=finder), made.meters) as (_, raw):
        where = (*WHERE, "--url", str(raw.base_url))
        assert "may not answer" not in (await run("ask", "Who leads the core team?", *where)).succeeded().out
        other = (await run("ask", "Which restaurant serves noodles?", *where)).succeeded()
        assert "This may not answer the question: it covers 0% of its words." in other.out


async def test_what_something_newer_took_the_place_of_is_marked(kb: tuple[world.ObservedState, str], run: Run) -> None:
    made, url = kb
    for urn, day, name in (("u:1", 2, "jana"), ("u:1", 5, "petr"), ("u:2", 7, "iva")):
        observed = datetime(2026, 3, day, tzinfo=UTC)
        text = f"jira:JERV-7|ASSIGNED_TO|user:{name}\n"
        await made.ingest(world.request(text, urn=urn, title="Seven", observed_at=observed))
    question = ("ask", "JERV-7 ASSIGNED_TO user", *WHERE, "--url", url)
    then = (await run(*question, "--as-of", "2026-03-03T00:00:00Z")).succeeded()
    assert "(replaced 2026-03-05)" in " ".join(then.out.split())
    assert "(since 2026-03-07 it is user:iva)" in " ".join((await run(*question)).succeeded().out.split())


async def test_mistakes_are_named_with_a_remedy(tmp_path: Path, run: Run) -> None:
    (await run("ingest", str(tmp_path / "missing"), *WHERE)).refused("is not a folder")
    (await run("ask", "Who?", "--client", "not a name")).refused("remedy")
    (await run("ask", "Who?", *WHERE, "--as-of", "yesterday")).refused("2026-03-02T09:00:00Z")
    unreachable = await run("ask", "Who?", *WHERE, "--url", f"http://127.0.0.1:{ports.free()}")
    unreachable.refused("cannot be reached", code=75)


async def test_a_service_that_is_busy_is_asked_again(folder: Path) -> None:
    from cli.knowledge import folder as folders
    from cli.knowledge import ingest

    asked: list[str] = []

    def busy_once(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        if len(asked) < 2:
            problem = {"error": {"code": "crowded", "message": "many writers wait"}}
            return httpx.Response(429, json=problem, headers={"Retry-After": "1"})
        reply = {"id": "d", "sourceUrn": "u", "replaced": False, "chunkIds": [], "queued": True, "priority": 3}
        return httpx.Response(202, json=reply)

    waited: list[float] = []

    def note(details: stamina.instrumentation.RetryDetails) -> None:
        waited.append(details.wait_for)

    files, _ = folders.files(folder / "deep", max_bytes=1000)
    async with httpx.AsyncClient(transport=httpx.MockTransport(busy_once)) as http:
        door = client.Client("http://kb", http, attempts=1)
        stamina.instrumentation.set_on_retry_hooks([note])
        result = await ingest.run(door, scopes.SHOP, files, kind="document", parallel=4, done=lambda file: None)
        stamina.instrumentation.set_on_retry_hooks(None)
    assert (result.new, result.failed, len(asked)) == (["team.txt"], {}, 2)
    assert waited == [1.0]


async def test_a_question_waits_for_the_models_and_a_silent_connection_is_watched(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    gate = asyncio.Event()
    monkeypatch.setattr(access, "_SECONDS", 0.2)

    async def play(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await gate.wait()
        writer.write(wire.plain(b'{"items": [], "summary": "late"}'))
        return False

    async with wire.backend(play) as server:

        async def timers() -> list[str]:
            """Column `tr` of /proc/net/tcp: 02 while a keepalive timer runs."""
            text = await asyncio.to_thread(Path("/proc/net/tcp").read_text)
            rows = [line.split() for line in text.splitlines()[1:]]
            return [row[5][:2] for row in rows if row[2].endswith(f":{server.port:04X}") and row[3] == "01"]

        asked = asyncio.ensure_future(run("ask", "When?", *WHERE, "--url", server.url))
        try:
            await waiting.eventually(timers, good=lambda seen: seen == ["02"])
            # Called later, and given up first: an erasure runs no model.
            erased = await run("erase", *WHERE, "--by", "ann", "--yes", "--url", server.url)
            erased.refused("in time", code=codes.LATER)
            assert not asked.done()
        finally:
            gate.set()
        (await asked).succeeded()


async def test_a_project_moves_to_its_group(kb: tuple[world.ObservedState, str], folder: Path, run: Run) -> None:
    made, url = kb
    for wrong in ("empty.md", "blank.md"):
        (folder / wrong).unlink()
    (await run("ingest", str(folder), *WHERE, "--url", url)).succeeded()
    regroup = ("regroup", "--client", "acme", "--project", "shop", "--group", "wholesale", "--url", url)
    assert (await run(*regroup)).succeeded().out.startswith("2 documents moved, ")
    assert (await made.graph.counts(scopes.RETAIL)).documents == 0
    assert (await made.graph.counts(scopes.make("acme", "", "wholesale"))).documents == 2
    assert (await run(*regroup)).succeeded().out == "0 documents moved, 0 chunks and sentences with them\n"
