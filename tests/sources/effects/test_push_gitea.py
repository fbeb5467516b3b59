"""pushBranch at a real Gitea: its branches, its rules, and its users without the right to write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from controllers.sources import port
from controllers.sources.effects import wire
from controllers.sources.http import problems
from crds import errors
from tests.sources import gitea
from tests.sources.effects.pushing import Pushing, Work, pushing

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server() -> Iterator[gitea.Gitea]:
    with gitea.running() as one:
        yield one


@pytest_asyncio.fixture
async def place(tmp_path: Path, server: gitea.Gitea, request: pytest.FixtureRequest) -> AsyncIterator[Pushing]:
    async with pushing(tmp_path, connect=False) as made:
        name = f"push-{request.node.name[-12:].replace('_', '-')}"
        made.url = f"{server.url}/{server.repository(name, commits=True)}.git"
        made.login = {"username": "ada", "password": server.token}
        made.rig.world.secrets["login"] = made.login
        await made.connect(url=made.url)
        there = made.url.replace("://", f"://ada:{server.token}@")
        made.work = Work(tmp_path / "gitea.git", there)
        yield made


def branches(server: gitea.Gitea, place: Pushing) -> dict[str, str]:
    name = place.url.removeprefix(f"{server.url}/").removesuffix(".git")
    return {one["name"]: one["commit"]["id"] for one in server.ask("GET", f"repos/{name}/branches")}


async def test_a_branch_comes_to_gitea_and_grows(server: gitea.Gitea, place: Pushing) -> None:
    main, first = place.work.repository.sha("main"), place.work.commit()
    given = place.arguments(first)
    assert (await place.push(given)).state is wire.State.DONE
    assert branches(server, place) == {"main": main, "jervis/fix": first}
    second = place.work.commit()
    grown = place.arguments(second, expected=first)
    assert (await place.push(grown, "k2")).state is wire.State.DONE
    with pytest.raises(problems.Conflict) as caught:
        await place.push(grown, "k3")
    assert caught.value.field == "arguments.expected"
    assert branches(server, place) == {"main": main, "jervis/fix": second}


async def test_the_rules_and_rights_of_gitea_hold(server: gitea.Gitea, place: Pushing) -> None:
    name = place.url.removeprefix(f"{server.url}/").removesuffix(".git")
    rule = {"rule_name": "jervis/closed*", "enable_push": False}
    server.ask("POST", f"repos/{name}/branch_protections", json=rule)
    commit = place.work.commit()
    with pytest.raises(port.Misconfigured, match="pre-receive hook declined") as caught:
        await place.push(place.arguments(commit, branch="jervis/closed"), "closed")
    assert caught.value.field == "arguments.branch"
    place.rig.world.secrets["login"] = {"username": "ada", "password": "wrong"}
    with pytest.raises(errors.Permanent):
        await place.push(place.arguments(commit), "wrong")
    assert set(branches(server, place)) == {"main"}
