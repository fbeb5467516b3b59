"""A repository behind the port: every commit once and in order, whatever happens to its branches."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from crds import connection
from crds.connection import WorkspaceState
from sources.core import assignments, limits, port, repositories
from sources.providers.git import clone, command, overview
from sources.providers.git import polling as git
from tests.sources.git import making
from tests.sources.git.making import Repository
from tests.sources.parts import refused


class Reading:
    """Polls as the poller does; `branches` is what the knowledge base has of each branch, in order."""

    def __init__(self, workspace: Path, url: str, credentials: dict[str, str] | None = None, **chosen: Any) -> None:
        spec = {"type": "Git", "clientId": "acme", "projectId": "storage", "url": url}
        self.spec = connection.Spec.model_validate({**spec, "filter": chosen} if chosen else spec)
        self.clone = clone.Workspace(workspace, 1 << 30, 1 << 30).clone("uid")
        self._credentials = credentials or {}
        self.cursor: port.Cursor = {}
        self.branches: dict[str, list[str]] = {}
        self.sent: list[str] = []
        self.trees: list[port.Tree] = []
        self.alike: list[assignments.Claim] = []
        self.items: list[port.Item] = []
        self.failures: list[port.Failure] = []
        self.workspace: list[WorkspaceState] = []

    def source(self) -> git.Repository:
        at = command.remote(self.spec.url, self._credentials, plain=True, authorities="", seconds=60)

        async def alike() -> list[assignments.Claim]:
            return self.alike

        bucket = limits.Bucket(6000, 1000)
        return git.Repository(self.clone, at, self.spec, bucket, monotonic=time.monotonic, alike=alike)

    async def poll(self, most: int = 1000, *, torn: bool = False) -> None:
        """So many batches at most; `torn`: the last one's cursor is not kept."""
        count = 0
        async for batch in self.source().batches(self.cursor):
            count += 1
            for request in batch.commits:
                have = self.branches.setdefault(request.branch, [])
                self.sent += [one.hash for one in request.commits]
                have += [one.hash for one in request.commits if one.hash not in have]
                self.branches[request.branch] = [one for one in have if one not in request.removed]
            self.trees += batch.trees
            self.items += batch.items
            self.failures += batch.failures
            if batch.workspace is not None:
                self.workspace.append(batch.workspace)
            if count < most or not torn:
                self.cursor = batch.cursor
            if count >= most:
                return

    async def places(self) -> list[str]:
        return [place async for page in self.source().ids() for place in page.places]


def log(made: Repository, branch: str = "main") -> list[str]:
    return made.git("rev-list", "--reverse", "--topo-order", branch).decode().split()


async def test_a_branch_is_read_once_and_then_what_is_new(made: Repository, reader: Reading) -> None:
    for number in range(120):
        made.commit(f"Change {number}", {"a": b"%d" % number})
    made.commit("Elsewhere", {"b": b"1"}, branch="topic")
    await reader.poll()
    assert reader.branches == {"main": log(made)}
    assert reader.workspace == [WorkspaceState.CLONING, WorkspaceState.READY]
    assert [(item.urn, item.place) for item in reader.items] == [
        ("git::" + _path(made) + "@main:overview", "branch/main")
    ]
    assert reader.cursor["branches"] == {"main": {"at": made.sha("main"), "code": made.sha("main")}}
    sent = len(reader.sent)
    await reader.poll()
    assert (len(reader.sent), reader.items[1:]) == (sent, [])
    made.commit("See https://example.com/why, (https://example.com/how).", {"a": b"new"})
    await reader.poll()
    assert reader.branches == {"main": log(made)}
    assert len(reader.sent) == sent + 1
    assert [item.urn for item in reader.items[1:] if item.urn.startswith("link")] == [
        "link::https://example.com/why", "link::https://example.com/how",
    ]  # fmt: skip
    assert len({item.version for item in reader.items if item.urn.startswith("git")}) == 1, "nothing material changed"


def _path(made: Repository) -> str:
    return str(made.path).strip("/").removesuffix(".git")


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
async def test_a_poll_that_is_cut_goes_on_and_loses_nothing(
    made: Repository, tmp_path: Path, most: int, reader: Reading
) -> None:
    made.many(170)
    made.point("side", "main~60")
    for number in range(70):
        made.commit(f"Side {number}", {"s": b"%d" % number}, branch="side")
    made.commit("Merge", {"m": b"1"}, parents=("main", "side"))
    whole = {"main": {"at": made.sha("main"), "code": made.sha("main")}}
    while reader.cursor.get("branches") != whole:
        await reader.poll(most, torn=True)  # killed: what was sent last is sent again
        if most == 4:
            shutil.rmtree(tmp_path / "ws")  # the volume is gone with the pod
        before = reader.cursor
        await reader.poll(most + 1)
        assert reader.cursor != before or reader.cursor["branches"] == whole
    assert reader.branches == {"main": log(made)}


@pytest.mark.parametrize("most", [1, 2, 3, 4])
async def test_a_branch_that_went_back_after_a_kill_is_told_as_it_is(
    made: Repository, most: int, reader: Reading
) -> None:
    made.many(3)
    await reader.poll()
    before = made.sha("main")
    made.commit("More", {"setup.py": b"1", "docs/new.md": b"2"})
    await reader.poll(most, torn=True)  # what was sent last is stored, its cursor is not
    made.point("main", before)
    await reader.poll()
    overviews = [item.version for item in reader.items if item.urn.endswith(":overview")]
    assert overviews[-1] == overviews[0]
    assert reader.branches == {"main": log(made)}
    assert reader.trees[-1].request.commit == before


async def test_a_forced_push_takes_along_what_the_branch_has_no_more(
    made: Repository, tmp_path: Path, reader: Reading
) -> None:
    made.many(10)
    await reader.poll()
    old = made.sha("main")
    made.point("main", "main~4")
    made.commit("Other", {"o": b"1"})
    await reader.poll()
    assert reader.branches == {"main": log(made)}
    assert old not in reader.branches["main"]
    made.point("main", "main~3")
    await reader.poll()
    assert reader.branches == {"main": log(made)}, "also where nothing is new"
    made.commit("Unrelated", {"u": b"1"}, parents=())
    shutil.rmtree(tmp_path / "ws")  # the old commits are asked for by their ids
    await reader.poll()
    assert reader.branches == {"main": log(made)}
    assert reader.failures == []


async def test_a_forced_push_while_a_history_is_read(made: Repository, reader: Reading) -> None:
    made.many(120)
    await reader.poll(5)
    assert 0 < len(reader.sent) < 120
    made.point("main", "main~119")
    made.commit("Other", {"o": b"1"})
    await reader.poll()
    assert reader.branches == {"main": log(made)}


async def test_branches_come_and_go(made: Repository, tmp_path: Path) -> None:
    made.many(3)
    made.point("release/1", "main")
    made.commit("Fix", {"f": b"1"}, branch="release/1")
    made.point("wip", "main")
    reader = Reading(tmp_path / "ws", made.url, include=("main", "release/*"), exclude=("release/0*",))
    await reader.poll()
    assert set(reader.branches) == {"main", "release/1"}
    assert await reader.places() == ["branch/main", "branch/release/1"]
    made.git("update-ref", "-d", "refs/heads/release/1")
    await reader.poll()
    assert reader.branches == {"main": log(made), "release/1": []}
    assert await reader.places() == ["branch/main"]
    assert reader.clone.current({"main": made.sha("main")})


async def test_a_repository_that_shows_nothing_any_more_is_not_taken_for_empty(
    made: Repository, reader: Reading
) -> None:
    await reader.poll()
    assert (reader.branches, reader.workspace[-1]) == ({}, WorkspaceState.READY), "an empty one is no fault"
    made.many(3)
    await reader.poll()
    made.git("update-ref", "-d", "refs/heads/main")
    with pytest.raises(port.Unreachable, match="shows no branch any more"):
        await reader.poll()
    with pytest.raises(port.Misconfigured, match="does not show every branch"):
        await reader.places()
    assert len(reader.branches["main"]) == 3


async def test_a_branch_that_is_not_there_is_named_and_the_others_are_read(made: Repository, tmp_path: Path) -> None:
    made.many(3)
    reader = Reading(tmp_path / "ws", made.url, include=("main", "mian"))
    with refused(port.Misconfigured, field="spec.filter.include", match="has no branch 'mian'"):
        await reader.poll()
    assert reader.branches == {"main": log(made)}


async def test_odd_names_of_branches(made: Repository, tmp_path: Path) -> None:
    made.many(1)
    sha = made.sha("main")
    for name in (b"--upload-pack=x", b"a'b\"$(id)", "příliš".encode(), b"x\xff"):
        made.git("update-ref", "--stdin", "-z", stdin=b"update refs/heads/%s\0%s\0\0" % (name, sha.encode()))
    reader = Reading(tmp_path / "ws", made.url, include=("*",))
    await reader.poll()
    assert set(reader.branches) == {"main", "--upload-pack=x", "a'b\"$(id)", "příliš"}
    assert [(one.title, one.place) for one in reader.failures] == [("Branch x\\xff", "branch/x\\xff")]
    assert (await reader.places())[-1] == "branch/x\\xff"


async def test_an_overview_says_what_a_repository_is_and_comes_again_when_that_changes(
    made: Repository, reader: Reading
) -> None:
    made.commit(
        "Start",
        {
            "README.md": b"# Storage\nKeeps things.",
            "pyproject.toml": b"[project]\nname='s'",
            "src/a/x.py": b"1",
            "logo": b"\0",
        },
    )
    await reader.poll()
    text = reader.items[0].text
    for said in ("branch main (default), 4 files", "Tech stack: Python", "src/a/ (1)", "Keeps things.", "Ada: Start"):
        assert said in text
    versions = []
    changes: list[dict[bytes | str, bytes | None]] = [
        {"src/a/x.py": b"2"}, {"src/b/y.go": b"1"}, {"README.md": b"# Other"},
    ]  # fmt: skip
    for files in changes:
        made.commit("Change", files)
        await reader.poll()
        versions.append(reader.items[-1].version)
    assert versions[0] == reader.items[0].version
    assert len(set(versions)) == 3
    made.commit("Large", {"README.md": b"word " * 100_000, "go.mod": b"x" * 9000})
    await reader.poll()
    assert "(500000 bytes, not read)" in reader.items[-1].text
    assert len(reader.items[-1].text) < overview.README_CHARS + 8 * overview.MANIFEST_CHARS


async def test_a_tree_with_a_git_directory_is_refused_with_a_reason(made: Repository, reader: Reading) -> None:
    blob = made.git("hash-object", "-w", "--stdin", stdin=b"[core]\n").decode().strip()
    inner = made.git("mktree", stdin=f"100644 blob {blob}\tconfig\n".encode()).decode().strip()
    raw = b"40000 .git\0" + bytes.fromhex(inner)
    tree = made.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw).decode().strip()
    sha = made.git("commit-tree", "-m", "x", tree).decode().strip()
    made.git("update-ref", "refs/heads/main", sha)
    with pytest.raises(port.Uncloned, match="Git refuses objects") as caught:
        await reader.poll()
    assert isinstance(caught.value.cause, port.Misconfigured)
    assert reader.workspace == [WorkspaceState.CLONING]


async def test_a_daemon_and_a_server_with_a_login(made: Repository, tmp_path: Path) -> None:
    made.many(5)
    with making.daemon(tmp_path / "srv") as url:
        reader = Reading(tmp_path / "ws", f"{url}/acme/storage.git")
        await reader.poll()
        assert reader.branches == {"main": log(made)}
        gone = Reading(tmp_path / "ws2", f"{url}/acme/other.git")
        with pytest.raises(port.Uncloned, match="no such repository"):
            await gone.poll()
    with pytest.raises(port.Unreachable, match="cannot be read"):
        await reader.poll()
    async with making.Http(tmp_path / "srv", "ada:secret").serving() as server:
        url = f"{server.url}/acme/storage.git"
        two = Reading(tmp_path / "ws3", url, {"username": "ada", "password": "secret"})
        await two.poll()
        assert two.branches == {"main": log(made)}
        assert set(server.seen) == {server.seen[0]}, "the login goes with the first request"
        held = b"".join(path.read_bytes() for path in (tmp_path / "ws3").rglob("*") if path.is_file())
        assert (b"secret" in held, server.seen[0].split()[1].encode() in held) == (False, False)
        for wrong in ({}, {"username": "ada", "password": "wrong"}, {"token": "wrong"}):
            with pytest.raises(port.Uncloned, match="refuses the credentials") as caught:
                await Reading(tmp_path / "ws4", url, wrong).poll()
            assert isinstance(caught.value.cause, port.Rejected)
            assert "wrong" not in caught.value.message
        made.many(2, "more")
        made.point("main", "more")
        for status, kind, said in (
            (302, port.Misconfigured, "redirect is not followed"), (404, port.Misconfigured, "no such repository"),
            (403, port.Rejected, "refuses"), (502, port.Unreachable, "cannot be read"),
        ):  # fmt: skip
            server.status = status
            with pytest.raises(kind, match=said):
                await two.poll()
        server.status = 0
        await two.poll()
        assert two.branches == {"main": log(made)}


def test_credentials_that_cannot_be_used_are_refused_before_a_call() -> None:
    def remote(url: str, **credentials: str) -> command.Remote:
        return command.remote(url, credentials, plain=False, authorities="", seconds=1)

    with pytest.raises(port.Misconfigured, match="lacks ssh-privatekey"):
        remote("ssh://h/r.git", password="x")
    with pytest.raises(port.Misconfigured, match="lacks known_hosts"):
        remote("ssh://h/r.git", **{"ssh-privatekey": "k"})
    with pytest.raises(port.Misconfigured, match="readable over http"):
        remote("http://h/r.git", token="t")
    assert remote("http://h/r.git").password == ""
    assert remote("https://h/r.git", token="t").username == "oauth2"
    with pytest.raises(port.Misconfigured, match="names no repository"):
        repositories.of("https://h/")


@pytest.mark.services
async def test_ssh_with_the_key_and_the_host_key_of_the_secret(made: Repository, tmp_path: Path) -> None:
    made.many(5)
    with making.Ssh(tmp_path / "sshd").running() as server:
        url = f"ssh://127.0.0.1:{server.port}{made.path}"
        login = {"username": server.user, "ssh-privatekey": server.key, "known_hosts": server.known_hosts}
        reader = Reading(tmp_path / "ws", url, login)
        await reader.poll()
        assert reader.branches == {"main": log(made)}
        other = making.Ssh(tmp_path / "other")
        wrong = {**login, "known_hosts": server.known_hosts.split()[0] + " " + other.known_hosts.split(" ", 1)[1]}
        for said, match, kind in (
            (wrong, "host key of the server is none of known_hosts", port.Misconfigured),
            ({**login, "known_hosts": "example.com ssh-ed25519 AAAA"}, "none of known_hosts", port.Misconfigured),
            ({**login, "ssh-privatekey": other.key}, "refuses the credentials", port.Rejected),
            ({**login, "username": "-oProxyCommand=touch x"}, "no user name for ssh", port.Misconfigured),
        ):
            with pytest.raises(port.Uncloned, match=match) as caught:
                await Reading(tmp_path / "ws2", url, said).poll()
            assert isinstance(caught.value.cause, kind)
