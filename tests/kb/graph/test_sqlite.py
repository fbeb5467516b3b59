"""The embedded graph store."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kb import errors, identity, selection
from kb.graph import model, sqlite, statements
from tests.kb import instructions, scopes
from tests.kb.graph import contract, graph_files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph.sqlite"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[sqlite.Store]:
    async with graph_files.opened(path) as opened:
        yield opened


class TestSqlite(contract.Contract, contract.History):
    """The contract on a file."""


async def test_no_more_is_read_at_a_hub_than_its_bound(path: Path) -> None:
    async with graph_files.opened(path, hub=20) as store:
        await contract.check_hub(store)
        # The most salient are read, visible or not: of the shop's two, the one behind the blog's is not reached.
        for urn, salience in (("u:behind", 0.0), ("u:before", 1.0)):
            made = contract.patch(scopes.SHOP, urn, [("n:hub", "to", "n:b")])
            mentions = tuple(replace(one, salience=salience) for one in made.mentions)
            await store.replace(scopes.SHOP, replace(made, mentions=mentions))
        assert [one.chunk_id for one in await store.leads(scopes.SHOP, ["n:hub"])] == [made.chunk_ids[0]]


async def test_survives_a_restart(path: Path) -> None:
    async with graph_files.opened(path) as first:
        await contract.put(first, scopes.SHOP, "u:1", [("n:a", "to", "n:b")])
    async with graph_files.opened(path) as second:
        assert (await second.counts(scopes.SHOP)).edges == 1


async def test_what_was_deleted_is_not_in_the_file_any_more(path: Path) -> None:
    secret = "a-name-that-nobody-else-has"
    made = contract.patch(scopes.SHOP, "u:1", [(f"person:{secret}-{n}", "to", "n:b") for n in range(200)])
    async with graph_files.opened(path) as store:
        await store.replace(scopes.SHOP, made)
        await contract.put(store, scopes.SHOP, "u:2", [("n:a", "to", "n:b")])
    assert _holds(path, secret)
    async with graph_files.opened(path) as again:
        assert await again.remove(scopes.SHOP, made.document.id)
    assert not _holds(path, secret)


async def test_sources_of_a_kind_are_found_by_their_index(path: Path, store: sqlite.Store) -> None:
    await contract.put(store, scopes.SHOP, "u:1", [("n:a", "to", "n:b")])
    assert [one.source_urn for one in await store.documents(scopes.SHOP, "email", "u:")] == ["u:1"]
    bound = dict.fromkeys(("client", "kind", "beginning", "last", "after", "project", "grp", "limit"), "")
    [step] = _plan(path, statements.DOCUMENTS, bound)
    assert "documents_client (client=? AND kind=? AND source_urn>? AND source_urn<?)" in step


class _KilledError(Exception):
    """In place of the end of a process, right after a batch was committed."""


async def _migrate(path: Path, batch: int, reported: list[tuple[int, int]], batches: int | None = None) -> None:
    """Open the file; after so many batches the process is killed."""
    left = batches

    def report(done: int, total: int) -> None:
        nonlocal left
        reported.append((done, total))
        if left == 0:
            raise _KilledError
        left = None if left is None else left - 1

    async with graph_files.opened(path, batch=batch, migrations=graph_files.MIGRATIONS, migrated=report):
        pass


async def test_a_migration_goes_on_after_each_batch_at_which_it_was_killed(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.sqlite", tmp_path / "killed.sqlite"
    rows = 64
    graph_files.write(whole, rows)
    shutil.copy(whole, path)
    await _migrate(whole, 10_000, [])
    reported: list[tuple[int, int]] = []
    starts = 1
    while True:
        try:
            await _migrate(path, 7, reported, batches=1)
            break
        except _KilledError:
            starts += 1
            assert graph_files.rest(path) == rows - reported[-1][0]
    assert {total for _, total in reported} == {rows}
    counted = [done for done, _ in reported]
    assert (counted[0], counted[-1], starts) == (0, rows, 11)
    assert counted[1::2] == counted[2::2], "each start begins where the one before was killed"
    assert graph_files.content(path) == graph_files.content(whole)
    assert len(graph_files.content(path)["nodes"]) == rows, "there was something to be compared"


async def test_a_program_of_another_version_does_not_finish_what_this_one_began(path: Path) -> None:
    graph_files.write(path, 30)
    with pytest.raises(_KilledError):
        await _migrate(path, 7, [], batches=1)
    with graph_files.connected(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (-graph_files.BEFORE,), "others refuse it"
        connection.execute("UPDATE migrating SET by = by + 1")
    rest = graph_files.rest(path)
    with pytest.raises(errors.Misconfigured, match="migrated from version 4 by a program of version 6") as caught:
        await _migrate(path, 7, [])
    assert caught.value.field == "dataDir"
    assert graph_files.rest(path) == rest


async def test_nothing_stays_in_the_file_of_what_nobody_says_any_more(path: Path, store: sqlite.Store) -> None:
    await contract.put(store, scopes.SHOP, "u:1", [("n:a", "to", "n:b")])
    await contract.put(store, scopes.SHOP, "u:2", [("n:a", "to", "n:c")])
    await contract.put(store, scopes.SHOP, "u:1", [("n:a", "to", "n:d")])
    assert {row[2] for row in _dump(path, "nodes")} == {"n:a", "n:c", "n:d"}
    for urn in ("u:1", "u:2"):
        assert await store.remove(scopes.SHOP, contract.document(scopes.SHOP, urn).id)
    for table in graph_files.TABLES:
        assert _dump(path, table) == [], table


def _holds(path: Path, text: str) -> bool:
    return text.encode() in path.read_bytes()


def _dump(path: Path, table: str) -> list[tuple[object, ...]]:
    with graph_files.connected(path) as connection:
        return sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr)


def _plan(path: Path, statement: str, bound: Mapping[str, object]) -> list[str]:
    """The steps by which SQLite answers it."""
    with graph_files.connected(path) as connection:
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]


async def test_a_document_of_which_no_labels_are_known_is_admitted(store: sqlite.Store) -> None:
    made = contract.patch(scopes.SHOP, "u:1", [("n:a", "to", "n:b")])
    await store.replace(scopes.SHOP, replace(made, labels=None))
    web = selection.Selection(labels=(("team=web",),))
    assert len(await store.leads(scopes.SHOP, ["n:a"], web)) == 1
    await store.replace(scopes.SHOP, replace(made, labels=("team=core",)))
    assert await store.leads(scopes.SHOP, ["n:a"], web) == []


@pytest.mark.parametrize("version", [graph_files.BEFORE, 99])
async def test_a_file_of_another_version_is_refused(path: Path, version: int) -> None:
    with graph_files.connected(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(errors.Misconfigured, match=f"schema version {version}") as caught:
        async with graph_files.opened(path):
            pass
    assert caught.value.field == "dataDir"


async def test_a_disk_that_cannot_be_opened_is_away(tmp_path: Path) -> None:
    with pytest.raises(errors.Away, match="disk"):
        async with graph_files.opened(tmp_path / "missing" / "graph.sqlite"):
            pass


async def test_a_failed_replacement_leaves_the_old_state(store: sqlite.Store) -> None:
    await contract.put(store, scopes.SHOP, "u:1", [("n:a", "to", "n:b")])
    broken = contract.patch(scopes.SHOP, "u:1", [("n:a", "to", "n:c")])
    doubled = type(broken)(broken.document, broken.chunk_ids * 2, broken.mentions, broken.evidence)
    with pytest.raises(sqlite3.IntegrityError):
        await store.replace(scopes.SHOP, doubled)
    assert [str(proven.edge.target) for proven in await store.edges(scopes.SHOP)] == ["n:b"]


async def test_present_questions_do_not_read_the_past(effort: instructions.Counter, store: sqlite.Store) -> None:
    """A hub of two hundred old versions costs no more."""
    made = contract.version(scopes.SHOP, [("n:hub", "to", "n:b")], 1)
    await store.replace(scopes.SHOP, made)

    async def questions() -> None:
        await store.leads(scopes.SHOP, ["n:hub"])
        await store.named(scopes.SHOP, ["hub"])
        await store.traverse(scopes.SHOP, ["n:hub"], model.Steps())
        await store.relationships(scopes.SHOP, source="n:hub")
        await store.nodes(scopes.SHOP, keys=["n:hub"])

    alone = await effort.least(questions)
    assert alone > 100
    for number in range(200):
        [present, *_] = await store.versions(scopes.SHOP, made.document.id)
        kept = model.Keep(identity.version(made.document.id, present.revision, number), number + 1)
        since = replace(made.document, since_ms=number + 1)
        await store.replace(scopes.SHOP, replace(made, document=since, keep=kept))
    assert len(await store.versions(scopes.SHOP, made.document.id)) == 201
    assert await effort.least(questions) <= 1.2 * alone


@pytest.mark.parametrize("statement", [statements.AUDIT_OF, statements.HELD])
async def test_what_is_looked_up_by_its_id_is_not_searched_among_all_of_its_client(
    path: Path, store: sqlite.Store, statement: str
) -> None:
    bound = {"client": "acme", "past": "", "after": 0, "limit": 9, "numbers": "[]", "documents": "[]", "chunks": "[]"}
    plan = _plan(path, statement, bound)
    assert "SEARCH d USING INTEGER PRIMARY KEY (rowid=?)" in plan
    assert not [step for step in plan if step.startswith(("SCAN d", "SCAN c", "SEARCH d USING INDEX documents_client"))]
