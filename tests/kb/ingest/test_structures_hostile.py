"""Trees that cannot be stored whole, writers that meet, and answers while a tree is being written."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from codegraph import api
from codegraph.branch import analyst
from codegraph.extract import budget
from crds import priority, scope
from kb import client, metrics, mongo
from kb.code import book, service
from kb.ingest import structures
from kb.service.http import problems
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.ingest import trees

pytestmark = pytest.mark.services

kb, served = trees.kb, trees.served
tree, FILES = trees.tree, trees.FILES


async def callers(served: client.Client, symbol: str) -> api.CallsReply:
    return await served.code.callers(api.Callers(symbol=symbol, scope=scopes.SHOP))


async def test_what_cannot_be_stored_is_named_and_the_rest_is_there(served: client.Client) -> None:
    long = f"{'d/' * 340}x.py"
    org = {"org": "o" * 255, "name": "r" * 255, "defaultBranch": "main"}
    reply = await served.code.structure(tree({**FILES, long: "x = 1\n"}, repository=org))
    assert (reply.state, [(one.path, one.reason) for one in reply.skipped]) == ("Done", [(long, "long-name")])
    assert (reply.files, reply.failed) == (3, [])


async def test_folders_of_dependencies_take_no_place_of_sources_and_are_not_asked_for(served: client.Client) -> None:
    vendored = {f"app/node_modules/{number}.js": "x()\n" for number in range(3)}
    reply = await served.code.structure(tree({**FILES, **vendored}, contents=False))
    assert (reply.state, sorted(reply.missing)) == ("Wanted", sorted(FILES))
    reply = await served.code.structure(tree({**FILES, **vendored}))
    assert (reply.state, {one.reason for one in reply.skipped}, len(reply.skipped)) == ("Done", {"vendored"}, 3)


async def test_a_project_file_that_is_a_source_has_declarations(served: client.Client) -> None:
    files = {**FILES, "setup.py": "from app.square import side\n\ndef version():\n    return side()\n"}
    assert (await served.code.structure(tree(files))).files == 4
    assert [one.caller.path for one in (await callers(served, "side")).calls] == ["app/square.py", "setup.py"]


async def test_answers_are_of_the_commit_that_they_name_while_another_one_is_written(
    served: client.Client, monkeypatch: pytest.MonkeyPatch, database: mongo.Database
) -> None:
    await served.code.structure(tree(FILES))
    monkeypatch.setattr(structures, "WRITES", 1)
    changed = {path: text.replace("side", "edge") for path, text in FILES.items() if path != "app/shape.py"}
    changed["app/more.py"] = "def more():\n    return 1\n"
    assert (await served.code.structure(tree(changed, commit="b" * 40))).state == "Writing"
    found = await callers(served, "side")
    assert (found.coverage.commit, found.coverage.current, found.total) == ("a" * 40, False, 1)
    # A third tree comes before the second one is written.
    final = {**changed, "app/more.py": "def less():\n    return 1\n"}
    states: list[str] = []
    while not states or states[-1] != "Done":
        states.append((await served.code.structure(tree(final, commit="c" * 40))).state)
    assert states == ["Writing"] * (len(states) - 1) + ["Done"]
    found = await callers(served, "edge")
    assert (found.coverage.commit, found.coverage.current, found.total) == ("c" * 40, True, 1)
    assert await database[book.FACTS].count_documents({}) == len(final)
    states = []
    while not states or states[-1] != "Done":
        states.append((await served.code.structure(trees.gone())).state)
    assert len(states) > 1
    for name in (book.BRANCHES, book.FACTS):
        assert await database[name].count_documents({}) == 0


async def test_a_branch_that_is_replaced_while_it_is_asked_about_is_answered_as_it_is_then(
    served: client.Client, database: mongo.Database, clock: clocks.Clock
) -> None:
    changed = {path: text.replace("side", "edge") for path, text in FILES.items()}
    await served.code.structure(tree(FILES))

    class Between(book.Book):
        """The branch is written anew before the first facts are read."""

        loads = 0

        async def load(self, owner: scope.Scope, extractor: str, files: Sequence[tuple[str, str]]) -> list[bytes]:
            self.loads += 1
            if self.loads == 1:
                assert (await served.code.structure(tree(changed, commit="b" * 40))).state == "Done"
            return await super().load(owner, extractor, files)

    known, analysts = Between(database, clock), analyst.Analyst()
    asked = api.Callers(symbol="edge", scope=scopes.SHOP)
    found = api.CallsReply.model_validate_json(await service.Questions(known, analysts).ask("callers", asked))
    analysts.close()
    assert (found.total, known.loads) == (1, 2)
    assert (found.coverage.commit, found.coverage.current) == ("b" * 40, True)


async def test_writers_that_meet_end_in_one_of_their_trees(
    kb: world.ObservedState, served: client.Client, database: mongo.Database
) -> None:
    other = {path: text.replace("area", "size") for path, text in FILES.items() if path != "app/__init__.py"}
    sent = [tree(FILES), tree(other, commit="b" * 40), tree(FILES, branch="next"), tree(other, branch="next")] * 2
    replies = await asyncio.gather(*(served.code.structure(one) for one in sent))
    assert {one.state for one in replies} == {"Done"}
    for branch in ("main", "next"):
        assert (await served.code.structure(tree(FILES, branch=branch))).state == "Done"
    assert len(await kb.graph.documents(scopes.SHOP, api.GIT_FILE, "git_file::")) == 2 * len(FILES)
    assert await database[book.FACTS].count_documents({}) == len(FILES)


async def test_a_branch_that_goes_back_to_an_older_commit_has_its_files(
    kb: world.ObservedState, served: client.Client
) -> None:
    def at(text: str, year: int, commit: str) -> api.GitStructure:
        sent = tree({"app/shape.py": text}, commit=commit * 40, committedAt=f"{year}-01-01T00:00:00Z")
        when = datetime(year, 1, 1, tzinfo=UTC)
        return sent.model_copy(update={"files": [one.model_copy(update={"modified": when}) for one in sent.files]})

    old, new = trees.SHAPE, trees.SHAPE.replace("area", "size")
    for text, year, commit in ((old, 2020, "a"), (new, 2024, "b"), (old, 2020, "a")):
        reply = await served.code.structure(at(text, year, commit))
        assert (reply.state, reply.failed) == ("Done", [])
        targets = {one.edge.target for one in await kb.graph.edges(scopes.SHOP)}
        method = "area" if text == old else "size"
        assert {one for one in targets if one.startswith("method__")} == {
            f"method__app.shape.Shape__{method}__branch__main__shop"
        }


@pytest.mark.parametrize("seed", [1, 2])
async def test_requests_that_break_off_anywhere_end_in_what_was_sent_last(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock, database: mongo.Database, seed: int
) -> None:
    chance = random.Random(seed)
    analysts, known = analyst.Analyst(), book.Book(database, clock)
    works = kb.pipeline.structures(known, analysts, budget.Budget())

    async def take(sent: api.GitStructure) -> api.GitStructureReply:
        return await works.take(sent, priority.Priority.P3, problems.code)

    await take(tree(FILES))
    for number in range(12):
        words = {path: text.replace("area", chance.choice(["area", "size"])) for path, text in FILES.items()}
        files = {path: text for path, text in words.items() if chance.random() < 0.7}
        sent = trees.gone() if chance.random() < 0.2 else tree(files, commit=f"{number:040x}")
        work = asyncio.ensure_future(take(sent))
        await asyncio.wait([work], timeout=chance.random() * 0.2)
        work.cancel()
        await asyncio.wait([work])
    while (await take(tree(FILES, commit="f" * 40))).state != "Done":
        pass
    documents = await kb.graph.documents(scopes.SHOP, api.GIT_FILE, "git_file::")
    assert [one.source_urn for one in documents] == [f"git_file::acme/shop@main:{path}" for path in sorted(FILES)]
    methods = {one.edge.target for one in await kb.graph.edges(scopes.SHOP) if one.edge.type == "has_method"}
    assert {one.split("__")[2] for one in methods} == {"area"}
    assert await database[book.FACTS].count_documents({}) == len(FILES)
    while (await take(trees.gone())).state != "Done":
        pass
    for name in (book.BRANCHES, book.FACTS):
        assert await database[name].count_documents({}) == 0
    assert await kb.graph.documents(scopes.SHOP, api.GIT_FILE, "git_file::") == []
    analysts.close()
