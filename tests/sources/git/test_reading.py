"""Runs clone what Connections have: the git command line against the API of the sources process."""

from __future__ import annotations

import asyncio
import gzip
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from crds import connection, scope
from sources.api import problems
from sources.core import assignments, limits, port, repositories
from sources.core.state import State, Workspace
from sources.providers.git import clone, command, reading
from sources.providers.git import polling as git
from tests.sources import parts
from tests.sources.api.serving import ACME, NOW, run_token, serving
from tests.sources.git.making import Repository

pytestmark = pytest.mark.services
REFS = "/api/v1/git/code/info/refs?service=git-upload-pack"


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    one = Repository(tmp_path / "srv" / "storage.git")
    one.many(30)
    one.commit("Large", {"large": os.urandom(3 << 20)})
    one.commit("Not chosen", {"x": b"1"}, branch="secret")
    return one


@pytest.fixture
def assigned(database: Any) -> assignments.Assignments:
    return assignments.Assignments(database)


def conn(url: str, name: str = "code", **more: Any) -> connection.Connection:
    code = {"type": "Git", "projectId": "apollo", "url": url, "namespace": "team-a", **more}
    return parts.connected(name, uid=f"uid-{name}", **code)


Make = Callable[..., reading.Reading]


@pytest.fixture
def make(assigned: assignments.Assignments, tmp_path: Path) -> Make:
    def made(**more: Any) -> reading.Reading:
        workspace = clone.Workspace(tmp_path / "ws", 1 << 30, 1 << 30)
        given = more.pop("opens", None)

        async def opens(claim: assignments.Claim) -> git.Repository:
            at = command.remote(claim.spec.url, {}, plain=False, authorities="", seconds=60)
            bucket = limits.Bucket(6000, 1000)
            return git.Repository(workspace.clone(claim.uid), at, claim.spec, bucket, monotonic=time.monotonic)

        options = {"width": 4, "seconds": 60.0, "wall": lambda: NOW, **more}
        return reading.Reading(assigned, workspace, given or opens, parts.meters(), **options)

    return made


def cloned(url: str, to: Path, token: str, *more: str, version: int = 2) -> subprocess.CompletedProcess[str]:
    header = f"http.extraHeader=Authorization: Bearer {token}"
    words = ["git", "-c", header, "-c", f"protocol.version={version}", *more, f"{url}/api/v1/git/code", str(to)]
    env = {"PATH": os.environ["PATH"], "HOME": str(to.parent), "GIT_TERMINAL_PROMPT": "0"}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False)


def said(to: Path, *arguments: str) -> str:
    return subprocess.check_output(["git", "-C", str(to), *arguments], text=True)


@pytest.mark.parametrize("version", [0, 2])
async def test_a_run_clones_the_chosen_branches_and_cannot_push(
    made: Repository, assigned: assignments.Assignments, make: Make, tmp_path: Path, version: int
) -> None:
    await assigned.want(conn(made.url))
    async with serving(make().served, token=run_token(), max_body=4 << 20) as client:
        url = str(client.base_url).rstrip("/")
        to = tmp_path / "run"
        done = await asyncio.to_thread(cloned, url, to, run_token(), "clone", version=version)
        assert done.returncode == 0, done.stderr
        assert (to / "large").stat().st_size == 3 << 20
        heads = said(to, "branch", "-r")
        assert heads.split() == ["origin/HEAD", "->", "origin/main", "origin/main"]
        log = said(to, "rev-list", "--count", "HEAD")
        assert log == "31\n"
        shallow = await asyncio.to_thread(cloned, url, tmp_path / "small", run_token(), "clone", "--depth=1")
        assert shallow.returncode == 0, shallow.stderr
        refs = await client.get(REFS)
        assert unquote(refs.headers[reading.REPOSITORY]) == repositories.of(made.url).path
        push = await client.get("/api/v1/git/code/info/refs?service=git-receive-pack")
        assert (push.status_code, push.json()["error"]["code"]) == (403, "forbidden")
        assert (await client.post("/api/v1/git/code/git-receive-pack")).status_code == 404


@pytest.mark.parametrize(
    ("where", "namespace", "name", "status"),
    [
        (ACME, "team-a", "code", 200),
        (ACME, "team-b", "code", 404),
        (ACME, "team-a", "other", 404),
        (ACME, "team-a", "mailbox", 404),
        (ACME, "team-a", "--upload-pack=x", 404),
        (ACME, "team-a", "everyone", 200),
        (scope.Scope(client_id="acme", project_id="gemini"), "team-a", "code", 404),
        (scope.Scope(client_id="acme"), "team-a", "code", 404),
        (scope.Scope(client_id="evil", project_id="apollo"), "team-a", "code", 404),
    ],
)
async def test_a_run_sees_its_own_connections_only(
    made: Repository, assigned: assignments.Assignments, make: Make,
    where: scope.Scope, namespace: str, name: str, status: int,
) -> None:  # fmt: skip
    await assigned.want(conn(made.url))
    await assigned.want(conn(made.url, "everyone", projectId=""))
    await assigned.want(conn("imaps://h", "mailbox", type="Email", secretRef={"name": "s"}))
    async with serving(make().served, token=run_token(where, namespace=namespace)) as client:
        found = await client.get(f"/api/v1/git/{name}/info/refs?service=git-upload-pack")
        assert found.status_code == status
    async with serving(make().served) as anonymous:
        assert (await anonymous.get(REFS)).status_code == 401


async def test_an_analysis_sees_its_own_repository_only(
    made: Repository, assigned: assignments.Assignments, make: Make, tmp_path: Path
) -> None:
    other = Repository(tmp_path / "srv" / "other.git")
    other.commit("One", {"x": b"1"})
    await assigned.want(conn(made.url))
    await assigned.want(conn(other.url, "other"))
    token = run_token(repository=repositories.of(made.url).path)
    async with serving(make().served, token=token) as client:
        assert (await client.get(REFS)).status_code == 200
        for path in ("info/refs?service=git-upload-pack", "git-upload-pack"):
            verb = client.get if "refs" in path else client.post
            kind = {"Content-Type": "application/x-git-upload-pack-request"}
            assert (await verb(f"/api/v1/git/other/{path}", headers=kind)).status_code == 404
        # The Connection reads another repository since.
        await assigned.want(conn(other.url, generation=2))
        assert (await client.get(REFS)).status_code == 404


async def test_a_run_on_behalf_of_somebody_gets_no_repository(
    made: Repository, assigned: assignments.Assignments, make: Make
) -> None:
    """The knowledge base shows it no commits: who may see a repository is not known."""
    await assigned.want(conn(made.url))
    async with serving(make().served, token=run_token(principals=("user:jana",))) as client:
        refs, pack = await client.get(REFS), await client.post("/api/v1/git/code/git-upload-pack")
        assert [(one.status_code, one.json()["error"]["code"]) for one in (refs, pack)] == [(403, "forbidden")] * 2


async def test_requests_that_are_none_and_too_many_of_them(
    made: Repository, assigned: assignments.Assignments, make: Make
) -> None:
    await assigned.want(conn(made.url))
    kind = {"Content-Type": "application/x-git-upload-pack-request", "Git-Protocol": "version=2"}
    path = "/api/v1/git/code/git-upload-pack"
    async with serving(make().served, token=run_token()) as client:
        refs = await client.get(REFS, headers={"Git-Protocol": "version=2"})
        assert refs.headers["Content-Type"] == "application/x-git-upload-pack-advertisement"
        assert refs.content.startswith(b"000eversion 2\n")
        listing = b"0014command=ls-refs\n00010000"
        zipped = {**kind, "Content-Encoding": "gzip"}
        plain, packed = (
            await client.post(path, content=listing, headers=kind),
            await client.post(path, content=gzip.compress(listing), headers=zipped),
        )
        assert (plain.content, packed.status_code) == (packed.content, 200)
        assert made.sha("main").encode() in plain.content
        assert b"secret" not in plain.content
        assert (await client.post(path, content=b"junk", headers=kind)).status_code == 422
        assert (await client.post(path, content=listing)).status_code == 422
        bomb = gzip.compress(bytes(8 << 20))
        assert (await client.post(path, content=bomb, headers=zipped)).status_code == 413
    async with serving(make(width=0).served, token=run_token()) as client:
        full = await client.get(REFS)
        assert (full.status_code, "Retry-After" in full.headers) == (429, True)


async def test_a_namespace_leaves_places_for_the_runs_of_others(
    made: Repository, assigned: assignments.Assignments, make: Make
) -> None:
    reads = make(width=4)
    await assigned.want(conn(made.url))
    await assigned.want(conn(made.url, "theirs", namespace="team-b"))
    async with AsyncExitStack() as held, serving(reads.served, token=run_token()) as client:
        for _ in range(3):
            await held.enter_async_context(reads._slot("team-a"))
        assert (await client.get(REFS)).status_code == 429
        other = {"Authorization": f"Bearer {run_token(namespace='team-b')}"}
        found = await client.get(REFS.replace("/code/", "/theirs/"), headers=other)
        assert found.status_code == 200


async def test_runs_ask_a_server_no_more_often_than_the_polls_would(
    assigned: assignments.Assignments, make: Make, tmp_path: Path
) -> None:
    """Each failed try is a failed login somewhere, and a thread of this process for as long as it takes."""
    await assigned.want(conn(f"file://{tmp_path}/none"))
    claim = await parts.claimed(assigned, NOW)
    failed = Workspace(connection.WorkspaceState.CLONE_FAILED, 1, NOW + timedelta(minutes=5), "Authentication failed")
    await assigned.note(claim, State(workspace=failed))
    going, asked = asyncio.Event(), list[str]()

    async def opens(claim: assignments.Claim) -> git.Repository:
        asked.append(claim.name)
        await going.wait()
        raise port.Unreachable("away")

    reads = make(width=2, opens=opens)
    async with serving(reads.served, token=run_token()) as client:
        found = await client.get(REFS)
        assert (found.status_code, found.headers["Retry-After"], asked) == (503, "300", [])
        assert "Authentication failed" in found.json()["error"]["message"]
        for number in range(4):
            await assigned.want(conn(f"file://{tmp_path}/{number}", f"c{number}"))
        many = [asyncio.create_task(reads._make(await named(assigned, f"c{number}"))) for number in range(4)]
        done, _ = await asyncio.wait(many, timeout=0.5)
        assert [type(one.exception()) for one in done] == [problems.Crowded] * 2
        assert len(asked) == 2
        going.set()
        await asyncio.wait(many)


async def named(assigned: assignments.Assignments, name: str) -> assignments.Claim:
    found = await assigned.named("team-a", name)
    assert found is not None
    return found


async def test_a_replica_whose_clone_cannot_be_made_says_when_to_ask_again(
    made: Repository, assigned: assignments.Assignments, make: Make
) -> None:
    await assigned.want(conn(f"{made.url}-gone"))
    async with serving(make().served, token=run_token()) as client:
        found: httpx.Response = await client.get(REFS)
        assert (found.status_code, found.headers["Retry-After"]) == (503, "10")
        assert "no such repository" in found.json()["error"]["message"]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_run_reads_only_what_the_branches_reach(
    made: Repository, assigned: assignments.Assignments, make: Make, tmp_path: Path, version: int
) -> None:
    """The clone keeps what a forced push removed, so that its commits can be removed from the knowledge base."""
    older, gone = made.sha("main"), made.commit("A password", {"password": b"hunter2\n"})
    blob, kept, tree = (made.sha(f"main:{name}") for name in ("password", "large", ""))
    await assigned.want(conn(made.url))
    async with serving(make().served, token=run_token(), max_body=4 << 20) as client:
        url = str(client.base_url).rstrip("/")

        async def cloned_(to: str, *more: str) -> subprocess.CompletedProcess[str]:
            return await asyncio.to_thread(cloned, url, tmp_path / to, run_token(), *more, version=version)

        async def fetched(sha: str) -> str:
            header = f"http.extraHeader=Authorization: Bearer {run_token()}"
            words = [
                "git", "-C", str(tmp_path / "b"), "-c", header, "-c", f"protocol.version={version}",
                "fetch", "-q", "--no-tags", f"{url}/api/v1/git/code", sha,
            ]  # fmt: skip
            env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
            done = await asyncio.to_thread(subprocess.run, words, env=env, capture_output=True, text=True, check=False)
            return str(done.stderr)

        assert (await cloned_("a", "clone")).returncode == 0
        made.point("main", older)
        made.commit("Another", {"x": b"1\n"})
        copy = clone.Workspace(tmp_path / "ws", 1 << 30, 1 << 30).clone("uid-code")
        at = command.remote(made.url, {}, plain=False, authorities="", seconds=60)
        await asyncio.to_thread(copy.bring, at, {"main": made.sha("main")}, "main")
        assert copy.has([gone])
        Repository(tmp_path / "b")
        for sha in (gone, tree, blob):
            assert "not our ref" in await fetched(sha) or "unadvertised object" in await fetched(sha)
        if version == 2:
            assert await fetched(older) == ""
            assert await fetched(kept) == ""
            partial = await cloned_("p", "clone", "--filter=blob:none")
            assert partial.returncode == 0, partial.stderr
            assert (tmp_path / "p" / "x").read_bytes() == b"1\n"
        # What no client of Git would send: the server decides.
        for sha in (gone, tree, blob):
            want = f"0032want {sha}\n".encode()
            packed = b"0011command=fetch0001000fno-progress" + want + b"0009done\n0000"
            raw = packed if version == 2 else want + b"00000009done\n"
            kind = {"Content-Type": "application/x-git-upload-pack-request", "Git-Protocol": f"version={version}"}
            answer = await client.post("/api/v1/git/code/git-upload-pack", content=raw, headers=kind)
            assert answer.content == f"0049ERR upload-pack: not our ref {sha}".encode()


async def test_wants_are_found_in_a_request_as_git_finds_them() -> None:
    sha = "a" * 40
    for body in (
        f"0032want {sha}\n0000",
        f"0012command=fetch\n00010031want {sha}0000",
        f"0032WANT {sha}\n0032want {sha}\n",
    ):
        assert reading.wants(body.encode()) == [sha]
    for body in ("", "0000", "00010002", "0006a\n"):
        assert reading.wants(body.encode()) == []
    for body in ("zzzz", "0003", "+032want x", "0032want", f"0031want {'g' * 40}", "0 32want"):
        with pytest.raises(problems.Invalid):
            reading.wants(body.encode())
