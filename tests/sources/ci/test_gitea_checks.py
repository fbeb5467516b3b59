"""Checks of commits at a real Gitea, which are set by its API as a service of checks does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controllers.sources.ci.wire import State
from controllers.sources.client import Rejected
from tests.sources import gitea
from tests.sources.ci.checks import opened

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server() -> Iterator[gitea.Gitea]:
    with gitea.running() as one:
        yield one


async def test_statuses_of_a_commit_are_read_at_gitea(server: gitea.Gitea) -> None:
    name = server.repository("checks", commits=True)
    other = server.repository("others", commits=True)
    sha = server.ask("GET", f"repos/{name}/branches/main")["commit"]["id"]

    def say(context: str, state: str, text: str = "") -> None:
        said = {"context": context, "state": state, "description": text, "target_url": f"https://ci.example/{context}"}
        server.ask("POST", f"repos/{name}/statuses/{sha}", json=said)

    async with opened() as place:
        place.world.secrets["login"] = {"token": server.token}
        place.world.connect(type="Gitea", url=f"{server.url}/{name}")
        first = await place.ask().checks("tracker")
        assert (first.branch, first.commit, first.state, first.checks) == ("main", sha, State.NO_CHECKS, ())
        say("unit", "pending")
        say("lint", "success", "all is well")
        waiting = await place.ask().checks("tracker", branch="main")
        assert (waiting.state, waiting.checks[0].finished_at) == (State.WAITING, "")
        # The last word of each context counts.
        say("unit", "failure", "2 of 10 failed")
        found = await place.ask().checks("tracker", commit=sha[:10])
        assert (found.commit, found.state, found.unread) == (sha, State.FAILED, ())
        assert [(one.name, one.kind, one.state, one.summary, one.url) for one in found.checks] == [
            ("unit", "status", State.FAILED, "2 of 10 failed", "https://ci.example/unit"),
            ("lint", "status", State.SUCCEEDED, "all is well", "https://ci.example/lint"),
        ]
        assert found.checks[0].started_at.startswith("20")
        say("unit", "success")
        assert (await place.ask().checks("tracker")).state is State.SUCCEEDED
        for given in ({"branch": "gone"}, {"commit": "0" * 40}):
            with pytest.raises(Rejected) as caught:
                await place.ask().checks("tracker", **given)
            assert caught.value.status == 404, given
        # The Connection is of one repository.
        with pytest.raises(Rejected) as caught:
            await place.ask().checks("tracker", repository=other)
        assert caught.value.field == "arguments.repository"
        server.ask("POST", f"repos/{name}/branches", json={"new_branch_name": "feature/area"})
        grown = await place.ask().checks("tracker", branch="feature/area")
        assert (grown.branch, grown.commit) == ("feature/area", sha)


async def test_many_statuses_are_read_over_pages(server: gitea.Gitea) -> None:
    name = server.repository("many", commits=True)
    sha = server.ask("GET", f"repos/{name}/branches/main")["commit"]["id"]
    for number in range(60):
        said = {"context": f"check-{number}", "state": "success"}
        server.ask("POST", f"repos/{name}/statuses/{sha}", json=said)
    async with opened() as place:
        place.world.secrets["login"] = {"token": server.token}
        place.world.connect(type="Gitea", url=f"{server.url}/{name}")
        found = await place.ask().checks("tracker")
        assert len({one.name for one in found.checks}) == 60
        assert (found.state, found.unread) == (State.SUCCEEDED, ())
