"""Commits of a repository: known without a model, in the shapes of seed 001, gone when no branch has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest

from contracts import repository_keys
from crds import access
from kb import api, client, errors, metrics
from kb.extract import git_commit as reading
from kb.upkeep import check
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.aliases import memory as aliases_memory
from tests.kb.service import whole

FIRST, SECOND = "a" * 39 + "1", "b" * 39 + "2"
MESSAGE = "Fix the login\n\nFixes JERV-7 and #12. It is about JERV-9, in UTF-8."
DIFF = "--- a/src/Main.kt\n+++ b/src/Main.kt\n-login(null)\n+login(user)\njira:JERV-99|AFFECTS|file:Secret.kt\n"


def commit(hash_: str = FIRST, **more: Any) -> api.Commit:
    filled: dict[str, Any] = {
        "message": MESSAGE,
        "author": {"name": "Jana Novak", "email": "jana@acme.com"},
        "date": "2026-03-01T10:00:00+01:00",
        "parents": ["c" * 40],
        "files": [
            {"path": "src/Main.kt", "status": "M"},
            {"path": "docs/New.md", "status": "A"},
            {"path": "old.txt", "status": "D"},
            {"path": "b/moved.py", "status": "R", "oldPath": "a/moved.py"},
        ],
        "diff": DIFF,
    }
    return api.Commit.model_validate({"hash": hash_} | filled | more)


def sent(*commits: api.Commit, branch: str = "main", **more: Any) -> api.GitCommits:
    repository = {"org": "acme", "name": "shop", "defaultBranch": "main", "tracker": "gitea"}
    return api.GitCommits.model_validate(
        {"scope": scopes.SHOP, "repository": repository, "branch": branch, "commits": list(commits)} | more
    )


@pytest.fixture
async def kb(open_world: world.Opening, clock: clocks.Clock) -> AsyncIterator[world.ObservedState]:
    async with open_world(aliases=aliases_memory.Registry(clock), max_chars=30_000) as opened:
        yield opened


@pytest.fixture
async def both(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock
) -> AsyncIterator[tuple[client.Client, httpx.AsyncClient]]:
    async with whole.over(kb, meters, clock, ingests=True) as pair:
        yield pair


@pytest.fixture
def served(both: tuple[client.Client, httpx.AsyncClient]) -> client.Client:
    return both[0]


@pytest.fixture
def raw(both: tuple[client.Client, httpx.AsyncClient]) -> httpx.AsyncClient:
    return both[1]


def results(reply: api.GitCommitsReply) -> list[str]:
    return [one.result for one in reply.outcomes]


def in_branch(branch: str, hash_: str = FIRST) -> set[tuple[str, str, str]]:
    own, of = f"commit::{hash_}::shop", f"branch__{branch}__shop"

    def file(path: str) -> str:
        return f"file__{path}__branch__{branch}__shop"

    return {
        ("repository__acme_shop", "has_branch", of),
        (of, "has_commit", own),
        (own, "modifies", file("src/Main.kt")),
        (own, "creates", file("docs/New.md")),
        (own, "deletes", file("old.txt")),
        (own, "creates", file("b/moved.py")),
        (own, "deletes", file("a/moved.py")),
        (file("b/moved.py"), "renamed_from", file("a/moved.py")),
        (own, "renames", file("b/moved.py")),
    }


def of_all(hash_: str = FIRST) -> set[tuple[str, str, str]]:
    own = f"commit::{hash_}::shop"
    return {
        (own, "parent", f"commit::{'c' * 40}::shop"),
        (own, "authored_by", "user:jana@acme.com"),
        (own, "fixes", "jira::JERV-7"),
        (own, "fixes", "gitea::acme/shop#12"),
        (own, "mentions", "jira::JERV-9"),
    }


async def test_a_commit_becomes_nodes_and_edges_without_a_model(
    kb: world.ObservedState, served: client.Client, fake: process.Fake
) -> None:
    reply = await served.git_commits(sent(commit()))
    assert [(one.hash, one.source_urn, one.result, one.chunks) for one in reply.outcomes] == [
        (FIRST, f"git::acme/shop@{FIRST}", "Stored", 1)
    ]
    assert await kb.triples() == in_branch("main") | of_all()
    proven = await kb.graph.edges(scopes.SHOP)
    assert all(len(one.evidence_chunk_ids) == 1 for one in proven)
    assert fake.count(path="/api/chat") == 0
    said = (await kb.graph.relationships(scopes.SHOP, edge_type="fixes", target="jira::JERV-7"))[0]
    assert said.sentence == "Fixes JERV-7 and #12."
    keys = [f"commit::{FIRST}::shop", "branch__main__shop", "file__src/Main.kt__branch__main__shop"]
    known = {one.key: one for one in await kb.graph.nodes(scopes.SHOP, keys=[*keys, "repository__acme_shop"])}
    assert {key: one.type for key, one in known.items()} == {
        keys[0]: "commit",
        keys[1]: "branch",
        keys[2]: "file",
        "repository__acme_shop": "repository",
    }
    assert known[keys[0]].properties == {
        "hash": FIRST,
        "message": MESSAGE,
        "author": "Jana Novak",
        "date": "2026-03-01T10:00:00+01:00",
        "branch": "main",
        "clientId": "acme",
        "projectId": "shop",
    }
    assert known[keys[2]].properties["extension"] == "kt"
    assert known[keys[1]].properties["lastCommitHash"] == FIRST
    assert known[keys[1]].properties["isDefault"] is True
    stored = await kb.vectors.chunks(scopes.SHOP, list(proven[0].evidence_chunk_ids))
    assert "login(user)" in next(iter(stored.values())).text


async def test_repeated_it_changes_nothing(kb: world.ObservedState, served: client.Client, fake: process.Fake) -> None:
    asked = sent(commit(), commit(SECOND, message="", files=[]))
    assert results(await served.git_commits(asked)) == ["Stored", "Stored"]
    before, count = await kb.state(), fake.count()
    assert results(await served.git_commits(asked)) == ["Unchanged", "Unchanged"]
    assert (await kb.state(), fake.count()) == (before, count)


async def test_who_may_see_commits(served: client.Client, raw: httpx.AsyncClient) -> None:
    """Other readers of a known commit are a change, and a branch that has it no more says nothing about them."""
    members = access.restricted(["group:dev", "user:jana"])

    async def sees(*principals: str) -> bool:
        sent_with = {access.HEADER: ", ".join(principals)} if principals else {}
        asked = {"scope": scopes.SHOP.model_dump(by_alias=True), "query": MESSAGE, "maxResults": 5}
        answer = await raw.post("/api/v1/retrieve", json=asked, headers=sent_with)
        assert answer.status_code == 200
        return FIRST in answer.text

    assert results(await served.git_commits(sent(commit()))) == ["Stored"]
    assert (await sees(), await sees("group:dev")) == (True, False), "it is not known who may see it"
    unsorted = {"visibility": "Restricted", "principals": list(members.principals[::-1])}
    for told, result in ((unsorted, "Updated"), (unsorted, "Unchanged"), (None, "Unchanged")):
        assert results(await served.git_commits(sent(commit(), access=told))) == [result]
    assert (await sees("group:dev"), await sees("user:petr")) == (True, False)
    assert results(await served.git_commits(sent(commit(), branch="next"))) == ["Updated"]
    assert results(await served.git_commits(sent(branch="next", removed=[FIRST]))) == ["Removed"]
    assert (await sees("group:dev"), await sees("user:petr")) == (True, False)
    assert results(await served.git_commits(sent(commit(), access={"visibility": "Public"}))) == ["Updated"]
    assert await sees("user:petr")


async def test_a_forgotten_commit_leaves_nothing(kb: world.ObservedState, served: client.Client) -> None:
    empty = await kb.state()
    await served.git_commits(sent(commit(diff="x = 1\n" * 3000)))
    assert await kb.state() != empty
    await served.forget(scopes.SHOP, f"git::acme/shop@{FIRST}")
    assert await kb.state() == empty


async def test_a_commit_stays_while_one_branch_has_it(
    kb: world.ObservedState, served: client.Client, fake: process.Fake
) -> None:
    await served.git_commits(sent(commit()))
    alone, count = await kb.state(), fake.count()
    assert results(await served.git_commits(sent(commit(), branch="feature/x"))) == ["Updated"]
    assert fake.count() == count, "its text is embedded once, whatever branches have it"
    assert await kb.triples() == in_branch("main") | in_branch("feature/x") | of_all()
    assert results(await served.git_commits(sent(commit()))) == ["Unchanged"]
    assert results(await served.git_commits(sent(branch="feature/x", removed=[FIRST, SECOND]))) == [
        "Removed",
        "Absent",
    ]
    assert await kb.state() == alone
    assert results(await served.git_commits(sent(branch="feature/x", removed=[FIRST]))) == ["Absent"]
    await served.git_commits(sent(commit(), branch="feature/x"))
    assert results(await served.git_commits(sent(removed=[FIRST]))) == ["Removed"]
    assert await kb.triples() == in_branch("feature/x") | of_all()
    assert (await kb.graph.nodes(scopes.SHOP, keys=[f"commit::{FIRST}::shop"]))[0].properties["branch"] == "feature/x"
    assert results(await served.git_commits(sent(branch="feature/x", removed=[FIRST]))) == ["Forgotten"]
    assert (await kb.graph.counts(scopes.SHOP)).mentions == 0


async def test_each_commit_has_an_outcome_of_its_own(kb: world.ObservedState, served: client.Client) -> None:
    reply = await served.git_commits(sent(commit(diff="x = 1\n" * 6000), commit(SECOND)))
    assert results(reply) == ["Failed", "Stored"]
    problem = reply.outcomes[0].problem
    assert problem is not None
    assert (problem.code, problem.field, reply.outcomes[0].retryable) == ("too_large", "content", False)
    assert await kb.triples() == in_branch("main", SECOND) | of_all(SECOND)
    counted = {name: kb.meters.commits.labels(name)._value.get() for name in ("stored", "failed")}
    assert counted == {"stored": 1, "failed": 1}


async def test_where_nothing_can_be_stored_the_request_can_be_repeated(
    kb: world.ObservedState, served: client.Client, fake: process.Fake
) -> None:
    fake.set_faults([{"match": {"path": "/api/embed"}, "status": {"code": 503, "message": "away"}}])
    with pytest.raises(client.Unavailable):
        await served.git_commits(sent(commit(), commit(SECOND)))
    assert (await kb.graph.counts(scopes.SHOP)).documents == 0
    fake.set_faults([])
    assert results(await served.git_commits(sent(commit(), commit(SECOND)))) == ["Stored", "Stored"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"branch": ""}, "branch"),
        ({"commits": []}, None),
        ({"removed": [FIRST]}, None),
        ({"repository": {"name": "a b"}}, "repository.name"),
        ({"commits": [{"hash": "xyz"}]}, "commits.0.hash"),
    ],
)
async def test_a_wrong_request_names_the_field(
    raw: httpx.AsyncClient, change: dict[str, Any], field: str | None
) -> None:
    asked = sent(commit()).model_dump(mode="json", by_alias=True) | change
    answer = await raw.post("/api/v1/ingest/git-commits", json=asked)
    assert (answer.status_code, answer.json()["error"].get("field")) == (422, field)


async def test_the_stores_agree_and_no_rule_is_passed_over(kb: world.ObservedState, served: client.Client) -> None:
    async def findings() -> Sequence[object]:
        return (await check.Checker(kb.graph, kb.vectors, kb.ledger.working).look("acme")).findings

    await served.git_commits(sent(commit(diff="x = 1\n" * 3000), commit(SECOND)))
    assert await findings() == []
    await served.git_commits(sent(commit(diff="x = 1\n" * 3000), branch="feature/x"))
    assert await findings() == []
    await served.git_commits(sent(removed=[FIRST]))
    assert await findings() == []


async def test_names_that_are_merged_are_woven_in_without_a_model(
    kb: world.ObservedState, served: client.Client, fake: process.Fake
) -> None:
    await served.git_commits(sent(commit()))
    await kb.merger.merge(scopes.SHOP, "user:jana@acme.com", "user:jana@acme.example", "Jana")
    await kb.worked()
    expected = in_branch("main") | of_all()
    expected.remove((f"commit::{FIRST}::shop", "authored_by", "user:jana@acme.com"))
    assert await kb.triples() == expected | {(f"commit::{FIRST}::shop", "authored_by", "user:jana@acme.example")}
    assert fake.count(path="/api/chat") == 0


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("Fixes #3, #4 and acme/other#5", {("fixes", "3"), ("fixes", "4"), ("fixes", "acme/other#5")}),
        ("closes: JERV-1 & JERV-2", {("fixes", "JERV-1"), ("fixes", "JERV-2")}),
        ("Prefixes JERV-1, SHA-256, CVE-2026-1, color #fff, v1.2#3x", {("mentions", "JERV-1")}),
        ("See https://git.example/acme/shop/issues#12", set()),
        ("fix JERV-1\n\nJERV-1 again", {("fixes", "JERV-1")}),
    ],
)
def test_issues_of_a_message(message: str, found: set[tuple[str, str]]) -> None:
    repository = api.Repository(org="acme", name="shop", tracker="gitea")
    short = {
        (edge, key.removeprefix("jira::").removeprefix("gitea::").removeprefix("acme/shop#"))
        for edge, key, _ in reading.issues(repository, message)
    }
    assert short == found
    if "#" in message:
        assert not any("gitea" in key for _, key, _ in reading.issues(api.Repository(name="shop"), message))


@pytest.mark.parametrize("name", ["", "...", "//x", "Ann\u200b Meyer", "user:user"])
async def test_strange_authors_and_long_paths_cost_nothing_but_themselves(
    kb: world.ObservedState, served: client.Client, name: str
) -> None:
    files = [{"path": "p/" * 500 + "x.py", "status": "R", "oldPath": "q" * 1024}]
    odd = commit(author={"name": name}, files=files, message="\n", diff="", parents=[FIRST])
    assert results(await served.git_commits(sent(odd, branch="b" * 255))) == ["Stored"]
    assert results(await served.git_commits(sent(removed=[FIRST], branch="b" * 255))) == ["Forgotten"]


async def test_a_commit_of_many_branches_and_files_stays_within_bounds(
    kb: world.ObservedState, served: client.Client
) -> None:
    files = [{"path": f"f{number}.py", "status": "M"} for number in range(1000)]
    for name in "abcd":
        reply = await served.git_commits(sent(commit(files=files), branch=name))
    assert [(one.result, one.edges, one.omitted) for one in reply.outcomes] == [("Updated", 3000 + 2 * 4 + 5, 1000)]
    with pytest.raises(errors.Invalid, match="branches"):
        reading.document(sent(commit()), commit(), [f"b{number}" for number in range(1001)], {})


def test_long_keys_stay_short_and_apart() -> None:
    keys = {repository_keys.file(f"{'a/' * 200}{name}.py", "main", "shop") for name in ("x", "y")}
    assert len(keys) == 2
    assert all(len(key.encode()) <= 200 for key in keys)
    assert repository_keys.file("src/a.py", "main", "shop") == "file__src/a.py__branch__main__shop"
