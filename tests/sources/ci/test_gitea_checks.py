"""Checks of commits at a real Gitea, which are set by its API as a service of checks does."""

from __future__ import annotations

import pytest

from sources.ci.wire import State
from sources.client import Rejected
from tests.sources import gitea
from tests.sources.ci.checks import opened
from tests.sources.parts import refused

pytestmark = pytest.mark.services


async def test_statuses_of_a_commit_are_read_at_gitea(forge: gitea.Gitea) -> None:
    name = forge.repository("checks", commits=True)
    other = forge.repository("others", commits=True)
    sha = forge.ask("GET", f"repos/{name}/branches/main")["commit"]["id"]

    def say(context: str, state: str, text: str = "") -> None:
        said = {"context": context, "state": state, "description": text, "target_url": f"https://ci.example/{context}"}
        forge.ask("POST", f"repos/{name}/statuses/{sha}", json=said)

    async with opened() as place:
        place.world.secrets["login"] = {"token": forge.token}
        place.world.connect(type="Gitea", url=f"{forge.url}/{name}")
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
        with refused(Rejected, field="arguments.repository"):
            await place.ask().checks("tracker", repository=other)
        forge.ask("POST", f"repos/{name}/branches", json={"new_branch_name": "feature/area"})
        grown = await place.ask().checks("tracker", branch="feature/area")
        assert (grown.branch, grown.commit) == ("feature/area", sha)


async def test_many_statuses_are_read_over_pages(forge: gitea.Gitea) -> None:
    name = forge.repository("many", commits=True)
    sha = forge.ask("GET", f"repos/{name}/branches/main")["commit"]["id"]
    for number in range(60):
        said = {"context": f"check-{number}", "state": "success"}
        forge.ask("POST", f"repos/{name}/statuses/{sha}", json=said)
    async with opened() as place:
        place.world.secrets["login"] = {"token": forge.token}
        place.world.connect(type="Gitea", url=f"{forge.url}/{name}")
        found = await place.ask().checks("tracker")
        assert len({one.name for one in found.checks}) == 60
        assert (found.state, found.unread) == (State.SUCCEEDED, ())
