"""The embedded graph store."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kb import errors, identity, selection
from kb.graph import migrations, model, sqlite, statements
from tests.kb import instructions, scopes
from tests.kb.graph import contract, old_files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph.sqlite"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[sqlite.Store]:
    async with old_files.opened(path) as opened:
        yield opened


class TestSqlite(contract.Contract, contract.History):
    """The contract on a file."""


async def test_no_more_is_read_at_a_hub_than_its_bound(path: Path) -> None:
    async with old_files.opened(path, hub=20) as store:
        await contract.check_hub(store)
        # The most salient are read, visible or not: of the shop's two, the one behind the blog's is not reached.
        for urn, salience in (("u:behind", 0.0), ("u:before", 1.0)):
            made = contract.patch(scopes.SHOP, urn, [("n:hub", "to", "n:b")])
            mentions = tuple(replace(one, salience=salience) for one in made.mentions)
            await store.replace(scopes.SHOP, replace(made, mentions=mentions))
        assert [one.chunk_id for one in await store.leads(scopes.SHOP, ["n:hub"])] == [made.chunk_ids[0]]


async def test_survives_a_restart(path: Path) -> None:
    async with old_files.opened(path) as first:
        await contract.put(first, scopes.SHOP, "u:1", [("n:a", "to", "n:b")])
    async with old_files.opened(path) as second:
        assert (await second.counts(scopes.SHOP)).edges == 1


async def test_what_was_deleted_is_not_in_the_file_any_more(path: Path) -> None:
    secret = "a-name-that-nobody-else-has"
    made = contract.patch(scopes.SHOP, "u:1", [(f"person:{secret}-{n}", "to", "n:b") for n in range(200)])
    async with old_files.opened(path) as store:
        await store.replace(scopes.SHOP, made)
        await contract.put(store, scopes.SHOP, "u:2", [("n:a", "to", "n:b")])
    assert _holds(path, secret)
    async with old_files.opened(path) as again:
        assert await again.remove(scopes.SHOP, made.document.id)
    assert not _holds(path, secret)


async def test_a_file_of_version_1_becomes_what_would_be_written_now(tmp_path: Path) -> None:
    made = contract.patch(scopes.SHOP, "u:1", [("person:jana", "leads", "team:core"), ("n:a", "to", "n:b")], chunks=2)
    salient = tuple(replace(one, salience=model.salience(made.document.title, one.name)) for one in made.mentions)
    made = replace(made, mentions=salient)
    document, client = made.document, scopes.SHOP.client_id
    old, new = tmp_path / "old.sqlite", tmp_path / "fresh.sqlite"
    with old_files.connected(old) as connection:
        connection.executescript(old_files.VERSION_1)
        place = (scopes.SHOP.project_id, scopes.SHOP.group_id)
        row = (client, document.id, *place, document.source_urn, document.kind, document.title)
        connection.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        connection.executemany(
            "INSERT INTO chunks VALUES (?, ?, ?)", [(client, chunk_id, document.id) for chunk_id in made.chunk_ids]
        )
        connection.executemany(
            "INSERT INTO mentions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (client, m.node_key, m.chunk_id, m.sentence_id, document.id, m.sentence, m.node_type, m.name, "")
                for m in made.mentions
            ],
        )
        connection.executemany(
            "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (client, e.source, e.type, e.target, e.chunk_id, e.sentence_id, document.id, e.sentence)
                for e in made.evidence
            ],
        )
    async with old_files.opened(old) as migrated, old_files.opened(new) as fresh:
        await fresh.replace(scopes.SHOP, made)
        for table in old_files.TABLES:
            assert _dump(old, table) == _dump(new, table)
        assert await migrated.edges(scopes.SHOP) == await fresh.edges(scopes.SHOP)
        assert await migrated.remove(scopes.SHOP, document.id) is True
    async with old_files.opened(old) as again:
        assert (await again.counts(scopes.SHOP)).documents == 0


async def test_a_file_of_version_2_gets_the_index_of_sources(path: Path) -> None:
    with old_files.connected(path) as connection:
        connection.executescript(statements.SCHEMA.replace("(client, kind, source_urn)", "(client, kind)"))
        connection.execute("PRAGMA user_version = 2")
    async with old_files.opened(path) as store:
        await contract.put(store, scopes.SHOP, "u:1", [("n:a", "to", "n:b")])
        assert [one.source_urn for one in await store.documents(scopes.SHOP, "email", "u:")] == ["u:1"]
    bound = dict.fromkeys(("client", "kind", "beginning", "last", "after", "project", "grp", "limit"), "")
    [step] = _plan(path, statements.DOCUMENTS, bound)
    assert "documents_client (client=? AND kind=? AND source_urn>? AND source_urn<?)" in step


async def test_a_file_of_version_3_gets_the_stems_of_names(path: Path) -> None:
    async with old_files.opened(path) as store:
        await contract.put(store, scopes.SHOP, "u:1", [("person:jana", "to", "n:b")])
    fresh = _dump(path, "nodes")
    old_files.without_stems(path)
    stem = model.stem_of("person:janou")
    async with old_files.opened(path) as store:
        assert await store.alike(scopes.SHOP, [stem]) == {stem: ["person:jana"]}
    assert _dump(path, "nodes") == fresh


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

    async with old_files.opened(path, batch=batch, migrated=report):
        pass


async def test_a_migration_goes_on_after_each_batch_at_which_it_was_killed(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.sqlite", tmp_path / "killed.sqlite"
    rows = old_files.write(whole, 30)
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
            assert old_files.rest(path) == rows - reported[-1][0]
    assert {total for _, total in reported} == {rows}
    counted = [done for done, _ in reported]
    assert (counted[0], counted[-1], starts) == (0, rows, 11)
    assert counted[1::2] == counted[2::2], "each start begins where the one before was killed"
    assert old_files.content(path) == old_files.content(whole)
    assert all(old_files.content(path).values()), "there was something to be compared"


async def test_stems_are_filled_in_batches(path: Path) -> None:
    old_files.write(path, 60)
    await _migrate(path, 10_000, [])
    fresh = old_files.content(path)
    nodes = len(fresh["nodes"])
    old_files.without_stems(path)
    reported: list[tuple[int, int]] = []
    with pytest.raises(_KilledError):
        await _migrate(path, 8, reported, batches=1)
    await _migrate(path, 8, reported)
    assert nodes > 16
    assert reported == [(done, nodes) for done in (0, 8, *range(8, nodes, 8), nodes)]
    assert old_files.content(path) == fresh


async def test_a_program_of_another_version_does_not_finish_what_this_one_began(path: Path) -> None:
    old_files.write(path, 30)
    with pytest.raises(_KilledError):
        await _migrate(path, 7, [], batches=1)
    with old_files.connected(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (-1,), "older programs refuse it"
        connection.execute("UPDATE migrating SET by = by + 1")
    rest = old_files.rest(path)
    with pytest.raises(errors.Misconfigured, match="migrated from version 1 by a program of version 6") as caught:
        await _migrate(path, 7, [])
    assert caught.value.field == "dataDir"
    assert old_files.rest(path) == rest


async def test_nothing_stays_in_the_file_of_what_nobody_says_any_more(path: Path, store: sqlite.Store) -> None:
    await contract.put(store, scopes.SHOP, "u:1", [("n:a", "to", "n:b")])
    await contract.put(store, scopes.SHOP, "u:2", [("n:a", "to", "n:c")])
    await contract.put(store, scopes.SHOP, "u:1", [("n:a", "to", "n:d")])
    assert {row[2] for row in _dump(path, "nodes")} == {"n:a", "n:c", "n:d"}
    for urn in ("u:1", "u:2"):
        assert await store.remove(scopes.SHOP, contract.document(scopes.SHOP, urn).id)
    for table in old_files.TABLES:
        assert _dump(path, table) == [], table


def _holds(path: Path, text: str) -> bool:
    return text.encode() in path.read_bytes()


def _dump(path: Path, table: str) -> list[tuple[object, ...]]:
    with old_files.connected(path) as connection:
        return sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr)


def _plan(path: Path, statement: str, bound: Mapping[str, object]) -> list[str]:
    """The steps by which SQLite answers it."""
    with old_files.connected(path) as connection:
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]


async def test_a_file_of_another_version_is_refused(path: Path) -> None:
    with old_files.connected(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(errors.Misconfigured, match="schema version 99") as caught:
        async with old_files.opened(path):
            pass
    assert caught.value.field == "dataDir"


async def test_a_disk_that_cannot_be_opened_is_away(tmp_path: Path) -> None:
    with pytest.raises(errors.Away, match="disk"):
        async with old_files.opened(tmp_path / "missing" / "graph.sqlite"):
            pass


async def test_a_failed_replacement_leaves_the_old_state(store: sqlite.Store) -> None:
    await contract.put(store, scopes.SHOP, "u:1", [("n:a", "to", "n:b")])
    broken = contract.patch(scopes.SHOP, "u:1", [("n:a", "to", "n:c")])
    doubled = type(broken)(broken.document, broken.chunk_ids * 2, broken.mentions, broken.evidence)
    with pytest.raises(sqlite3.IntegrityError):
        await store.replace(scopes.SHOP, doubled)
    assert [str(proven.edge.target) for proven in await store.edges(scopes.SHOP)] == ["n:b"]


async def test_a_file_of_version_3_gets_the_columns_of_versions_and_properties(path: Path) -> None:
    first = contract.version(scopes.SHOP, [("n:a", "to", "n:b")], 2)
    async with old_files.opened(path) as store:
        await store.replace(scopes.SHOP, first)
    with old_files.connected(path) as connection:
        for index in ("documents_past", "nodes_stem", "mentions_given"):
            connection.execute(f"DROP INDEX {index}")
        connection.execute("ALTER TABLE documents DROP COLUMN labels")
        for table, columns in migrations.ADD_COLUMNS.items():
            for column in columns:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {column.split()[0]}")
        connection.execute("PRAGMA user_version = 3")
    async with old_files.opened(path) as again:
        [old] = await again.versions(scopes.SHOP, first.document.id)
        assert (old.revision, old.document.start_ms) == ("", first.document.observed_ms)
        second = contract.version(scopes.SHOP, [("n:a", "to", "n:c")], 5, keep=old)
        await again.replace(scopes.SHOP, second)
        [then] = await again.relationships(scopes.SHOP, source="n:a", as_of=contract.at(3))
        assert then.edge == model.Edge("n:a", "to", "n:b")


async def test_a_file_of_version_4_admits_what_it_has_no_labels_of(path: Path) -> None:
    made = replace(contract.patch(scopes.SHOP, "u:1", [("n:a", "to", "n:b")]), labels=("team=core",))
    async with old_files.opened(path) as store:
        await store.replace(scopes.SHOP, made)
    with old_files.connected(path) as connection:
        connection.execute("ALTER TABLE documents DROP COLUMN labels")
        connection.execute("DROP INDEX mentions_given")
        connection.execute("PRAGMA user_version = 4")
    async with old_files.opened(path) as again:
        web = selection.Selection(labels=(("team=web",),))
        assert len(await again.leads(scopes.SHOP, ["n:a"], web)) == 1
        await again.replace(scopes.SHOP, made)
        assert await again.leads(scopes.SHOP, ["n:a"], web) == []
        assert "mentions_given" in {row[0] for row in _dump(path, "(SELECT name FROM sqlite_master)")}


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
