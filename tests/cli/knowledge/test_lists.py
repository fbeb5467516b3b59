"""`jervis-kb documents`, `queue`, `retry`, `rules`, `procedures` and `aliases` against the service on a socket."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kb import mongo
from kb.erasure import book as erasures
from kb.erasure import eraser, places, watch
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.aliases import memory as aliases_memory
from tests.kb.service import whole

Run = Callable[..., Awaitable[Any]]
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d ")
WHERE = ("--client", "acme", "--project", "shop", "--group", "retail")


@pytest.fixture
async def kb(open_world: world.Opening, clock: clocks.Clock) -> AsyncIterator[world.ObservedState]:
    async with open_world(aliases=aliases_memory.Registry(clock)) as made:
        yield made


@pytest.fixture
async def url(kb: world.ObservedState) -> AsyncIterator[str]:
    async with whole.over(kb, kb.meters, kb.clock) as (_, raw):
        yield str(raw.base_url)


@pytest.fixture
def run(run: Run) -> Run:
    """Exit status, output, errors."""

    async def call(url: str, *arguments: str) -> tuple[int, str, str]:
        done = await run(*arguments, "--url", url)
        # The service logs to the same output, because it runs in this process.
        lines = [line for line in done.out.splitlines() if not _LOGGED.match(line)]
        return done.code, "\n".join(lines), done.err

    return call


async def test_documents_are_listed_and_deleted(kb: world.ObservedState, url: str, run: Run) -> None:
    for number in range(3):
        await kb.ingest(world.request(urn=f"note:{number}"))
    code, out, err = await run(url, "documents", "list", *WHERE, "--limit", "2")
    assert (code, out.splitlines()[0].split()) == (
        0,
        ["SOURCE", "STATE", "CHUNKS", "VERSIONS", "KIND", "TITLE", "REASON"],
    )
    assert out.count("Extracted") == 2
    code, more, _ = await run(url, "documents", "list", *WHERE, "--after", err.split()[-1], "-o", "json")
    rest = json.loads(more)
    assert (code, len(rest["documents"]), rest["next"]) == (0, 1, None)
    assert rest["documents"][0]["sourceUrn"] not in out
    code, _, err = await run(url, "documents", "list", "--client", "a b")
    assert (code, "--client" in err) == (1, True)


async def test_versions_of_documents_are_counted_and_shown(kb: world.ObservedState, url: str, run: Run) -> None:
    for day in (2, 5):
        await kb.ingest(world.request(f"Day {day}.", urn="note:1", observed_at=datetime(2026, 3, day, tzinfo=UTC)))
    _, out, _ = await run(url, "documents", "list", *WHERE)
    [_, row] = out.splitlines()
    assert row.split()[:4] == ["note:1", "Extracted", "1", "1"]
    _, out, _ = await run(url, "documents", "list", *WHERE, "--versions")
    [_, _, old] = out.splitlines()
    assert "Replaced" in old
    assert "valid from 2026-03-02 00:00:00 UTC until 2026-03-05 00:00:00 UTC" in old


async def test_a_folder_gets_metadata_that_questions_are_narrowed_by(
    kb: world.ObservedState, url: str, tmp_path: Path, run: Run
) -> None:
    for name in ("web", "core"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.md").write_text(f"Petr Svoboda wrote {name}.py.")
        more = ("--metadata", f"team={name}", "--metadata", "tag=a", "--metadata", "tag=b")
        assert (await run(url, "ingest", str(folder), *WHERE, *more))[0] == 0
    for asked, found in (("team=web", (True, False)), ("team=core", (False, True)), ("tag=b", (True, True))):
        _, out, _ = await run(url, "ask", "Who wrote something?", *WHERE, "--metadata", asked)
        assert ("web.md" in out, "core.md" in out) == found
    code, _, err = await run(url, "ingest", str(tmp_path / "web"), *WHERE, "--metadata", "team")
    assert (code, "KEY=VALUE" in err) == (1, True)


async def test_a_question_is_narrowed_by_metadata(kb: world.ObservedState, url: str, run: Run) -> None:
    for number, branch in enumerate(("main", "next")):
        metadata = {"build": {"branch": branch, "number": number}}
        await kb.ingest(world.request("Petr Svoboda wrote a.py.", urn=f"note:{branch}", metadata=metadata))
    for wanted in ("build.branch=main", "build.number=0"):
        code, out, _ = await run(url, "ask", "Who wrote a.py?", *WHERE, "--metadata", wanted)
        assert (code, "note:main" in out, "note:next" in out) == (0, True, False)
    both = ("--metadata", "build.branch=main", "--metadata", "build.branch=next")
    _, out, _ = await run(url, "ask", "Who wrote a.py?", *WHERE, *both)
    assert ("note:main" in out, "note:next" in out) == (True, True)
    code, _, err = await run(url, "ask", "Who wrote a.py?", *WHERE, "--metadata", "main")
    assert (code, "KEY=VALUE" in err, "--metadata" in err) == (1, True, True)


async def test_what_failed_is_seen_and_tried_again(
    kb: world.ObservedState, url: str, fake: process.Fake, run: Run
) -> None:
    fake.set_faults([{"match": {"path": "/api/chat"}, "status": {"code": 400, "message": "context too small"}}])
    for name in ("first", "second"):
        await kb.intake.take(world.request(urn=f"note:{name}"), None)
    await kb.workers.step()
    code, out, _ = await run(url, "queue", "list", *WHERE)
    head, waits, failed = out.splitlines()
    assert (code, head.split()) == (0, ["PLACE", "AHEAD", "ID", "SOURCE", "STATE", "PRIORITY", "ATTEMPTS", "REASON"])
    assert all(word in waits for word in ("note:second", "Waiting", "P3"))
    assert all(word in failed for word in ("note:first", "Failed", "context too small"))
    fake.set_faults([])
    code, out, _ = await run(url, "retry", *WHERE)
    assert (code, "note:first" in out, "note:second" in out) == (0, True, False)
    [_, job] = (await kb.queue.listed(scopes.SHOP, limit=5))[0]
    assert await run(url, "queue", "place", job.document_id, *WHERE) == (0, "note:first has place 1", "")
    assert await run(url, "retry", *WHERE) == (0, "No document has failed in this scope.", "")
    code, _, err = await run(url, "retry", "elsewhere", *WHERE)
    assert (code, "no document that failed has the id" in err) == (1, True)


async def test_aliases_are_made_seen_and_taken_back(kb: world.ObservedState, url: str, run: Run) -> None:
    await kb.ingest(world.request("user:john|OWNS|file:Service.kt", urn="note:1"))
    made = await run(url, "aliases", "set", "user:john", "user:real", *WHERE, "--by", "jana")
    assert made == (0, "user:john means user:real; 1 documents are changed", "")
    assert "user:real" in (await run(url, "aliases", "list", *WHERE))[1]
    assert "user:john is a node again" in (await run(url, "aliases", "delete", "user:john", *WHERE))[1]
    assert await run(url, "aliases", "list", *WHERE) == (0, "There are no aliases in this scope.", "")
    code, out, _ = await run(url, "aliases", "candidates", "user:john", *WHERE)
    assert (code, out) == (0, "There are no candidates in this scope.")


@pytest.mark.services
async def test_places_are_listed_and_forgotten(kb: world.ObservedState, database: mongo.Database, run: Run) -> None:
    down = places.Places(database, "files", "Files", "jervis-kb-0", kb.clock, lambda: 0.0)
    await down.register()
    mine = places.Places(database, "w/1", "Process", "jervis-kb-write-0", kb.clock, lambda: 0.0)
    await mine.register()
    book = erasures.Book(database, kb.clock)
    watching = watch.Watch(book, kb.shut, mine, (), kb.meters, lambda: 0.0)
    works = eraser.Eraser(book, watching, mine, kb.graph, kb.vectors, kb.pipeline.drop, {}, kb.meters)
    async with whole.over(kb, kb.meters, kb.clock, database=database, works=works, registry=mine) as (_, raw):
        url = str(raw.base_url)
        code, out, _ = await run(url, "places")
        assert code == 0
        assert [line.split()[:3] for line in out.splitlines()[1:]] == [
            ["files", "Files", "jervis-kb-0"],
            ["w/1", "Process", "jervis-kb-write-0"],
        ]
        code, _, err = await run(url, "places", "--forget", "files")
        assert code != 0
        assert "--by" in err
        code, out, _ = await run(url, "places", "--forget", "files", "--by", "jana", "-o", "json")
        assert (code, [one["id"] for one in json.loads(out)["places"]]) == (0, ["w/1"])


@pytest.mark.services
async def test_rules_and_procedures(
    kb: world.ObservedState, database: mongo.Database, tmp_path: Path, run: Run
) -> None:
    async with whole.over(kb, kb.meters, kb.clock, database=database) as (_, raw):
        url = str(raw.base_url)
        await run(url, "rules", "set", "tone", "Answer politely.", *WHERE, "--by", "jana")
        second = await run(url, "rules", "set", "tone", "Answer briefly.", *WHERE, "--by", "petr")
        assert second == (0, "tone is in force as version 2", "")
        assert "Answer briefly." in (await run(url, "rules", "list", *WHERE))[1]
        history = json.loads((await run(url, "rules", "history", "tone", *WHERE, "-o", "json"))[1])
        assert [one["version"] for one in history["rules"]] == [2, 1]
        code, _, err = await run(url, "rules", "set", "no key", "x", *WHERE, "--by", "petr")
        assert (code, "ruleKey" in err) == (1, True)
        assert (await run(url, "rules", "delete", "tone", *WHERE, "--by", "jana"))[0] == 0
        assert await run(url, "rules", "list", *WHERE) == (0, "There are no rules in this scope.", "")

        file = tmp_path / "procedure.json"
        step = {"agent": "coder", "action": "fix the bug"}
        file.write_text(json.dumps({"triggerPattern": "bug", "procedureSteps": [step]}))
        code, out, _ = await run(url, "procedures", "set", str(file), "--client", "acme")
        assert (code, out.startswith("bug is saved as ")) == (0, True)
        assert "coder: fix the bug" in (await run(url, "procedures", "list", "--client", "acme"))[1]
        assert (await run(url, "procedures", "delete", out.split()[-1], "--client", "acme"))[0] == 0
        assert "There are no procedures" in (await run(url, "procedures", "list", "--client", "acme"))[1]
        file.write_text("[]")
        assert (await run(url, "procedures", "set", str(file), "--client", "acme"))[0] == 1


@pytest.mark.services
async def test_entity_types(kb: world.ObservedState, database: mongo.Database, run: Run) -> None:
    async with whole.over(kb, kb.meters, kb.clock, database=database) as (_, raw):
        url = str(raw.base_url)
        wide = ("--client", "acme", "--by", "jana")
        assert (await run(url, "types", "set", "medicine=a drug", "ward=a part of a hospital", *wide))[0] == 0
        code, out, _ = await run(url, "types", "set", "medicine=an ointment", *WHERE, "--by", "petr")
        assert (code, [line.split() for line in out.splitlines()]) == (
            0,
            [
                ["NAME", "DESCRIPTION", "OF", "BY"],
                ["medicine", "an", "ointment", "project", "shop", "petr"],
                ["ward", "a", "part", "of", "a", "hospital", "client", "acme", "jana"],
            ],
        )
        code, _, err = await run(url, "types", "set", "Medicine", *WHERE, "--by", "petr")
        assert (code, "types: 0: name" in err) == (1, True)
        code, _, err = await run(url, "types", "set", "customer=who pays", *WHERE, "--by", "petr")
        assert (code, "'customer' cannot be a type" in err) == (1, True)
        assert "a drug" in (await run(url, "types", "delete", *WHERE, "--by", "petr"))[1]
        left = json.loads((await run(url, "types", "list", *WHERE, "-o", "json"))[1])["types"]
        assert [one["name"] for one in left] == ["medicine", "ward"]
