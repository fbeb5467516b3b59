"""pushBranch at a real Gitea: its branches, its rules, and its users without the right to write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from crds import errors
from sources.api import problems
from sources.core import port
from sources.effects import wire
from tests.sources import gitea
from tests.sources.effects.pushing import Pushing, Work, pushing
from tests.sources.parts import refused

pytestmark = pytest.mark.services


@pytest_asyncio.fixture
async def place(tmp_path: Path, forge: gitea.Gitea, request: pytest.FixtureRequest) -> AsyncIterator[Pushing]:
    async with pushing(tmp_path, connect=False) as made:
        name = f"push-{request.node.name[-12:].replace('_', '-')}"
        made.url = f"{forge.url}/{forge.repository(name, commits=True)}.git"
        made.login = {"username": "ada", "password": forge.token}
        made.rig.world.secrets["login"] = made.login
        await made.connect(url=made.url)
        there = made.url.replace("://", f"://ada:{forge.token}@")
        made.work = Work(tmp_path / "gitea.git", there)
        yield made


def branches(forge: gitea.Gitea, place: Pushing) -> dict[str, str]:
    name = place.url.removeprefix(f"{forge.url}/").removesuffix(".git")
    return {one["name"]: one["commit"]["id"] for one in forge.ask("GET", f"repos/{name}/branches")}


async def test_a_branch_comes_to_gitea_and_grows(forge: gitea.Gitea, place: Pushing) -> None:
    main, first = place.work.repository.sha("main"), place.work.commit()
    given = place.arguments(first)
    assert (await place.push(given)).state is wire.State.DONE
    assert branches(forge, place) == {"main": main, "jervis/fix": first}
    second = place.work.commit()
    grown = place.arguments(second, expected=first)
    assert (await place.push(grown, "k2")).state is wire.State.DONE
    with refused(problems.Conflict, field="arguments.expected"):
        await place.push(grown, "k3")
    assert branches(forge, place) == {"main": main, "jervis/fix": second}


async def test_the_rules_and_rights_of_gitea_hold(forge: gitea.Gitea, place: Pushing) -> None:
    name = place.url.removeprefix(f"{forge.url}/").removesuffix(".git")
    rule = {"rule_name": "jervis/closed*", "enable_push": False}
    forge.ask("POST", f"repos/{name}/branch_protections", json=rule)
    commit = place.work.commit()
    with refused(port.Misconfigured, field="arguments.branch", match="pre-receive hook declined"):
        await place.push(place.arguments(commit, branch="jervis/closed"), "closed")
    place.rig.world.secrets["login"] = {"username": "ada", "password": "wrong"}
    with pytest.raises(errors.Permanent):
        await place.push(place.arguments(commit), "wrong")
    assert set(branches(forge, place)) == {"main"}
