"""The declarations that commits changed: by their contents, over renames, gone with the commit, whatever the order."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import pytest

import codegraph
from codegraph import api as code_api
from contracts import repository_keys
from kb import api, client, metrics
from kb.extract import git_commit as reading
from tests.kb import scopes, world
from tests.kb.ingest import test_commits, trees

pytestmark = pytest.mark.services
kb, served = trees.kb, trees.served
ONE = "def side():\n    return 1\n\n\ndef area():\n    return side()\n"
TWO = ONE.replace("return 1", "return 2")
THREE = TWO.replace("return side()", "return side() ** 2")


def blob(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


def change(number: int, path: str, before: str | None, after: str | None, **more: Any) -> tuple[api.Commit, set[str]]:
    """A commit of one file, with the contents that it needs."""
    status = "A" if before is None else "D" if after is None else "R" if "old_path" in more else "M"
    file = {"path": path, "status": status} | {
        name: more.pop(name) for name in ("old_path", "similarity") & more.keys()
    }
    file |= {"old_blob": blob(before)} if before is not None else {}
    file |= {"blob": blob(after)} if after is not None else {}
    one = test_commits.commit(
        f"{number:040x}",
        message=f"Change {number}",
        files=[file],
        date=f"2026-03-{number:02}T10:00:00Z",
        diff="",
        **more,
    )
    return one, {text for text in (before, after) if text is not None}


STEPS = [
    change(1, "app/old.py", None, ONE),
    change(2, "app/old.py", ONE, TWO),
    change(3, "app/new.py", TWO, TWO, old_path="app/old.py", similarity=100),
    change(4, "app/new.py", TWO, THREE),
]
"""`side` is added in 1 and changed in 2; the file is renamed in 3; `area` is changed in 4."""


def sent(*steps: tuple[api.Commit, set[str]], contents: bool = True, **more: Any) -> api.GitCommits:
    texts = {blob(text): text for _, some in steps for text in some} if contents else {}
    return test_commits.sent(*(one for one, _ in steps), contents=texts, **more)


async def history(served: client.Client, symbol: str, **more: Any) -> code_api.HistoryReply:
    return await served.code.history(code_api.CodeHistory(scope=scopes.SHOP, symbol=symbol, **more))


def shown(reply: code_api.HistoryReply) -> list[tuple[int, str, str]]:
    return [(int(one.hash, 16), one.change, one.path) for one in reply.commits]


async def test_commits_of_a_symbol_are_found_over_a_rename(kb: world.ObservedState, served: client.Client) -> None:
    assert [one.symbols for one in (await served.git_commits(sent(*STEPS))).outcomes] == [2, 1, 0, 1]
    await served.code.structure(trees.tree({"app/new.py": THREE}))
    found = await history(served, "side")
    assert shown(found) == [(2, "changed", "app/old.py"), (1, "added", "app/old.py")]
    assert (found.total, found.unread, found.next, found.truncated) == (2, 0, None, False)
    assert (found.commits[0].title, found.commits[0].author) == ("Change 2", "Jana Novak")
    assert [(one.old_path, one.path, one.similarity) for one in found.renames] == [("app/old.py", "app/new.py", 100)]
    assert shown(await history(served, "area")) == [(4, "changed", "app/new.py"), (1, "added", "app/old.py")]
    whole = [(4, "modified", "app/new.py"), (3, "renamed", "app/new.py")]
    whole += [(2, "modified", "app/old.py"), (1, "added", "app/old.py")]
    assert shown(await history(served, "app/new.py")) == whole
    page = await history(served, "app/new.py", after=1, limit=2)
    assert (shown(page), page.total, page.next) == (whole[1:3], 4, 3)
    # What is not there any more has a history by its path.
    assert shown(await history(served, "app/old.py:side")) == shown(found)
    with pytest.raises(client.Rejected) as refused:
        await history(served, "app/old.py:none")
    assert (refused.value.status, refused.value.field) == (404, "symbol")
    edges = await kb.graph.relationships(scopes.SHOP, edge_type="renames")
    assert [one.properties for one in edges] == ['{"oldPath": "app/old.py", "path": "app/new.py", "similarity": 100}']


async def test_the_same_in_any_order_and_nothing_is_left(kb: world.ObservedState, served: client.Client) -> None:
    empty = await kb.state()
    states = []
    for order in itertools.islice(itertools.permutations(STEPS), 0, 24, 7):
        # First without contents, as another source might send them; on two branches.
        await served.git_commits(sent(*order[:2], contents=False))
        for one in order:
            await served.git_commits(sent(one))
        await served.git_commits(sent(*order, branch="next"))
        await served.git_commits(sent(*order, contents=False))
        states.append(await kb.state())
        for branch in ("main", "next"):
            await served.git_commits(sent(branch=branch, removed=[one.hash for one, _ in order]))
        assert await kb.state() == empty
    assert all(one == states[0] for one in states)


async def test_contents_are_read_once(kb: world.ObservedState, served: client.Client, meters: metrics.Metrics) -> None:
    def passes() -> float:
        return meters.registry.get_sample_value("jervis_kb_stage_seconds_count", {"stage": "symbols"}) or 0.0

    await served.git_commits(sent(*STEPS))
    assert passes() == 1
    assert [one.result for one in (await served.git_commits(sent(*STEPS))).outcomes] == ["Unchanged"] * 4
    await served.git_commits(sent(*STEPS, branch="next"))
    assert passes() == 1


async def test_what_is_not_known_is_counted(served: client.Client) -> None:
    await served.git_commits(sent(STEPS[0]))
    await served.git_commits(sent(*STEPS[1:], contents=False))
    merge = change(5, "app/new.py", TWO, THREE, parents=["c" * 40, "d" * 40])
    await served.git_commits(sent(merge, contents=False))
    await served.code.structure(trees.tree({"app/new.py": THREE}))
    found = await history(served, "side")
    assert (shown(found), found.unread) == ([(1, "added", "app/old.py")], 2)


async def test_commits_of_another_branch_are_not_shown(served: client.Client) -> None:
    await served.git_commits(sent(*STEPS[:1]))
    await served.git_commits(sent(STEPS[1], branch="next"))
    await served.code.structure(trees.tree({"app/old.py": TWO}))
    await served.code.structure(trees.tree({"app/old.py": TWO}, branch="next"))
    assert shown(await history(served, "side")) == [(1, "added", "app/old.py")]
    assert shown(await history(served, "side", branch="next")) == [(2, "changed", "app/old.py")]


async def test_hostile_contents_cost_only_their_file(kb: world.ObservedState, served: client.Client) -> None:
    steps = [
        change(1, "a.py", None, "x = '\0'\n"),
        change(2, "b.py", None, f"def {'x' * 600}(): pass\n"),
        change(3, "c.ts", None, "".join(f"function f{n}() {{}}\n" for n in range(reading.MOST_SYMBOLS + 1))),
        change(4, "d.py", None, ONE),
        change(5, "notes.md", None, "# Notes\n"),
    ]
    reply = await served.git_commits(sent(*steps))
    assert [(one.result, one.symbols) for one in reply.outcomes] == [
        ("Stored", 0), ("Stored", 0), ("Stored", 0), ("Stored", 2), ("Stored", 0),
    ]  # fmt: skip
    said = await kb.graph.relationships(scopes.SHOP, edge_type="creates")
    read = {one.edge.target: f'"symbolsRead": "{codegraph.VERSION}"' in one.properties for one in said if one.edge}
    expected = {"a.py": True, "b.py": True, "c.ts": False, "d.py": True, "notes.md": False}
    assert read == {repository_keys.file(path, "main", "shop"): known for path, known in expected.items()}
