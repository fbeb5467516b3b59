"""Checks of commits at GitHub and GitLab on the wire, who may read them, and what of them reaches a run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from crds import scope
from sources.api import routes
from sources.ci import hosts, serving, wire
from sources.ci.wire import State
from sources.client import Rejected, Unavailable
from tests.sources.ci.checks import SHA, Pages, Place, counted, opened
from tests.sources.effects.world import conditions
from tests.sources.parts import refused

HUB, LAB = "/api/v3/repos/o/r", "/api/v4/projects/o%2Fr"


def run_of(name: str, number: int, status: str, conclusion: str | None, **more: Any) -> dict[str, Any]:
    """docs.github.com/rest/checks/runs, "List check runs for a Git reference"."""
    return {
        "id": number, "name": name, "status": status, "conclusion": conclusion,
        "html_url": f"https://github.com/o/r/runs/{number}", "started_at": "2026-11-26T10:00:00Z",
        "completed_at": "2026-11-26T10:05:00Z" if conclusion else None, "app": {"slug": "github-actions"},
        "output": {"title": None, "summary": None, "annotations_count": 0}, **more,
    }  # fmt: skip


def github(place: Place, *runs: dict[str, Any], statuses: tuple[dict[str, Any], ...] = ()) -> None:
    place.world.connect(type="GitHub")
    combined = {"sha": SHA, "state": "pending", "statuses": list(statuses), "total_count": len(statuses)}
    place.world.answers |= {
        HUB: {"default_branch": "main"},
        f"{HUB}/commits/heads/main/status": combined,
        f"{HUB}/commits/{SHA}/status": combined,
        f"{HUB}/commits/{SHA}/check-runs": {"total_count": len(runs), "check_runs": list(runs)},
    }


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with opened() as made:
        yield made


async def test_github_has_check_runs_and_statuses_and_says_why_one_fails(place: Place) -> None:
    note = {"path": "src/area.py", "start_line": 2, "message": "assert 3 == 2"}
    github(
        place,
        run_of("lint", 1, "completed", "success"),
        run_of("test", 2, "completed", "failure", output={"title": "1 failed", "annotations_count": 1}),
        run_of("docs", 3, "completed", "skipped"),
        statuses=(
            {
                "context": "coverage", "state": "success", "target_url": "https://cov.example/1",
                "description": "81 %", "created_at": "2026-11-26T10:06:00Z", "updated_at": "2026-11-26T10:06:30Z",
            },
        ),
    )  # fmt: skip
    steps = [{"name": "Set up", "conclusion": "success"}, {"name": "Run pytest", "conclusion": "failure"}]
    place.world.answers |= {
        f"{HUB}/actions/jobs/2": {"steps": steps}, f"{HUB}/check-runs/2/annotations": [note],
    }  # fmt: skip
    found = await place.ask().checks("tracker")
    assert (found.repository, found.branch, found.commit, found.state) == ("o/r", "main", SHA, State.FAILED)
    assert [(one.name, one.kind, one.state) for one in found.checks] == [
        ("test", "check", State.FAILED), ("lint", "check", State.SUCCEEDED), ("coverage", "status", State.SUCCEEDED),
        ("docs", "check", State.SKIPPED),
    ]  # fmt: skip
    failed, _, coverage, _ = found.checks
    assert failed.summary == "failed step: Run pytest\nsrc/area.py:2: assert 3 == 2\n1 failed"
    assert (failed.started_at, failed.finished_at) == ("2026-11-26T10:00:00Z", "2026-11-26T10:05:00Z")
    assert failed.url == "https://github.com/o/r/runs/2"
    assert (coverage.summary, coverage.finished_at) == ("81 %", "2026-11-26T10:06:30Z")
    assert (found.left_out, found.unread) == (0, ())
    assert {one.get("Authorization") for one in place.world.headers} == {"Bearer t0k3n"}
    assert counted(place.measured) == {("GitHub", "ok"): 1}


@pytest.mark.parametrize(
    ("runs", "state"),
    [
        ((), State.NO_CHECKS),
        ((("a", "completed", "success"),), State.SUCCEEDED),
        ((("a", "completed", "success"), ("b", "in_progress", None)), State.RUNNING),
        ((("a", "completed", "success"), ("b", "queued", None)), State.WAITING),
        ((("a", "in_progress", None), ("b", "completed", "timed_out")), State.FAILED),
        ((("a", "completed", "success"), ("b", "completed", "cancelled")), State.CANCELLED),
        ((("a", "completed", "neutral"),), State.SKIPPED),
        ((("a", "completed", "success"), ("b", "completed", "of-tomorrow")), State.UNKNOWN),
    ],
)
async def test_the_state_of_all_is_that_of_the_worst(place: Place, runs: tuple[Any, ...], state: State) -> None:
    github(place, *(run_of(name, at, *said) for at, (name, *said) in enumerate(runs, start=1)))
    assert (await place.ask().checks("tracker")).state is state


async def test_a_part_that_cannot_be_read_is_no_success(place: Place) -> None:
    github(place, run_of("lint", 1, "completed", "success"))
    place.world.refuses[f"{HUB}/commits/{SHA}/check-runs"] = 403
    found = await place.ask().checks("tracker", branch="main")
    assert (found.state, found.checks) == (State.UNKNOWN, ())
    [why] = found.unread
    assert why.startswith("check runs: GET ")
    assert " answered 403" in why


async def test_pages_are_followed_to_a_limit_and_what_is_left_out_is_counted(place: Place) -> None:
    github(place)
    page = [run_of(f"c{at}", at, "completed", "success") for at in range(60)]
    path = f"{HUB}/commits/{SHA}/check-runs"
    place.world.answers[path] = Pages([{"check_runs": page}, {"check_runs": page}])
    found = await place.ask().checks("tracker")
    assert (len(found.checks), found.left_out, found.state) == (wire.MOST_CHECKS, 20, State.SUCCEEDED)
    place.world.answers[path] = Pages([{"check_runs": page}] * 9)
    place.world.asked.clear()
    found = await place.ask().checks("tracker")
    assert [query.get("page", "1") for asked, query in place.world.asked if asked == path] == ["1", "2", "3"]
    assert (found.state, found.unread) == (State.UNKNOWN, ("check runs: more than 3 pages",))


async def test_gitlab_has_the_jobs_of_the_latest_pipelines_and_statuses_of_others(place: Place) -> None:
    place.world.connect(type="GitLab")
    at = {"created_at": "2026-11-26T10:00:00Z", "updated_at": "2026-11-26T10:09:00Z"}
    pipeline = {"ref": "main", "source": "push", "status": "failed", "web_url": "https://lab.example/p/9", **at}
    job = {"web_url": "https://lab.example/j", "started_at": "2026-11-26T10:01:00Z", "finished_at": None}
    status = {"target_url": "javascript:alert(1)", "description": "scan", "created_at": at["created_at"]}
    place.world.answers |= {
        LAB: {"default_branch": "main"},
        f"{LAB}/repository/branches/feature%2Farea": {"commit": {"id": SHA}},
        f"{LAB}/pipelines": [{"id": 9, **pipeline}, {"id": 8, **pipeline, "status": "success"}],
        f"{LAB}/pipelines/9/jobs": [
            {"id": 1, "stage": "test", "name": "unit", "status": "failed", "failure_reason": "script_failure", **job},
            {"id": 2, "stage": "test", "name": "slow", "status": "failed", "allow_failure": True, **job},
            {"id": 3, "stage": "ship", "name": "deploy", "status": "manual", "allow_failure": True, **job},
        ],
        f"{LAB}/repository/commits/{SHA}/statuses": [
            {"id": 1, "name": "unit", "status": "failed", "pipeline_id": 9, **status},
            {"id": 7, "name": "old", "status": "failed", "pipeline_id": 8, **status},
            {"id": 6, "name": "scanner", "status": "success", "pipeline_id": 9, **status},
        ],
    }
    found = await place.ask().checks("tracker", branch="feature/area")
    assert (found.commit, found.state) == (SHA, State.FAILED)
    assert [(one.name, one.kind, one.state, one.may_fail) for one in found.checks] == [
        ("pipeline 9 of main (push)", "pipeline", State.FAILED, False),
        ("test: unit", "job", State.FAILED, False),
        ("scanner", "status", State.SUCCEEDED, False),
        ("test: slow", "job", State.FAILED, True),
        ("ship: deploy", "job", State.SKIPPED, True),
    ]
    assert found.checks[1].summary == "failed because of: script_failure"
    # No address that a browser would run.
    assert found.checks[2].url == ""
    [asked] = [query for path, query in place.world.asked if path == f"{LAB}/pipelines"]
    assert asked["sha"] == SHA
    assert counted(place.measured) == {("GitLab", "ok"): 1}


async def test_what_may_fail_does_not_make_all_fail(place: Place) -> None:
    place.world.connect(type="GitLab")
    pipeline = {"id": 9, "ref": "main", "source": "push", "status": "success"}
    job = {"id": 1, "stage": "test", "name": "slow", "status": "failed", "allow_failure": True}
    place.world.answers |= {
        f"{LAB}/repository/commits/{SHA[:8]}": {"id": SHA},
        f"{LAB}/pipelines": [pipeline],
        f"{LAB}/pipelines/9/jobs": [job],
        f"{LAB}/repository/commits/{SHA}/statuses": [],
    }
    found = await place.ask().checks("tracker", commit=SHA[:8])
    assert (found.commit, found.branch, found.state) == (SHA, "", State.SUCCEEDED)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"branch": "../main"}, "branch"),
        ({"branch": "a/../../b"}, "branch"),
        ({"branch": "a b"}, "branch"),
        ({"branch": "-x"}, "branch"),
        ({"commit": "main"}, "commit"),
        ({"commit": SHA, "branch": "main"}, "commit"),
        ({"repository": "o/other"}, "arguments.repository"),
        ({"repository": "o/r?x=1"}, "repository"),
    ],
)
@pytest.mark.parametrize("kind", ["GitHub", "GitLab", "Gitea"])
async def test_wrong_questions_reach_no_host(place: Place, kind: str, given: dict[str, str], field: str) -> None:
    place.world.connect(type=kind)
    with pytest.raises(Rejected) as caught:
        await place.ask().checks("tracker", **given)
    assert (caught.value.status, caught.value.field, place.world.asked) == (422, field, [])


async def test_checks_are_read_where_the_repository_may_be_read(place: Place) -> None:
    github(place, run_of("lint", 1, "completed", "success"))
    group = scope.Scope(client_id="acme", project_id="gemini", group_id="g")
    for spec, token in (
        ({"clientId": "globex"}, {}),
        ({"projectId": "gemini"}, {}),
        ({"groupId": "g"}, {}),
        ({"projectId": "apollo"}, {"where": scope.Scope(client_id="acme")}),
        ({}, {"namespace": "team-b"}),
    ):
        place.world.connect(type="GitHub", **spec)
        with pytest.raises(Rejected) as caught:
            await place.ask(**token).checks("tracker")
        assert (caught.value.status, caught.value.code) == (404, "not_found"), spec
    place.world.connect(type="GitHub", suspend=True)
    with pytest.raises(Rejected, match="suspended"):
        await place.ask().checks("tracker")
    place.world.connect(type="GitHub")
    place.world.connections["tracker"]["status"]["conditions"] = conditions(
        CredentialsValid=("False", "CredentialsRejected")
    )
    with pytest.raises(Rejected, match="not accepted"):
        await place.ask().checks("tracker")
    place.world.connect("wiki", type="Confluence")
    with refused(Rejected, field="connection"):
        await place.ask().checks("wiki")
    for narrow in ({"principals": ("user:ann",)}, {"repository": "o/r"}):
        place.world.connect(type="GitHub")
        with pytest.raises(Rejected) as caught:
            await place.ask(**narrow).checks("tracker")
        assert caught.value.status == 403, narrow
    assert place.world.asked == []
    # One of the project's group is read by the project, as its repository is.
    place.world.connect(type="GitHub", projectId="apollo", groupId="g")
    assert (await place.ask(where=group).checks("tracker")).state is State.SUCCEEDED


async def test_what_is_not_there_and_what_is_away(place: Place) -> None:
    github(place)
    for status, kind in ((404, "no such branch"), (422, "no such branch")):
        place.world.refuses[f"{HUB}/commits/heads/gone/status"] = status
        with refused(Rejected, status=404, field="branch", match=kind):
            await place.ask().checks("tracker", branch="gone")
    place.world.refuses[f"{HUB}/commits/heads/gone/status"] = 502
    with pytest.raises(Unavailable):
        await place.ask().checks("tracker", branch="gone")
    place.world.answers[f"{HUB}/commits/heads/odd/status"] = {"nothing": 1}
    # Asking again would give the same answer.
    odd: Any
    for odd in ({"nothing": 1}, b"<html>Sign in</html>", {"sha": SHA}, [], None):
        place.world.answers[f"{HUB}/commits/heads/odd/status"] = odd
        place.world.answers[f"{HUB}/commits/{SHA}/check-runs"] = {"check_runs": {}}
        with refused(Rejected, status=(404 if odd is None else 422), match=r"not understood|no such branch"):
            await place.ask().checks("tracker", branch="odd")
    assert counted(place.measured) == {("GitHub", "refused"): 3, ("GitHub", "away"): 1, ("GitHub", "failed"): 4}


async def test_an_answer_is_bounded_whatever_the_host_makes_of_the_question(place: Place) -> None:
    many = [run_of(f"c{at}", at, "completed", "success") for at in range(hosts.PAGE + 1)]
    github(place, *many)
    found = await place.ask().checks("tracker")
    assert (len(found.checks), found.left_out, found.state) == (hosts.PAGE, 0, State.UNKNOWN)
    assert found.unread == ("check runs: only the first 100 of a page of 101",)
    github(place, run_of("big", 1, "completed", "success", output={"summary": "x" * hosts.LARGEST}))
    found = await place.ask().checks("tracker")
    assert (found.checks, found.state) == ((), State.UNKNOWN)
    assert f"more than {hosts.LARGEST} bytes" in found.unread[0]


def test_texts_of_others_are_bounded_and_plain() -> None:
    assert hosts.text("a\x00b\x1b[31m\nc\u202e", 100) == "ab[31m\nc"
    assert hosts.text("x" * 2000, 1000) == "x" * 999 + "…"
    assert hosts.text(None, 10) == ""
    # No more than four times as much is looked at.
    assert hosts.text("\x00" * 40 + "x", 10) == "…"
    assert hosts.text("\x00" * 39 + "x", 10) == "x"
    assert hosts.link("https://ci.example/1") == "https://ci.example/1"
    for odd in ("javascript:x", "https://user:word@ci.example/", "https://ci.example/ x", "/o/r/actions", None):
        assert hosts.link(odd) == "", odd
    assert hosts.time("0001-01-01T00:00:00Z") == ""


def test_the_description_has_the_report() -> None:
    document = routes.document([serving.ROUTE])
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    assert {"leftOut", "unread"} <= set(document["components"]["schemas"]["Report"]["properties"])
