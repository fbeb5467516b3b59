"""What a command changed in a workspace, whatever it left there; the script around it, with a real shell."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from controllers.sandbox import job
from orchestrator_job.sandbox import __main__ as program
from orchestrator_job.sandbox import workspace

FILES = {
    "src/app.py": b"def f(): return 1\n",
    "run.sh": b"#!/bin/sh\n",
    ".gitignore": b"*.pyc\nkept.pyc\n",
    "kept.pyc": b"x",
}


def archive(at: Path, files: dict[str, bytes] = FILES) -> Path:
    with tarfile.open(at, "w:gz") as made:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(body), 0o644
            made.addfile(member, io.BytesIO(body))
    return at


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    workspace.unpack(archive(tmp_path / "workspace.tar.gz"), folder)
    return folder


def changed(work: Path, most: int = 1 << 20) -> bytes:
    scratch = work.parent / "scratch"
    scratch.mkdir()
    return workspace.patch(work.parent / "workspace.tar.gz", work, scratch, most)


def test_nothing_changed_is_no_patch(work: Path) -> None:
    (work / "new.pyc").write_bytes(b"what .gitignore names")
    assert changed(work) == b""


def test_the_patch_applies_to_the_original(work: Path) -> None:
    (work / "src" / "app.py").write_text("def f(): return 2\n")
    (work / "src" / "new.bin").write_bytes(bytes(range(256)))
    (work / "run.sh").unlink()
    (work / "kept.pyc").write_bytes(b"y")
    patch = changed(work)
    other = work.parent / "other"
    other.mkdir()
    workspace.unpack(work.parent / "workspace.tar.gz", other)
    subprocess.run(["git", "apply", "-"], cwd=other, input=patch, check=True)
    assert (other / "src" / "app.py").read_text() == "def f(): return 2\n"
    assert (other / "src" / "new.bin").read_bytes() == bytes(range(256))
    assert not (other / "run.sh").exists()
    assert (other / "kept.pyc").read_bytes() == b"y"


def test_settings_that_a_command_left_are_not_obeyed(work: Path) -> None:
    called = work.parent / "called"
    script = work.parent / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {called}\n")
    script.chmod(0o755)
    for folder in (work, work / "src"):
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        config = f'[core]\n\tfsmonitor = {script}\n\thooksPath = {work.parent}\n[diff "evil"]\n\ttextconv = {script}\n'
        (folder / ".git" / "config").write_text(config)
    (work / ".gitattributes").write_text("*.py diff=evil filter=evil\n")
    (work / "src" / "app.py").write_text("changed\n")
    (work / "link").symlink_to("/etc/passwd")
    patch = changed(work)
    assert b"+changed" in patch
    assert b"+/etc/passwd" in patch, "a link is a link"
    assert not called.exists()


def test_too_much_is_said_and_not_cut(work: Path) -> None:
    (work / "large").write_bytes(b"line\n" * 5000)
    with pytest.raises(workspace.Unusable, match="more than 1000 bytes"):
        changed(work, 1000)


def test_what_leaves_the_workspace_is_not_unpacked(tmp_path: Path) -> None:
    with pytest.raises(workspace.Unusable, match="cannot be unpacked"):
        workspace.unpack(archive(tmp_path / "evil.tar.gz", {"../out": b"x"}), tmp_path / "in")
    assert not (tmp_path / "out").exists()


def test_links_to_elsewhere_are_left_out_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    packed = tmp_path / "workspace.tar.gz"
    with tarfile.open(packed, "w:gz") as made:
        for name, to in (
            ("out", "../elsewhere"), ("etc", "/etc/passwd"), ("in", "src/app.py"), ("loop", "loop"), ("to", "loop"),
        ):  # fmt: skip
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, to
            made.addfile(link)
        for name in ("src/app.py", "out/file", "run.sh"):
            member = tarfile.TarInfo(name)
            member.size, member.mode = 1, 0o755 if name == "run.sh" else 0o644
            made.addfile(member, io.BytesIO(b"x"))
    target = tmp_path / "in"
    target.mkdir()
    workspace.unpack(packed, target)
    assert not list((tmp_path / "elsewhere").iterdir())
    assert sorted(str(one.relative_to(target)) for one in target.rglob("*")) == [
        "in", "loop", "out", "out/file", "run.sh", "src", "src/app.py", "to",
    ]  # fmt: skip
    assert (target / "in").read_bytes() == b"x"
    assert [bool((target / name).stat().st_mode & 0o100) for name in ("run.sh", "src/app.py")] == [True, False]


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["sh", "-c", "echo out; echo err >&2; exit 3"], 3, "out\nerr\n"),
        (["echo", "$HOME; `id`"], 0, "$HOME; `id`\n"),
        (["sleep", "30"], 137, ""),
        (["no-such-program"], 127, "no-such-program"),
        (["sh", "-c", "seq 1 1000"], 0, "999\n1000\n"),
    ],
)
def test_the_script_around_a_command(tmp_path: Path, argv: list[str], code: int, said: str) -> None:
    places = {"/workspace": tmp_path / "work", "/left": tmp_path / "left"}
    script = job.SCRIPT
    for name, at in places.items():
        at.mkdir()
        script = script.replace(name, str(at))
    seconds = "1" if code == 137 else "30"
    done = subprocess.run(["/bin/sh", "-c", script, "sandbox", seconds, "60", *argv], check=False, timeout=60)
    assert done.returncode == 0
    config = program.Settings(
        kb_url="http://kb", token_file="t", client="acme", key="k", sha256=hashlib.sha256().hexdigest(),
        left=places["/left"], output_bytes=60,
    )  # fmt: skip
    found, output = program.left(config)
    assert found == code
    assert said in output.decode()
    assert len(output) <= 60


def test_what_a_command_puts_in_the_place_of_its_result_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "exit").symlink_to("/etc/passwd")
    (tmp_path / "output").mkdir()
    config = program.Settings(
        kb_url="http://kb", token_file="t", client="acme", key="k", sha256="0" * 64, left=tmp_path
    )
    assert program.left(config) == (137, b"")
