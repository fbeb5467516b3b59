"""The structure of a branch: documents in the shapes of seed 001, contents asked for once, the same as a rebuild."""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import zstandard

import codegraph
from codegraph import api
from kb import client, mongo
from kb.code import book
from kb.erasure import holdings
from tests.fakes.ollama import process
from tests.kb import scopes, world
from tests.kb.ingest import trees

pytestmark = pytest.mark.services

kb, served = trees.kb, trees.served
FILES, SHAPE, gone, tree = trees.FILES, trees.SHAPE, trees.gone, trees.tree


def key(kind: str, name: str, branch: str = "main") -> str:
    return f"{kind}__{name}__branch__{branch}__shop"


async def test_contents_are_asked_for_once_and_become_the_shapes_of_the_specification(
    kb: world.ObservedState, served: client.Client, fake: process.Fake
) -> None:
    reply = await served.code.structure(tree(FILES, contents=False))
    assert (reply.state, sorted(reply.missing)) == ("Wanted", sorted(FILES))
    assert await kb.triples() == set()
    reply = await served.code.structure(tree(FILES))
    assert (reply.state, reply.files, reply.stored, reply.failed) == ("Done", 3, 3, [])
    assert reply.extractor == codegraph.VERSION
    found = await kb.triples()
    shape, square = key("file", "app/shape.py"), key("file", "app/square.py")
    assert {
        ("repository__acme_shop", "has_branch", "branch__main__shop"),
        ("branch__main__shop", "contains_file", shape),
        (shape, "contains", key("class", "app.shape.Shape")),
        (key("class", "app.shape.Shape"), "has_method", key("method", "app.shape.Shape__area")),
        (square, "contains", key("method", "app.square__side")),
    } <= found
    assert all(one.evidence_chunk_ids for one in await kb.graph.edges(scopes.SHOP))
    assert fake.count(path="/api/chat") == 0
    again = await served.code.structure(tree(FILES, contents=False))
    assert (again.state, again.stored, again.unchanged, again.removed) == ("Done", 0, 3, 0)


async def test_a_change_writes_what_changed_and_what_is_gone_goes(
    kb: world.ObservedState, served: client.Client
) -> None:
    await served.code.structure(tree(FILES))
    changed = {"app/__init__.py": "", "app/shape.py": SHAPE.replace("area", "size")}
    reply = await served.code.structure(tree(changed, commit="b" * 40))
    assert (reply.state, reply.stored, reply.unchanged, reply.removed) == ("Done", 1, 1, 1)
    found = await kb.triples()
    assert not [one for one in found if "square" in one[0] + one[2] or "area" in one[2]]
    assert (key("class", "app.shape.Shape"), "has_method", key("method", "app.shape.Shape__size")) in found


async def test_a_removed_branch_leaves_nothing(
    kb: world.ObservedState, served: client.Client, database: mongo.Database
) -> None:
    await served.code.structure(tree(FILES))
    await served.code.structure(tree(FILES, branch="next"))
    assert (await served.code.structure(gone())).state == "Done"
    assert not [one for one in await kb.triples() if "main" in one[0] + one[2]]
    assert (await served.code.structure(tree(FILES, branch="next", contents=False))).state == "Done"
    assert (await served.code.structure(gone("next"))).state == "Done"
    assert await kb.triples() == set()
    for name in (book.BRANCHES, book.FACTS):
        assert await database[name].count_documents({}) == 0


async def test_an_erased_scope_has_no_facts(served: client.Client, database: mongo.Database) -> None:
    await served.code.structure(tree(FILES))
    erased = {name: await one.erase(scopes.SHOP) for name, one in holdings.of(database).items()}
    assert (erased["codeBranches"], erased["codeFacts"]) == (1, 3)


async def test_what_a_scope_owns_of_code_is_found_by_an_index(served: client.Client, database: mongo.Database) -> None:
    await served.code.structure(tree(FILES))
    for name in (book.BRANCHES, book.FACTS):
        found = (await database[name].index_information()).values()
        assert [("clientId", 1), ("projectId", 1), ("groupId", 1)] in [one["key"] for one in found]


async def test_a_file_that_is_given_up_is_said_and_not_asked_for_again(served: client.Client) -> None:
    files = FILES | {"app/blob.py": "x = '\0'\n", "README.md": "# Shop\n"}
    reply = await served.code.structure(tree(files))
    assert (reply.state, [(one.path, one.reason) for one in reply.skipped]) == ("Done", [("app/blob.py", "binary")])
    again = await served.code.structure(tree(files, contents=False))
    assert (again.state, [one.path for one in again.skipped]) == ("Done", ["app/blob.py"])


async def test_questions_are_answered_from_what_was_sent(served: client.Client) -> None:
    asked: dict[str, Any] = {"scope": scopes.SHOP}
    with pytest.raises(client.Rejected) as refused:
        await served.code.callers(api.Callers(symbol="side", **asked))
    assert (refused.value.status, refused.value.field) == (404, "repository")
    sent: list[str] = []

    async def read(paths: Sequence[str]) -> Mapping[str, str]:
        sent.extend(paths)
        return {path: FILES[path] for path in paths}

    reply = await served.code.send(tree(FILES, contents=False), read)
    assert (reply.state, sorted(sent)) == ("Done", sorted(FILES))
    found = await served.code.callers(api.Callers(symbol="side", **asked))
    assert [(one.caller.qualified_name, one.line, one.rule) for one in found.calls] == [
        ("app.square.Square.area", 6, "local")
    ]
    assert (found.coverage.commit, found.coverage.current, found.coverage.files) == ("a" * 40, True, 3)
    with pytest.raises(client.Rejected) as refused:
        await served.code.impact(api.Impact(symbol="area", **asked))
    assert refused.value.remedy == "Name one of: app/shape.py:Shape.area, app/square.py:Square.area"
    broken = await served.code.impact(api.Impact(symbol="Shape.area", **asked))
    assert [(one.place.qualified_name, one.by) for one in broken.affected] == [("app.square.Square.area", "overrides")]
    assert (await served.code.map(api.CodeMap(tokens=200, **asked))).text.startswith("app/s")
    await served.code.structure(tree(FILES, branch="next"))
    assert (await served.code.callers(api.Callers(symbol="side", **asked))).coverage.branch == "main"
    with pytest.raises(client.Rejected) as refused:
        await served.code.callers(api.Callers(symbol="side", scope=scopes.OTHER))
    assert refused.value.status == 404


async def test_answers_say_that_calls_of_rust_are_not_known(served: client.Client) -> None:
    await served.code.structure(tree({**FILES, "src/lib.rs": "fn total() { rounded() }\nfn rounded() {}\n"}))
    asked: dict[str, Any] = {"scope": scopes.SHOP}
    for ask in (served.code.callers, served.code.callees):
        found = await ask(api.Callers(symbol="src/lib.rs:rounded", **asked))
        assert (found.calls, found.coverage.calls_unknown) == ([], ["rust"])
    broken = await served.code.impact(api.Impact(symbol="src/lib.rs:rounded", **asked))
    assert (broken.affected, broken.coverage.calls_unknown) == ([], ["rust"])
    way = await served.code.path(api.CodePath(source="src/lib.rs:total", target="src/lib.rs:rounded", **asked))
    assert (way.calls, way.coverage.calls_unknown) == ([], ["rust"])


MODULES = ("a", "b", "c", "d")


def module(name: str, chance: random.Random) -> str:
    """A source that calls, extends and imports from others by chance."""
    other = chance.choice(MODULES)
    lines = [f"from {other} import Base as Other, work as done", "import json", ""]
    lines += [f"class Base({chance.choice(['Other', 'object', 'json.JSONEncoder'])}):"]
    lines += [
        "    def run(self):",
        f"        return {chance.choice(['done()', 'self.stop()', 'Other().run()', 'None'])}",
        "",
    ]
    if chance.random() < 0.5:
        lines += ["    def stop(self):", "        return work()", ""]
    lines += ["def work():", f"    return {chance.choice(['Base().run()', 'done()', '1'])}"]
    return "\n".join(lines) + "\n"


async def known(kb: world.ObservedState) -> dict[str, str]:
    """What each document says, as the graph has it."""
    found = {}
    for kind, beginning in ((api.GIT_FILE, "git_file::"), (api.GIT_BRANCH, "git_branch::")):
        for one in await kb.graph.documents(scopes.SHOP, kind, beginning):
            versions = await kb.graph.versions(scopes.SHOP, one.id)
            [found[one.source_urn]] = [each.given for each in versions if each.document.until_ms is None]
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_any_changes_end_in_what_a_rebuild_gives(
    kb: world.ObservedState, served: client.Client, seed: int
) -> None:
    chance = random.Random(seed)
    files = {f"{name}.py": module(name, chance) for name in MODULES}
    former: list[dict[str, str]] = []
    for number in range(12):
        former.append(dict(files))
        change = chance.choice(["edit", "revert", "rename", "delete", "add"])
        path = chance.choice(sorted(files))
        if change == "edit":
            files[path] = module(path, chance)
        elif change == "revert":
            files = dict(chance.choice(former))
        elif change == "rename":
            files[f"{chance.choice(MODULES)}.py"] = files.pop(path)
        elif change == "delete" and len(files) > 1:
            del files[path]
        else:
            files[f"{chance.choice(MODULES)}.py"] = module(path, chance)
        reply = await served.code.structure(tree(files, commit=f"{number:040x}"))
        assert (reply.state, reply.failed) == ("Done", [])
    after, state = await known(kb), await kb.state()
    assert len(after) == len(files) + 1
    await served.code.structure(gone())
    assert await known(kb) == {}
    await served.code.structure(tree(files, commit=f"{11:040x}"))
    assert await known(kb) == after
    assert await kb.state() == state


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(b"ckb.code.another\nFileFacts\n.", id="a module that is not there"),
        pytest.param(b"ccodegraph.parse.facts\nNoSuchFacts\n.", id="a class that is not there"),
        pytest.param(b"cos\nsystem\n.", id="no facts"),
        pytest.param(pickle.dumps(("text",))[:-4], id="cut off"),
    ],
)
async def test_facts_that_this_version_cannot_read_are_asked_for_again(
    served: client.Client, database: mongo.Database, foreign: bytes
) -> None:
    """As another version of this release leaves them, before or after this one."""
    await served.code.structure(tree(FILES))
    body = zstandard.ZstdCompressor().compress(foreign)
    await database[book.FACTS].update_one({"path": "app/shape.py"}, {"$set": {"facts": body}})
    question = api.CodeMap(scope=scopes.SHOP, repository="acme/shop")
    with pytest.raises(client.Rejected) as caught:
        await served.code.map(question)
    assert (caught.value.status, caught.value.code, caught.value.field) == (409, "stale", "branch")
    again = await served.code.structure(tree(FILES, contents=False, commit="b" * 40))
    assert (again.state, sorted(again.missing)) == ("Wanted", sorted(FILES))
    done = await served.code.structure(tree(FILES, commit="b" * 40))
    assert (done.state, done.files) == ("Done", 3)
    assert (await served.code.map(question)).coverage.commit == "b" * 40
