"""Commits as Git has them: every kind of change, hostile names, and bounds."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from kb import api
from sources.core import port
from sources.providers.git import clone, command, history, polling
from tests.sources.git.making import Repository


def read(made: Repository, *shas: str) -> list[api.Commit]:
    with history.Reader(made.path) as reader:
        return [reader.read(sha) for sha in shas]


def changes(commit: api.Commit) -> list[tuple[str, str]]:
    return [(one.status, one.path) for one in commit.files]


def test_the_first_commit_and_what_comes_after(made: Repository) -> None:
    body = b"".join(b"line %d\n" % n for n in range(30))
    first = made.commit("One\n\nWith a body.", {"a.txt": body, "gone.txt": b"x"})
    second = made.commit("Two", {"a.txt": None, "b.txt": body + b"more\n", "gone.txt": None, "c": b"new\n"})
    one, two = read(made, first, second)
    assert (one.message, one.author.name, one.author.email, one.parents) == (
        "One\n\nWith a body.", "Ada", "ada@example.com", [],
    )  # fmt: skip
    assert one.date.isoformat() == "2026-09-21T16:13:20+02:00"
    assert changes(one) == [("A", "a.txt"), ("A", "gone.txt")]
    assert two.parents == [first]
    assert sorted(changes(two)) == [("A", "c"), ("D", "gone.txt"), ("R", "b.txt")]
    assert next(file.old_path for file in two.files if file.status == "R") == "a.txt"
    assert "+more" in two.diff
    assert (two.diff_truncated, two.files_truncated) == (False, False)


def test_a_merge_shows_what_it_brought_to_its_first_parent(made: Repository) -> None:
    made.commit("Base", {"a": b"1\n"})
    made.point("side", "main")
    made.commit("Side", {"side": b"s\n"}, branch="side")
    made.commit("Main", {"main": b"m\n"})
    merge = made.commit("Merge", {"side": b"s\n"}, parents=("main", "side"))
    [found] = read(made, merge)
    assert (len(found.parents), changes(found)) == (2, [("A", "side")])
    assert [one.message for one in read(made, *history.between(made.path, merge, None))][-1] == "Merge"


def test_hostile_names_are_data(made: Repository) -> None:
    names = [b"--upload-pack=touch /tmp/x", b"new\nline", b"\xff\xfe.txt", b"a\tb", b'"quoted"', b":100644 fake", b" "]
    sha = made.commit("Names", dict.fromkeys(names, b"x\n"))
    [found] = read(made, sha)
    assert sorted(one.path for one in found.files) == sorted(
        ["--upload-pack=touch /tmp/x", "new\\nline", "\\xff\\xfe.txt", "a\\tb", '"quoted"', ":100644 fake", " "]
    )


def test_symlinks_submodules_and_pointers_are_told_and_not_followed(made: Repository) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12345\n"
    sha = made.commit(
        "Kinds",
        {"link": b"/etc/passwd", "module": b"1" * 40, "big.bin": pointer},
        modes={"link": "120000", "module": "160000"},
    )
    [found] = read(made, sha)
    assert sorted(changes(found)) == [("A", "big.bin"), ("A", "link"), ("A", "module")]
    assert "+/etc/passwd" in found.diff
    assert f"+Subproject commit {'1' * 40}" in found.diff
    assert "a pointer of Git LFS" in found.diff
    assert "root:" not in found.diff


@pytest.mark.parametrize(
    ("raw", "encoding", "text"),
    [
        ("Příliš".encode(), "", "Příliš"),
        ("Příliš".encode("iso-8859-2"), "ISO-8859-2", "Příliš"),
        (b"caf\xe9", "", "café"),
        (b"caf\xe9", "no-such-encoding", "café"),
        (b"caf\xe9", "undefined", "café"),
        (b"caf\xe9", "idna", "café"),
        (b"bell \x07 \x1b[31m", "", "bell \N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER}[31m"),
    ],
)
def test_messages_of_any_encoding(made: Repository, raw: bytes, encoding: str, text: str) -> None:
    [found] = read(made, made.commit(raw, {"a": b"1"}, encoding=encoding))
    assert found.message == text


def test_a_long_message_is_cut(made: Repository) -> None:
    [found] = read(made, made.commit("m" * 20_000, {"a": b"1"}))
    assert found.message == "m" * 16_384


def test_a_large_text_is_cut_and_says_so_and_the_next_commit_is_whole(made: Repository) -> None:
    large = b"".join(b"line %d\n" % n for n in range(60_000))  # below the size from which a file is binary
    first = made.commit("Large", {"a.txt": large, "b.txt": large, "c.txt": large, "d.txt": large, "e.txt": large})
    second = made.commit("Small", {"z": b"z\n"})
    one, two = read(made, first, second)
    assert one.diff_truncated
    assert len(one.diff) < history.DIFF_BYTES + 200
    assert one.diff.endswith("(the diff is longer than 32 KiB and cut here)")
    assert [file.path for file in one.files] == ["a.txt", "b.txt", "c.txt", "d.txt", "e.txt"]
    assert (two.diff_truncated, changes(two)) == (False, [("A", "z")])


def test_many_files_are_cut_and_say_so(made: Repository) -> None:
    [found] = read(made, made.commit("Many", {f"f{n:04}": b"%d" % n for n in range(1500)}))
    assert (len(found.files), found.files_truncated) == (history.MOST_FILES, True)


def test_a_file_of_200_megabytes_is_named_and_not_read(made: Repository) -> None:
    sha = made.commit("Huge", {"huge.bin": bytes(200 << 20), "huge.txt": b"line\n" * (20 << 20), "a": b"a\n"})
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    [found] = read(made, sha)
    assert sorted(changes(found)) == [("A", "a"), ("A", "huge.bin"), ("A", "huge.txt")]
    assert "Binary files /dev/null and b/huge.bin differ" in found.diff
    assert "Binary files /dev/null and b/huge.txt differ" in found.diff
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, 200 << 10), "in KiB"


def test_what_git_is_asked_for_cannot_be_answered_by_a_file(made: Repository) -> None:
    raw = b":100644 100644 " + b"0" * 40 + b" " + b"1" * 40 + b" M\0evil\0\n--" + b"0" * 32 + b"\n"
    [one, two] = read(made, made.commit("Raw", {"a": raw}), made.commit("Next", {"b": b"2"}))
    assert (changes(one), changes(two)) == ([("A", "a")], [("A", "b")])


def test_a_commit_that_the_clone_lacks_is_an_error(made: Repository) -> None:
    made.commit("One", {"a": b"1"})
    with pytest.raises(command.Failed, match="has no commit"):
        read(made, "0" * 40)


def test_a_clone_is_made_moved_and_refused(made: Repository, tmp_path: Path) -> None:
    made.commit("One", {"a": b"1"})
    made.commit("Topic", {"b": b"1"}, branch="a/b")
    copy = clone.Workspace(tmp_path / "ws", 1 << 30, 1 << 30).clone("uid")
    at = command.remote(made.url, {}, plain=False, authorities="", seconds=60)
    found = clone.listed(at)
    assert (dict(found.branches), found.default) == ({"main": made.sha("main"), "a/b": made.sha("a/b")}, "main")
    copy.bring(at, found.branches, found.default)
    assert copy.current(found.branches)
    (copy.path / "packed-refs.lock").touch()  # of a command that was killed
    made.git("update-ref", "-d", "refs/heads/a/b")
    made.commit("Topic", {"b": b"2"}, branch="a")
    found = clone.listed(at)
    copy.bring(at, found.branches, found.default)
    assert copy.current({"main": made.sha("main"), "a": made.sha("a")})
    assert "url" not in (copy.path / "config").read_text()
    small = clone.Workspace(tmp_path / "small", 1 << 20, 1 << 30).clone("uid")
    made.commit("Big", {"big": os.urandom(8 << 20)})
    found = clone.listed(at)
    with pytest.raises(port.Misconfigured, match="larger than 1 MiB"):
        small.bring(at, found.branches, found.default)
    assert (small.there(), [path.name for path in (tmp_path / "small").iterdir()]) == (False, ["uid.git.lock"])
    assert clone.Workspace(tmp_path / "ws", 1 << 30, 1 << 30).keep(frozenset()) == ["uid.git", "uid.git.lock"]


def test_large_clones_of_one_namespace_leave_room_for_those_of_others(tmp_path: Path) -> None:
    """A volume that is full ends the process for all of them."""
    workspace = clone.Workspace(tmp_path / "ws", 1 << 30, 6 << 20)

    def brought(uid: str, namespace: str, size: int) -> None:
        one = Repository(tmp_path / f"{uid}.src")
        one.commit("Large", {"large": os.urandom(size)})
        at = command.remote(one.url, {}, plain=False, authorities="", seconds=60)
        workspace.clone(uid, namespace).bring(at, {"main": one.sha("main")}, "main")

    brought("first", "loud", 2 << 20)
    with pytest.raises(port.Misconfigured, match="of its namespace") as caught:
        brought("second", "loud", 2 << 20)
    assert "gitWorkspaceBytes" in (caught.value.remedy or "")
    assert not workspace.clone("second").there()
    for number in range(2):
        brought(f"other-{number}", "quiet", 1 << 19)
        assert workspace.clone(f"other-{number}").there()
    assert clone.taken(tmp_path / "ws") < 6 << 20


def test_contents_of_source_files_before_and_after(made: Repository) -> None:
    body = b"".join(b"x%d = %d\n" % (n, n) for n in range(30))
    first = made.commit("One", {"a.py": body, "b.txt": b"text\n", "large.py": b"x = 1\n" * 90_000, "nul.py": b"\0"})
    second = made.commit("Two", {"a.py": None, "c.py": body + b"y = 1\n", "large.py": None})
    third = made.commit("Link", {"c.py": b"/etc/passwd"}, modes={"c.py": "120000"})
    made.point("side", first)
    made.commit("Side", {"side.py": b"s = 1\n"}, branch="side")
    merge = made.commit("Merge", {"side.py": b"s = 1\n"}, parents=("main", "side"))
    with history.Reader(made.path) as reader:
        one, two, three, four = commits = [reader.read(sha) for sha in (first, second, third, merge)]
        contents = [reader.contents(commit) for commit in commits]
    blob = {file.path: file.blob for file in one.files}
    assert contents[0] == {blob["a.py"]: body.decode()}
    assert all(file.old_blob is None and file.blob is not None for file in one.files)
    renamed = next(file for file in two.files if file.status == "R")
    assert (renamed.old_blob, renamed.old_path, renamed.path) == (blob["a.py"], "a.py", "c.py")
    assert renamed.similarity in range(90, 100)
    assert contents[1] == {renamed.old_blob: body.decode(), renamed.blob: body.decode() + "y = 1\n"}
    gone = next(file for file in two.files if file.status == "D")
    assert (gone.path, gone.old_blob, gone.blob) == ("large.py", blob["large.py"], None)
    assert (three.files[0].old_blob, three.files[0].blob) == (renamed.blob, None), "a link is no file"
    assert (len(four.parents), contents[3]) == (2, {})


def test_contents_of_a_large_commit_are_bounded(made: Repository) -> None:
    sha = made.commit("Many", {f"f{n}.py": b"x = %d\n" % n * 60_000 for n in range(8)})
    with history.Reader(made.path) as reader:
        contents = reader.contents(reader.read(sha))
        assert len(contents) == 5
        assert sum(map(len, contents.values())) <= history.CONTENTS_BYTES
        assert reader.read(sha).hash == sha, "the reader is at the end of what it skipped"


def test_a_commit_that_cannot_be_read_is_named_and_stops_no_other(made: Repository) -> None:
    first, last = made.commit("One", {"a": b"1"}), made.commit("Two", {"a": b"2"})
    tree = made.git("rev-parse", f"{first}^{{tree}}").strip()
    odd = b"tree " + tree + b"\nparent \xff\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nOdd\n"
    bad = made.git("hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=odd).decode().strip()
    with history.Reader(made.path) as reader:
        commits, _, failed = polling._read(reader, [first, bad, last])
    assert [commit.message.strip() for commit in commits] == ["One", "Two"]
    assert [(sha, reason.partition(":")[0]) for sha, reason in failed.items()] == [(bad, "This commit cannot be read")]
