"""Who is answered about the code of a branch, and what other branches, projects and groups keep."""

from __future__ import annotations

from typing import Any

import pytest

from codegraph import api
from codegraph.branch import analyst
from crds import access, scope
from kb import client, errors, mongo
from kb.code import book, service
from tests.kb import clock as clocks
from tests.kb import scopes
from tests.kb.ingest import trees

pytestmark = pytest.mark.services

kb, served = trees.kb, trees.served
JANA = "user:jana"


def viewer(*principals: str, of: scope.Scope = scopes.SHOP) -> scope.Viewer:
    return scope.Viewer(**of.model_dump(), principals=principals)


def questions(where: scope.Scope) -> list[tuple[str, api.CodeQuestion]]:
    return [
        ("callers", api.Callers(symbol="side", scope=where)),
        ("callees", api.Callers(symbol="side", scope=where)),
        ("impact", api.Impact(symbol="side", scope=where)),
        ("path", api.CodePath(source="side", target="side", scope=where)),
        ("map", api.CodeMap(scope=where)),
    ]


@pytest.fixture
async def asks(database: mongo.Database, clock: clocks.Clock) -> Any:
    analysts = analyst.Analyst()
    yield service.Questions(book.Book(database, clock), analysts)
    analysts.close()


async def status(served: client.Client, where: scope.Scope, **more: Any) -> int:
    try:
        await served.code.callers(api.Callers(symbol="side", scope=where, **more))
    except client.Rejected as error:
        return error.status
    return 200


async def test_a_viewer_without_a_principal_of_the_branch_has_no_answer(
    served: client.Client, asks: service.Questions
) -> None:
    await served.code.structure(trees.tree(trees.FILES, access=access.restricted([JANA])))
    for kind, asked in questions(scopes.SHOP):
        assert await asks.ask(kind, asked)
        for other in (viewer("user:olga"), viewer("group:shop", "user:olga")):
            with pytest.raises(errors.NotFound, match="no code of that repository and branch"):
                await asks.ask(kind, asked.model_copy(update={"scope": other}))
        assert await asks.ask(kind, asked.model_copy(update={"scope": viewer("user:olga", JANA)}))


async def test_access_that_nothing_is_known_of_is_shown_to_no_viewer_and_stays_when_it_is_not_sent(
    served: client.Client, asks: service.Questions
) -> None:
    kind, asked = questions(viewer(JANA))[0]
    await served.code.structure(trees.tree(trees.FILES))
    with pytest.raises(errors.NotFound, match="no code of that repository and branch"):
        await asks.ask(kind, asked)
    await served.code.structure(trees.tree(trees.FILES, access=access.restricted([JANA])))
    assert await asks.ask(kind, asked)
    await served.code.structure(trees.tree(trees.FILES, contents=False, commit="b" * 40))
    assert await asks.ask(kind, asked)
    await served.code.structure(trees.tree(trees.FILES, contents=False, access=access.restricted([])))
    with pytest.raises(errors.NotFound, match="no code of that repository and branch"):
        await asks.ask(kind, asked)


async def test_two_projects_of_a_group_with_a_repository_of_one_name_are_each_answered_from_their_own(
    served: client.Client,
) -> None:
    till = {**trees.FILES, "app/more.py": "def more():\n    return 1\n"}
    await served.code.structure(trees.tree(trees.FILES))
    await served.code.structure(trees.tree(till, scope=scopes.TILL))
    for where, files in ((scopes.SHOP, 3), (scopes.TILL, 4)):
        found = await served.code.callers(api.Callers(symbol="side", scope=where))
        assert found.coverage.files == files
        found = await served.code.callers(
            api.Callers(symbol="side", scope=where, repository="acme/shop", branch="main")
        )
        assert found.coverage.files == files
    assert await status(served, scopes.RETAIL) == 422
    assert await status(served, scopes.BLOG) == 404
    await served.code.structure(trees.tree({}, scope=scopes.TILL, commit=None, removed=True))
    assert await status(served, scopes.SHOP) == 200
    again = await served.code.structure(trees.tree(trees.FILES, contents=False))
    assert (again.state, again.unchanged) == ("Done", 3)


async def test_facts_that_another_branch_has_stay_whatever_group_it_was_sent_in(
    served: client.Client, database: mongo.Database
) -> None:
    await served.code.structure(trees.tree(trees.FILES, branch="next"))
    moved = scopes.make("acme", "shop", "stores")
    await served.code.structure(trees.tree(trees.FILES, scope=moved))
    await served.code.structure(trees.tree({}, scope=moved, commit=None, removed=True))
    again = await served.code.structure(trees.tree(trees.FILES, branch="next", contents=False))
    assert (again.state, again.missing) == ("Done", [])


async def test_facts_of_another_version_of_the_extractor_go_when_no_branch_has_them(
    served: client.Client, database: mongo.Database, clock: clocks.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.code.structure(trees.tree(trees.FILES, branch="next"))
    await served.code.structure(trees.tree(trees.FILES))
    monkeypatch.setattr("codegraph.VERSION", "another")
    for branch, facts in (("main", 6), ("next", 3)):
        reply = await served.code.structure(trees.tree(trees.FILES, branch=branch))
        assert (reply.state, reply.extractor) == ("Done", "another")
        assert await database[book.FACTS].count_documents({}) == facts
