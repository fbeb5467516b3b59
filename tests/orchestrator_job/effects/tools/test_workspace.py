"""A clone that a run works in: real Git, the API of the sources process, and processes that end in between."""

from __future__ import annotations

import asyncio
import hashlib
import io
import subprocess
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from contracts.api import sandbox
from orchestrator_job.effects import ledger
from orchestrator_job.effects.tools import checkout, port, toolbox, workspace
from orchestrator_job.store import mongo, retry
from sources.effects import wire
from sources.providers.git import clone
from tests import waiting
from tests.orchestrator_job.effects.tools import parts
from tests.sources.effects import test_serving
from tests.sources.effects.pushing import Pushing, pushing

pytestmark = pytest.mark.services
FILES: dict[bytes | str, bytes | None] = {
    "src/area.py": b"def area(w, h):\n    return w + h\n",
    "README.md": b"# Shop\r\nWindows\r\n",
    "logo.png": b"\x89PNG\0\0",
    ".gitattributes": b"*.md text eol=lf\nsecret.txt export-ignore\n* filter=evil ident\n",
    ".gitignore": b"build/\n",
    "secret.txt": b'aws = "AKIAIOSFODNN7EXAMPLE"\n',
    "requirements.txt": b"requests==2.31.0\n",
}


class Place:
    """A run, the sources process and the repository at the Git host."""

    def __init__(self, made: parts.Parts, pushed: Pushing) -> None:
        self.made, self.pushed = made, pushed

    async def again(self, **settings: Any) -> toolbox.Toolbox:
        """The tools of the run's next process, whose folder is empty."""
        tools, _ = await self.made.box(git_connection="code", **settings)
        return tools

    async def opened(self, **settings: Any) -> toolbox.Toolbox:
        """The same, with the repository open."""
        tools = await self.again(**settings)
        await parts.called(tools, "open_repository")
        return tools


@pytest.fixture
async def place(tmp_path: Path, opening: parts.Opening) -> AsyncIterator[Place]:
    async with pushing(tmp_path / "git") as pushed:
        rig = pushed.rig
        pushed.remote.commit("Files", FILES, modes={"link": "120000"})
        pushed.remote.commit("A link", {"link": b"/etc/passwd"}, modes={"link": "120000"})
        reads = parts.reads(pushed)
        async with opening(rig.uid) as made:
            rig.world.contents = parts.Contents(made.content)
            async with parts.sourced(made, [*test_serving.served(rig, []), *reads.served]):
                yield Place(made, pushed)


async def test_files_are_read_searched_and_changed(place: Place) -> None:
    tools = await place.again()
    assert "not open" in (await parts.called(tools, "read_file", path="src/area.py")).text
    opened = await parts.called(tools, "open_repository")
    assert (opened.failed, opened.data["branch"]) == (False, "main"), opened.text
    listed = (await parts.called(tools, "list_files", folder="src")).text.splitlines()
    assert "src/area.py" in listed
    assert "README.md" not in listed
    read = await parts.called(tools, "read_file", path="src/area.py", start=2, lines=1)
    assert read.text.startswith("2\t    return w + h")
    assert "binary" in (await parts.called(tools, "read_file", path="logo.png")).text
    # A link is a plain file with its target, so nothing outside is read.
    assert (await parts.called(tools, "read_file", path="link")).text == "1\t/etc/passwd"
    assert (await parts.called(tools, "read_file", path="link/x")).failed
    found = await parts.called(tools, "search_files", text="return w", folder="src")
    assert found.text == "src/area.py:2:    return w + h"
    assert (await parts.called(tools, "search_files", text="(ret|x)urn +w", regex=True)).data == {"lines": 1}
    for odd in ("--open-files-in-pager=id", "-O", ":/", "HEAD"):
        assert not (await parts.called(tools, "search_files", text=odd)).failed
    edited = await parts.called(tools, "edit_file", 2, path="src/area.py", old="w + h", new="w * h")
    assert edited.changed_files == ("src/area.py",)
    assert "stands 0 times" in (await parts.called(tools, "edit_file", 3, path="src/area.py", old="zz", new="")).text
    written = await parts.called(tools, "write_file", 4, path="build/new/out.txt", content="crlf\r\n")
    assert not written.failed, written.text
    for path in ("../x", ".git/hooks/pre-commit", "/tmp/x", "src/area.py/x", ".GIT/config"):
        assert (await parts.called(tools, "write_file", 5, path=path, content="x")).failed
    shown = await parts.called(tools, "show_changes")
    assert set(shown.changed_files) == {"src/area.py", "build/new/out.txt"}
    assert "+    return w * h" in shown.text


async def test_a_regular_expression_that_takes_forever_is_ended(place: Place) -> None:
    tools = await place.opened()
    await parts.called(tools, "write_file", 2, path="a", content="a" * 100_000 + "b")
    for bomb in (r"(((a{1,255}){1,255}){1,255}){1,255}", r"(a*)*(a*)*\1\2c", "(" * 200 + ")" * 200, "[", r"\("):
        result = await parts.called(tools, "search_files", text=bomb, regex=True)
        assert result.failed or result.text


async def test_changes_survive_the_process_and_are_made_once(place: Place) -> None:
    tools = await place.again()
    opened = await parts.called(tools, "open_repository")
    await parts.called(tools, "edit_file", 2, path="src/area.py", old="w + h", new="w * h")
    committed = await parts.called(tools, "commit_changes", 3, message="Multiply\n\nIt was a sum.")
    assert not committed.failed, committed.text
    await parts.called(tools, "write_file", 4, path="build/x", content="ignored, and kept\n")
    # The branch moves on, further than a shallow clone reaches.
    for number in range(22):
        place.pushed.remote.commit(f"Later {number}", {"later": b"%d" % number})
    place.pushed.workspace = clone.Workspace(place.pushed.folder / "reads2", 1 << 30, 1 << 30)
    tools = await place.again()
    # Repeated after a kill before the journal had its result: done already, and the same answer.
    again = await parts.called(tools, "edit_file", 2, path="src/area.py", old="w + h", new="w * h")
    assert (again.failed, again.changed_files) == (False, ("src/area.py",))
    assert (await parts.called(tools, "commit_changes", 3, message="Multiply")).data == committed.data
    assert (await parts.called(tools, "read_file", path="build/x")).text == "1\tignored, and kept\n2\t"
    assert "w * h" in (await parts.called(tools, "read_file", path="src/area.py")).text
    reopened = await parts.called(tools, "open_repository", 9)
    assert reopened.data == opened.data
    assert "1 commits" in reopened.text
    assert (await parts.called(tools, "commit_changes", 10, message="More")).failed is False
    assert "nothing to commit" in (await parts.called(tools, "commit_changes", 11, message="More")).text
    assert "has changes" in (await parts.called(tools, "open_repository", 12, branch="other")).text


async def test_what_is_too_large_leaves_the_workspace_as_it_was(place: Place) -> None:
    tools = await place.opened(change_bytes=20_000)
    await parts.called(tools, "write_file", 2, path="kept", content="kept")
    noise = "".join(hashlib.sha256(bytes([n % 256, n // 256])).hexdigest() for n in range(3000))
    assert "more than 20000 bytes" in (await parts.called(tools, "write_file", 3, path="big", content=noise)).text
    assert (await parts.called(tools, "read_file", path="big")).failed
    assert (await parts.called(tools, "read_file", path="kept")).text == "1\tkept"
    small = await place.again(clone_bytes=1 << 20)
    assert small.tools


async def test_a_patch_of_what_is_no_text_is_text(place: Place, tmp_path: Path) -> None:
    """A command may leave any bytes behind, which a result, a database and a terminal do not take."""
    tools = await place.opened()
    changed = {"latin.txt": "Zluť\n".encode("cp1250"), "logo.png": b"\x89PNG\0\1", "src/area.py": b"def area(): ...\n"}

    async def make(at: checkout.Checkout) -> port.Result:
        for path, raw in changed.items():
            (at.tree / path).write_bytes(raw)
        (at.tree / "requirements.txt").unlink()
        return port.Result("")

    writing = tools.tools["write_file"]
    assert isinstance(writing, workspace.Write)
    at = writing._checkouts.of("code")
    await at.change("r1.d1.2", make)
    assert at.held is not None
    patch = at.held.patch
    assert patch is not None
    assert (patch.files, patch.committed, patch.problem) == (4, False, "")
    (tmp_path / "taken").mkdir()
    (tmp_path / "packed").write_bytes(place.pushed.remote.git("archive", "--format=tar", at.held.base))
    (tmp_path / "patch").write_bytes(patch.text.encode())
    for words in (
        ("git", "init", "-q", "taken"),
        ("tar", "-xf", "packed", "-C", "taken"),
        ("git", "-C", "taken", "apply", "../patch"),
    ):
        await asyncio.to_thread(subprocess.run, words, cwd=tmp_path, check=True)
    assert {path: (tmp_path / "taken" / path).read_bytes() for path in changed} == changed
    assert not (tmp_path / "taken" / "requirements.txt").exists()


async def test_a_commit_is_pushed_after_its_diff_was_shown(place: Place) -> None:
    tools = await place.opened()
    await parts.called(tools, "edit_file", 2, path="src/area.py", old="w + h", new="w * h")
    commit = (await parts.called(tools, "commit_changes", 3, message="Multiply")).data["commit"]
    tools, guard = await place.made.box(git_connection="code", push_branches=["code/jervis/*"])
    push = parts.acting(tools, "push_branch")
    given = port.parse(push, {"branch": "jervis/area", "commit": commit})
    # The diff is there before the clone is.
    assert "+    return w * h" in push.shown(given)
    assert push.reach(given).text.split("\n") == ["jervis/area", "Multiply", "    return w * h"]
    assert (push.tier, dict(push.aims(given))) == (port.Tier.PERMIT, {"branch": "jervis/area"})
    for wrong in ({"branch": "main", "commit": commit}, {"branch": "jervis/area", "commit": "0" * 40}):
        with pytest.raises(port.Misused):
            push.aims(port.parse(push, wrong))
    database = mongo.Database(place.made.store.client, place.made.store.name, retry.Retry(5))
    book = ledger.Ledger(database, guard, lambda: parts.NOW)
    receipt = await book.settle("r1.d1", 4, push.effect(given, parts.place(4)))
    assert not receipt.get("failed"), receipt
    assert receipt["result"] == {"branch": "jervis/area", "commit": commit}, receipt
    assert place.pushed.has("jervis/area") == commit
    assert place.pushed.remote.git("show", f"{commit}:src/area.py") == b"def area(w, h):\n    return w * h\n"
    assert place.pushed.remote.git("show", f"{commit}:README.md") == FILES["README.md"]
    assert wire.State.DONE.value == "Done"


async def test_secrets_are_named_by_their_place_and_dependencies_by_their_version(place: Place) -> None:
    tools = await place.opened()
    found = await parts.called(tools, "scan_secrets")
    assert "secret.txt:1 AWS Access Key" in found.text, found.text
    assert "AKIA" not in found.text
    # A module of the clone that is named like one of the scanner's is not imported.
    await parts.called(tools, "write_file", 2, path="detect_secrets/__init__.py", content="raise SystemExit(3)")
    assert (await parts.called(tools, "scan_secrets")).data == found.data
    listed = await parts.called(tools, "scan_dependencies")
    assert (listed.data, "nothing is said" in listed.text) == ({"packages": 1, "vulnerable": -1}, True)
    file = place.made.folder / "osv.json"
    file.write_text(
        '{"id": "GHSA-1", "summary": "Leaks", "affected": [{"package": {"ecosystem": "PyPI", "name": "requests"},'
        ' "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.32.0"}]}]}]}'
    )
    tools = await place.again(vulnerabilities=file)
    judged = await parts.called(tools, "scan_dependencies")
    assert "requests 2.31.0 (requirements.txt): GHSA-1 Leaks, fixed in 2.32.0" in judged.text


async def test_a_command_is_recorded_once_and_its_patch_is_taken_over(place: Place) -> None:
    tools = await place.opened()
    asked = {"argv": ["pytest", "-q"], "image": "python"}
    assert "No sandbox is configured" in (await parts.called(tools, "run_command", 2, **asked)).text
    tools = await place.again(sandbox=True)
    assert "images are" in (await parts.called(tools, "run_command", 2, argv=["x"], image="cobol")).text
    collection = place.made.store.database[sandbox.COLLECTION]

    async def operator() -> sandbox.Command:
        """What the operator will do with the record."""
        requested = await waiting.eventually(
            lambda: collection.find_one({"state": "Requested"}), "a command is asked for"
        )
        record = sandbox.Command.model_validate(requested)
        raw = await place.made.kb.fetch(parts.SCOPE, record.workspace.key)
        with tarfile.open(fileobj=io.BytesIO(raw)) as packed:
            assert {"secret.txt", "src/area.py"} <= set(packed.getnames())
        patch = (
            b"--- a/src/area.py\n+++ b/src/area.py\n@@ -1,2 +1,2 @@\n"
            b" def area(w, h):\n-    return w + h\n+    return 1\n"
        )
        refs = {
            name: (await place.made.kb.store(parts.SCOPE, body)).model_dump(mode="json", by_alias=True)
            for name, body in (("outputRef", b"1 passed\n"), ("patchRef", patch))
        }
        ended = {"state": "Done", "exitCode": 0, "endedAt": parts.NOW, **refs}
        collection.update_one({"_id": record.id}, {"$set": ended})
        return record

    played = asyncio.create_task(operator())
    ran = await parts.called(tools, "run_command", 2, **asked)
    record = await played
    assert (ran.text, ran.data) == ("pytest -q: exit code 0\n1 passed", {"exitCode": 0, "patched": True})
    assert (record.id, record.argv, record.limits.seconds) == (f"{place.made.uid}/r1.d1.2", ("pytest", "-q"), 300)
    assert "return 1" in (await parts.called(tools, "read_file", path="src/area.py")).text
    tools = await place.again(sandbox=True)
    assert await parts.called(tools, "run_command", 2, **asked) == ran
    assert collection.count_documents({}) == 1


async def test_the_repository_of_another_connection_is_not_opened(place: Place) -> None:
    tools = await place.again()
    for name in ("absent", "tracker"):
        opened = await parts.called(tools, "open_repository", connection=name)
        assert opened.failed, opened.text
    for wrong in ("../x", "-x", "A b"):
        with pytest.raises(port.Misused, match="connection"):
            port.parse(tools.tools["open_repository"], {"connection": wrong})
    with pytest.raises(port.Misused, match="branch"):
        port.parse(tools.tools["open_repository"], {"branch": "--upload-pack=id"})
    assert "no branch" in (await parts.called(tools, "open_repository", branch="absent")).text
