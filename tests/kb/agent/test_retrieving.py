"""The tools that look into the knowledge base, on Weaviate and MongoDB, and what a scope or a rule keeps back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest

from codegraph.branch import analyst
from crds import scope
from crds.priority import Priority
from kb import api, errors, metrics, mongo
from kb.agent import environment, graph_tool, retrieving, tree
from kb.code import book, service
from kb.retrieve import search
from kb.vectors import weaviate
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.agent import rig
from tests.kb.agent.rig import MANUAL, SAID, SEARCH, WRITE, error, given, result, rule
from tests.kb.aliases import memory as aliases_memory
from tests.kb.ingest import trees

pytestmark = pytest.mark.services


@pytest.fixture
async def kb(
    open_world: world.Opening, weaviate_store: weaviate.Store, clock: clocks.Clock
) -> AsyncIterator[world.ObservedState]:
    async with open_world(vector=weaviate_store, aliases=aliases_memory.Registry(clock)) as opened:
        yield opened


def data(viewer: scope.Scope = scopes.SHOP, rules: Sequence[api.Rule] = ()) -> tree.TreeData:
    return rig.asked("a question", viewer, rules)


async def test_passages_of_the_scope_and_not_of_another(desk: rig.Desk) -> None:
    kb = desk.kb
    await kb.ingest(world.request(MANUAL, urn="manual::pump", kind="manual", title="Pump manual"))
    await kb.ingest(world.request("The voltage is a secret.", urn="note::s", owner=scopes.BLOG, title="Other"))
    tool = retrieving.FastVectorSearchTool(kb.finder(search.Breadth()))
    found = result(await given(tool, data(), query="operating voltage"))
    assert [one["sourceUrn"] for one in found.objects] == ["manual::pump"]
    assert (found.name, found.payload_type) == ("text_results", "chunks")
    assert found.message == "Found 1 text chunks matching 'operating voltage'. Top result from Pump manual."
    [none] = await given(tool, data(scopes.OTHER), query="operating voltage")
    assert none == environment.Error(
        "No text results for: operating voltage", True, "Try broader search terms or another tool."
    )
    assert error(await given(tool, data(rules=[rule("enforce: never-use-kind manual")]), query="operating voltage"))
    desk.script([SEARCH, WRITE], SAID)
    assert (await desk.ask(data()))[-1].outcome == "answered"


async def test_relationships_with_the_sentences_that_prove_them(kb: world.ObservedState) -> None:
    await kb.ingest(world.request())
    tool = graph_tool.GraphExploreTool(kb.graph, kb.vectors, kb.aliases)
    found = result(await given(tool, data(), node="jira:JERV-123"))
    assert found.payload_type == "relationships"
    said = next(one for one in found.objects if "JERV-123|AFFECTS|file:UserService.kt" in one["text"])
    assert (said["type"], said["sourceUrn"], said["chunkId"] != "") == ("affects", "email::<m1@acme.com>", True)
    assert isinstance((await given(tool, data(), node="userservice", hops=2))[0], environment.Result)
    for hidden in (data(scopes.OTHER), data(rules=[rule("enforce: never-use-source email::*")])):
        assert isinstance((await given(tool, hidden, node="jira:JERV-123"))[0], environment.Error)


async def test_code_is_searched_where_it_is_known(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock, database: mongo.Database
) -> None:
    async with AsyncExitStack() as stack:
        analysts = analyst.Analyst()
        stack.callback(analysts.close)
        known = book.Book(database, clock)
        tool = retrieving.CodeSearchTool(service.Questions(known, analysts), known)
        assert not await tool.is_tool_available(data())
        async with trees.opened(kb, meters, clock, database) as (typed, _):
            await typed.code.structure(trees.tree(trees.FILES))
        shop = data()
        assert await tool.is_tool_available(shop)
        assert not await tool.is_tool_available(data(scopes.OTHER))
        assert not await tool.is_tool_available(data(rules=[rule("enforce: never-use-tool code_callers")]))
        [call] = result(await given(tool, shop, kind="callers", text="side")).objects
        assert call["text"] == "app.square.Square.area calls app.square.side at app/square.py:6"
        assert call["sourceUrn"] == "git_file::acme/shop@main:app/square.py"
        assert call["ref"] == 1
        where = result(await given(tool, shop, text="the area of a Shape is wrong"))
        assert "app/shape.py" in {one["path"] for one in where.objects}
        impact = result(await given(tool, shop, kind="impact", text="Shape.area"))
        assert "overrides" in impact.objects[0]["text"]
        with pytest.raises(errors.NotFound):
            await given(tool, shop, kind="callers", text="no_such_function")
        hidden = data(rules=[rule("enforce: never-use-source git_file::*")])
        assert isinstance((await given(tool, hidden, text="Shape"))[0], environment.Error)


async def test_rules_that_cannot_be_enforced_or_have_no_room_stop_the_question() -> None:
    with pytest.raises(errors.Unconfigured, match="cannot be enforced"):
        retrieving.in_force([rule("enforce: dance")], tree.TreeData("q", scopes.SHOP, Priority.P1), 1000)
    with pytest.raises(errors.Unconfigured, match="at most 10 fit"):
        retrieving.in_force([rule("x" * 11)], tree.TreeData("q", scopes.SHOP, Priority.P1), 10)
    others = tree.TreeData("q", scopes.BLOG, Priority.P1)
    retrieving.in_force([rule("enforce: never-use-tool search")], others, 1000)
    assert (others.rules, others.permits("search")) == ((), True)


async def test_the_rules_are_shown_without_addresses() -> None:
    shown = data(rules=[rule("Be kind.\nenforce: notify https://hooks.example.com/secret on UserTask")])
    tool = retrieving.RulesTool()
    user = scope.Viewer(**scopes.SHOP.model_dump(), principals=("user:jana",))
    held = data(user, [rule("Be kind.")])
    assert (len(held.rules), await tool.is_tool_available(held)) == (1, False)
    assert await tool.is_tool_available(shown)
    found = result(await given(tool, shown))
    assert (found.payload_type, found.objects[0]["text"]) == ("rules", "Be kind.")
