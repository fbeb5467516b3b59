"""What Joern says about a branch: put beside its structure, kept with it, gone with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from codegraph import api
from codegraph.branch import analyst, cpg
from codegraph.extract import budget
from crds.priority import Priority
from kb import client, mongo
from kb.code import book
from kb.service.http import problems
from router import client as router_client
from tests import thorough
from tests.fakes.ollama import process
from tests.joern import tree as sample
from tests.kb import clock as clocks
from tests.kb import conftest, scopes, world
from tests.kb.ingest import trees, victim

pytestmark = pytest.mark.services

kb, served = trees.kb, trees.served
A, B = "a" * 40, "b" * 40
NATIVE = {path: text for path, text in sample.FILES.items() if path.startswith("native/")}
"""C alone: no call of it is known without Joern."""
MORE = "\nint more(void)\n{\n    return 1;\n}\n"
Rows = dict[tuple[str, str, str], dict[str, Any]]


def request(export: api.CpgExport | None, commit: str = A, **more: Any) -> api.Cpg:
    where = {"scope": scopes.SHOP, "repository": {"org": "acme", "name": "shop"}, "branch": "main"}
    return api.Cpg.model_validate(where | {"commit": commit, "export": export} | more)


async def rows(kb: world.ObservedState) -> Rows:
    found = await kb.graph.relationships(scopes.SHOP, limit=1000)
    edges = [(one.edge, one) for one in found if one.edge is not None]
    return {(edge.source, edge.type, edge.target): json.loads(said.properties or "{}") for edge, said in edges}


def joerns(found: Rows) -> set[tuple[str, str, str]]:
    return {one for one, said in found.items() if said.get("source") == cpg.RULE}


def key(kind: str, name: str) -> str:
    return f"{kind}__{name}__branch__main__shop"


AREA, SQUARED = key("method", "native.shape__shape_area"), key("method", "native.shape__squared")
CHECKED, MAIN = key("method", "native.check__checked"), key("method", "native.check__main")


async def test_its_edges_and_signatures_stand_beside_ours(kb: world.ObservedState, served: client.Client) -> None:
    await served.code.structure(trees.tree(sample.FILES))
    before = await rows(kb)
    reply = await served.code.enrich(request(sample.export()))
    assert (reply.state, reply.commit) == ("Done", A)
    after = await rows(kb)
    assert {one: after[one] for one in before} == before, "nothing of ours is changed"
    added = joerns(after)
    assert added == after.keys() - before.keys()
    assert {(AREA, "calls", SQUARED), (AREA, "calls", CHECKED), (MAIN, "calls", AREA)} <= added
    assert (key("class", "shop.Shape"), "uses_type", key("class", "shop.Money")) in added
    kinds = [one[1] for one in added]
    assert (reply.calls, reply.extends, reply.uses_type) == tuple(map(kinds.count, ("calls", "extends", "uses_type")))
    [node] = await kb.graph.nodes(scopes.SHOP, keys=[AREA])
    assert node.properties["resolvedSignature"] == "int(shape*)"
    assert node.properties["signature"] == "int shape_area(const struct shape *one)"
    again = await served.code.enrich(request(sample.export()))
    assert (again.state, again.stored, again.calls) == ("Done", 0, reply.calls)
    asked = api.Callers(scope=scopes.SHOP, symbol="checked")
    found = await served.code.callers(asked)
    assert [(one.caller.name, one.rule) for one in found.calls] == [("shape_area", cpg.RULE)]
    assert found.coverage.analysed == A


async def test_after_a_commit_it_counts_for_the_files_that_stayed_as_after_a_rebuild(
    kb: world.ObservedState, served: client.Client
) -> None:
    await served.code.structure(trees.tree(NATIVE))
    await served.code.enrich(request(sample.export()))
    changed = NATIVE | {"native/check.c": NATIVE["native/check.c"] + MORE}
    await served.code.structure(trees.tree(changed, commit=B))
    kept = joerns(await rows(kb))
    assert (AREA, "calls", SQUARED) in kept
    assert not [one for one in kept if CHECKED in one or MAIN in one]
    incremental = await rows(kb)
    await served.code.structure(trees.tree(NATIVE, commit=A))
    assert (MAIN, "calls", AREA) in joerns(await rows(kb)), "the content that was analysed is back"
    await served.code.structure(trees.tree(changed, commit=B))
    assert await rows(kb) == incremental
    assert (await served.code.callers(api.Callers(scope=scopes.SHOP, symbol="squared"))).coverage.analysed == A


async def test_it_is_refused_for_another_commit_than_the_one_that_is_known(served: client.Client) -> None:
    async def refused(asked: api.Cpg) -> str | None:
        with pytest.raises(client.Rejected) as caught:
            await served.code.enrich(asked)
        assert (caught.value.status, caught.value.code) == (409, "stale")
        assert caught.value.remedy
        return caught.value.field

    assert await refused(request(sample.export())) == "branch", "it is to be sent first"
    await served.code.structure(trees.tree(NATIVE))
    assert await refused(request(sample.export(), commit=B)) == "commit"
    assert await refused(request(sample.export(), branch="other")) == "branch"
    assert await refused(request(None)) == "export", "the structure is that of the commit, and no export is known"
    await served.code.structure(trees.tree(NATIVE | {"native/new.c": MORE}, contents=False, commit=B))
    assert await refused(request(sample.export())) == "commit", "a newer tree is being written"


async def test_it_goes_with_the_branch_and_one_export_replaces_another(
    kb: world.ObservedState, served: client.Client, database: mongo.Database
) -> None:
    await served.code.structure(trees.tree(NATIVE))
    await served.code.enrich(request(sample.export()))
    less = sample.export().model_copy(update={"calls": []})
    await served.code.enrich(request(less))
    assert not [one for one in joerns(await rows(kb)) if one[1] == "calls"]
    assert await database[book.FACTS].count_documents({}) == len(NATIVE) + 1
    await served.code.structure(trees.gone())
    assert await rows(kb) == {}
    for name in (book.BRANCHES, book.FACTS):
        assert await database[name].count_documents({}) == 0


async def test_a_kill_before_any_call_leaves_nothing_that_a_repeated_request_does_not_find(
    tmp_path: Path, router: router_client.Client, fake: process.Fake, database: mongo.Database, clock: clocks.Clock
) -> None:
    """kill -9 of the writing process; `make test` kills before each ninth call, `make test-thorough` before each."""
    place = {"ollama": fake.url, "mongodb": conftest.required("JERVIS_TEST_MONGODB_URI"), "name": database.name}
    less = {path: NATIVE[path] for path in ("native/shape.c", "native/shape.h")}
    known, text = book.Book(database, clock), request(sample.export()).model_dump_json(by_alias=True)
    (before := tmp_path / "before").mkdir()
    analysts = analyst.Analyst()
    async with victim.opened(before, router) as kb:
        works = kb.pipeline.structures(known, analysts, budget.Budget())
        await works.take(trees.tree(less), Priority.P3, problems.code)
    analysts.close()
    held = {name: [row async for row in database[name].find()] for name in (book.BRANCHES, book.FACTS)}

    async def ended(name: str, deadly: int) -> tuple[list[str], tuple[Rows, object, int]]:
        for collection, kept in held.items():
            await database[collection].delete_many({})
            await database[collection].insert_many(kept)
        folder = Path(shutil.copytree(before, tmp_path / name))
        calls = victim.run(place, folder, "enrich", text, deadly)
        async with victim.opened(folder, router) as kb:
            await victim.enrich(kb, known, text)
            stored = await database[book.FACTS].count_documents({})
            branch = await known.branch(scopes.SHOP, "acme/shop", "main")
            assert branch is not None
            assert (branch.analysed, branch.litter) == (A, ())
            return calls, (await rows(kb), await kb.state(), stored)

    calls, expected = await ended("whole", 0)
    assert (AREA, "calls", SQUARED) in joerns(expected[0])
    assert expected[2] == len(less) + 1
    assert len(calls) > 12
    for deadly in thorough.part(range(1, len(calls) + 1), thorough.KILLS):
        assert (await ended(f"killed{deadly}", deadly))[1] == expected, (deadly, calls[deadly - 1])


async def test_a_long_write_goes_on_without_the_export(
    kb: world.ObservedState, served: client.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kb.ingest import structures

    await served.code.structure(trees.tree(NATIVE))
    monkeypatch.setattr(structures, "WRITES", 1)
    shown: list[api.CpgReply] = []
    await served.code.enrich(request(sample.export()), shown=shown.append)
    assert [one.state for one in shown][-2:] == ["Writing", "Done"]
    assert [one.left for one in shown] == sorted((one.left for one in shown), reverse=True)
    assert (MAIN, "calls", AREA) in joerns(await rows(kb))
