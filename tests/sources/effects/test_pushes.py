"""pushBranch: a branch is pushed once per key, and nothing else is ever pushed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from crds import errors
from sources.api import problems
from sources.core import port
from sources.effects import ledger, wire
from tests.sources.effects.pushing import Pushing, pushing
from tests.sources.parts import refused

pytestmark = pytest.mark.services


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncIterator[Pushing]:
    async with pushing(tmp_path) as made:
        yield made
        assert made.left() == []


async def test_a_new_branch_is_pushed_and_then_grows(place: Pushing) -> None:
    first = place.work.commit()
    given = place.arguments(first)
    done = await place.push(given)
    assert (done.state, done.result) == (wire.State.DONE, {"branch": "jervis/fix", "commit": first})
    assert place.has() == first
    assert await place.push(given) == done
    second = place.work.commit()
    grown = place.arguments(second, expected=first, bundle=place.work.bundle(f"{first}..fix"))
    assert (await place.push(grown, "k2")).state is wire.State.DONE
    assert place.has() == second
    # A run may not see the branch: what it builds on is asked of the remote, and never comes into the clone.
    copy = place.workspace.clone("uid-code")
    assert (copy.has([first]), copy.has([place.remote.sha("main")])) == (False, True)
    with refused(problems.Conflict, field="key"):
        await place.push(given | {"expected": second})


# An effect writes: the entry, the claim, Sent, Done.
@pytest.mark.parametrize(("left", "made"), [(0, 0), (1, 0), (2, 0), (3, 1)])
async def test_a_branch_is_pushed_once_wherever_the_process_is_killed(place: Pushing, left: int, made: int) -> None:
    commit = place.work.commit()
    given = place.arguments(commit)
    with place.rig.database.killed(left):
        await place.push(given)
    assert bool(place.has()) == bool(made)
    place.rig.later()
    place.replica("ws2")
    outcome = await place.push(given)
    assert (outcome.state, outcome.result["commit"], place.has()) == (wire.State.DONE, commit, commit)
    assert await place.push(given) == outcome == await place.rig.found()
    assert place.pushes() == 1


@pytest.mark.parametrize("times", [1, 1000])
async def test_a_lost_acknowledgement_is_found_at_the_remote(place: Pushing, times: int) -> None:
    """curl repeats a request whose connection broke off, and the server refuses the second one."""
    commit = place.work.commit()
    place.http.cut, place.http.times = "after", times
    outcome = await place.push(place.arguments(commit))
    assert (outcome.state, place.has(), place.pushes()) == (wire.State.DONE, commit, 1)


async def test_a_push_that_did_not_arrive_is_made_once_the_server_is_quiet(place: Pushing) -> None:
    given = place.arguments(place.work.commit())
    place.http.cut = "before"
    with pytest.raises(port.Unreachable, match="did not do it"):
        await place.push(given)
    assert (await place.rig.found()).state is wire.State.UNKNOWN
    place.http.cut = ""
    with pytest.raises(port.Unreachable, match="just now"):
        await place.push(given)
    assert place.has() == ""
    place.rig.later()
    assert (await place.push(given)).state is wire.State.DONE
    assert (place.has(), place.pushes()) == (given["commit"], 1)


@pytest.mark.parametrize("since", ["grew", "merged"])
async def test_a_push_is_done_where_its_commit_went_on(place: Pushing, since: str) -> None:
    """Its answer was lost, and before the remote is asked the branch grew, or became part of main and was deleted."""
    commit = place.work.commit()
    given = place.arguments(commit)
    with place.rig.database.killed(3):
        await place.push(given)
    if since == "grew":
        place.remote.commit("More", {"more": b"1"}, branch="jervis/fix")
    else:
        place.remote.point("main", commit)
        place.remote.git("update-ref", "-d", "refs/heads/jervis/fix")
    place.rig.later()
    assert (await place.push(given)).state is wire.State.DONE
    assert (place.pushes(), bool(place.has())) == ((1, True) if since == "grew" else (0, False))


async def test_a_branch_that_another_pushed_meanwhile_is_left_alone(place: Pushing) -> None:
    commit = place.work.commit()
    given = place.arguments(commit)
    with place.rig.database.killed(2):
        await place.push(given)
    # As if Sent had been written.
    place.rig.later()
    place.http.cut = "before"
    with pytest.raises(port.Unreachable):
        await place.push(given)
    place.http.cut = ""
    theirs = place.remote.commit("Theirs", {"theirs": b"1"}, branch="jervis/fix", parents=("main",))
    place.rig.later()
    with refused(problems.Conflict, field="arguments.expected", match=theirs):
        await place.push(given)
    found = await place.rig.found()
    assert (found.state, found.problem and found.problem.field) == (wire.State.NOT_DONE, "arguments.expected")
    assert place.has() == theirs


async def test_of_two_replicas_one_pushes(place: Pushing) -> None:
    given = place.arguments(place.work.commit())
    tries = []
    for number in range(4):
        place.replica(f"ws{number}")
        tries.append(asyncio.create_task(place.push(given)))
        await asyncio.sleep(0)
    found = await asyncio.gather(*tries, return_exceptions=True)
    assert {type(one) for one in found} == {wire.Outcome, ledger.Busy}
    assert (place.has(), place.pushes()) == (given["commit"], 1)


async def test_two_keys_on_one_branch_never_overwrite_each_other(place: Pushing) -> None:
    one, two = place.work.commit("fix"), place.work.commit("other")
    given = [place.arguments(one), place.arguments(two, bundle=place.work.bundle("main..other"))]
    place.replica("ws1")
    first = asyncio.create_task(place.push(given[0], "one"))
    await asyncio.sleep(0)
    place.replica("ws2")
    found = await asyncio.gather(first, place.push(given[1], "two"), return_exceptions=True)
    # Where both came to the server at once, the other key is refused when the remote is asked again.
    [lost] = [number for number, each in enumerate(found) if not isinstance(each, wire.Outcome)]
    assert type(found[lost]) in (problems.Conflict, port.Unreachable)
    assert place.has() == (two, one)[lost]
    place.rig.later()
    with refused(problems.Conflict, field="arguments.expected"):
        await place.push(given[lost], ("one", "two")[lost])
    assert (place.has(), place.pushes()) == ((two, one)[lost], 1)


async def test_commits_are_never_removed(place: Pushing) -> None:
    first, other = place.work.commit("fix"), place.work.commit("other")
    await place.push(place.arguments(first))
    with pytest.raises(problems.Conflict, match="did not grow") as caught:
        await place.push(place.arguments(other, expected=first, bundle=place.work.bundle("main..other")), "k2")
    assert (caught.value.field, place.has()) == ("arguments.commit", first)


@pytest.mark.parametrize(
    ("branch", "field"),
    [("main", "arguments.branch"), ("fix", "arguments.branch"), ("jervis", "arguments.branch"),
     ("jervisx/fix", "arguments.branch")],
)  # fmt: skip
async def test_other_branches_than_those_of_the_connection_are_refused(place: Pushing, branch: str, field: str) -> None:
    with pytest.raises(problems.Forbidden) as caught:
        await place.push(place.arguments(place.work.commit(), branch=branch))
    assert (caught.value.field, place.pushes()) == (field, 0)


async def test_the_default_branch_is_pushed_only_by_its_own_name(place: Pushing) -> None:
    place.remote.git("branch", "jervis/main", "main")
    place.remote.git("symbolic-ref", "HEAD", "refs/heads/jervis/main")
    old, commit = place.remote.sha("main"), place.work.commit()
    given = place.arguments(commit, branch="jervis/main", expected=old)
    with pytest.raises(problems.Forbidden) as caught:
        await place.push(given)
    assert (caught.value.field, place.pushes()) == ("arguments.branch", 0)
    await place.connect(git={"push": {"branches": ["jervis/*", "jervis/main"]}})
    assert (await place.push(given)).state is wire.State.DONE
    assert place.has("jervis/main") == commit


async def test_a_connection_that_allows_none_is_not_pushed_to(place: Pushing) -> None:
    given = place.arguments(place.work.commit())
    for spec in ("{}", "null"):
        await place.connect(git=json.loads(spec))
        with refused(problems.Forbidden, field="connection", match="no push"):
            await place.push(given)
    place.rig.world.connect("tracker")
    with refused(problems.Invalid, field="connection"):
        await place.push(given, "k2", connection="tracker")
    await place.connect("theirs", clientId="globex")
    for name in ("theirs", "none"):
        with refused(problems.NotFound, field="connection"):
            await place.push(given, name, connection=name)
    asked = wire.Request(connection="code", key="k", arguments=given)
    with pytest.raises(problems.NotFound):
        await place.rig.does.run(place.rig.run(namespace="team-b"), "pushBranch", asked)
    assert place.pushes() == 0


async def test_what_the_server_refuses_is_not_done(place: Pushing) -> None:
    hook = place.remote.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no signature >&2\nexit 1\n")
    hook.chmod(0o755)
    given = place.arguments(place.work.commit())
    with refused(port.Misconfigured, field="arguments.branch", match="pre-receive hook declined"):
        await place.push(given)
    assert (await place.rig.found()).state is wire.State.NOT_DONE
    hook.unlink()
    place.rig.world.secrets["login"]["password"] = "wrong"
    with pytest.raises(errors.Permanent):
        await place.push(given)
    place.rig.world.secrets["login"]["password"] = "word"
    assert (await place.push(given)).state is wire.State.DONE
    assert place.has() == given["commit"]
