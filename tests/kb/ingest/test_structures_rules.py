"""Hard rules that come and go, and repositories of one name on two hosts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from codegraph import api
from kb import client
from tests.kb import scopes, world
from tests.kb.ingest import trees
from tests.kb.rules import test_enforce
from tests.kb.rules.test_ingest import Kept

pytestmark = pytest.mark.services

served = trees.served
tree, FILES = trees.tree, trees.FILES


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
async def kb(open_world: world.Opening, kept: Kept) -> AsyncIterator[world.ObservedState]:
    async with open_world(rules=kept) as made:
        yield made


async def documents(kb: world.ObservedState) -> list[str]:
    found = await kb.graph.documents(scopes.SHOP, api.GIT_FILE, "git_file::")
    return [one.source_urn.rpartition(":")[2] for one in found]


async def test_a_file_that_a_rule_forbade_comes_at_the_next_pass_after_the_rule_is_gone(
    kb: world.ObservedState, served: client.Client, kept: Kept
) -> None:
    kept.rules = [test_enforce.rule("enforce: never-index when contains Square", key="secret")]
    reply = await served.code.structure(tree(FILES))
    assert (reply.state, [one.path for one in reply.failed]) == ("Done", ["app/square.py"])
    assert await documents(kb) == ["app/__init__.py", "app/shape.py"]
    # As long as the rules are the same, it is not tried again.
    again = await served.code.structure(tree(FILES, contents=False))
    assert (again.state, again.failed, again.unchanged) == ("Done", [], 3)
    kept.rules = [test_enforce.rule("enforce: never-index when contains Square", key="secret", version=2)]
    again = await served.code.structure(tree(FILES, contents=False, commit="b" * 40))
    assert [one.problem.message for one in again.failed] == ["a hard rule forbids to store it: 'secret' (version 2)"]
    kept.rules = []
    reply = await served.code.structure(tree(FILES, contents=False, commit="c" * 40))
    assert (reply.state, reply.stored, reply.failed) == ("Done", 1, [])
    assert await documents(kb) == sorted(FILES)
    assert (await served.code.structure(tree(FILES, contents=False))).unchanged == 3
    assert (await served.code.structure(trees.gone())).state == "Done"
    assert await documents(kb) == []


async def test_a_repository_of_one_name_on_another_host_is_refused_until_it_has_moved(
    kb: world.ObservedState, served: client.Client
) -> None:
    other = {**FILES, "app/shape.py": trees.SHAPE.replace("area", "size")}
    await served.code.structure(tree(FILES, host="github.com"))
    with pytest.raises(client.Rejected) as refused:
        await served.code.structure(tree(other, host="git.acme.org", commit="b" * 40))
    assert (refused.value.status, refused.value.field) == (422, "host")
    for host in ("github.com", "git.acme.org"):
        assert host in str(refused.value)
    # The one that was refused takes nothing along when it goes; without a host, and with the same, all is as before.
    assert (await served.code.structure(tree({}, commit=None, removed=True, host="git.acme.org"))).removed == 0
    for host in ("", "GitHub.com"):
        again = await served.code.structure(tree(FILES, contents=False, host=host))
        assert (again.state, again.unchanged) == ("Done", 3)
    # Another project, and another branch, are others.
    for sent in (tree(FILES, host="git.acme.org", scope=scopes.TILL), tree(FILES, host="git.acme.org", branch="next")):
        assert (await served.code.structure(sent)).state == "Done"
    reply = await served.code.structure(tree(other, host="git.acme.org", moved=True, commit="b" * 40))
    assert (reply.state, reply.stored) == ("Done", 1)
    with pytest.raises(client.Rejected, match=r"git\.acme\.org"):
        await served.code.structure(tree(FILES, host="github.com"))
