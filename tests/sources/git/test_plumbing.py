"""The source files of a commit: what counts as one, whatever Git holds, contents as they are, the time of the last
change; and branches that move."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from codegraph import api
from codegraph.parse import extraction, grammars
from codegraph.resolve import calls
from sources.core import assignments, state
from sources.providers.git import polling as git
from sources.providers.git import tree
from tests.sources.git.making import Repository, daemon
from tests.sources.git.test_repository import Reading, log

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12345\n"


async def read(reader: Reading) -> tuple[dict[str, str], dict[str, str]]:
    """The texts of the last tree that was sent, and what was left out of it, with reasons."""
    sent = reader.trees[-1]
    return dict(await sent.read([file.path for file in sent.request.files])), {
        file.path: file.reason for file in sent.request.skipped
    }


async def test_links_submodules_and_pointers_are_no_sources(made: Repository, reader: Reading) -> None:
    made.commit(
        "Kinds",
        {
            "a.py": b"A = 1\n",
            "run.py": b"#!/usr/bin/env python\n",
            "link.py": b"/etc/passwd",
            "away.py": b"../../outside.py",
            "module.py": b"1" * 40,
            ".gitmodules": b'[submodule "module.py"]\n\tpath = module.py\n\turl = file:///etc\n',
            "large.py": POINTER,
        },
        modes={"link.py": "120000", "away.py": "120000", "module.py": "160000", "run.py": "100755"},
    )
    await reader.poll()
    texts, skipped = await read(reader)
    # A pointer is text to Git: who reads it refuses it.
    assert texts == {"a.py": "A = 1\n", "run.py": "#!/usr/bin/env python\n", "large.py": POINTER.decode()}
    assert skipped == {}


@pytest.mark.parametrize(
    ("name", "raw", "symbol"),
    [
        ("mark.py", "\ufeffdef caf\u00e9(): pass\n".encode(), "caf\u00e9"),
        ("wide.py", "def caf\u00e9(): pass\n".encode("utf-16"), "caf\u00e9"),
        ("Big.java", b"\xfe\xff" + "class \u010ca\u0161 {}\n".encode("utf-16-be"), "\u010ca\u0161"),
        ("latin.py", "def caf\u00e9(): pass\n".encode("latin-1"), "caf\u00e9"),
        ("shift.py", "x = '\u8868'\ndef \u30bd(): pass\n".encode("shift_jis"), "\u30bd"),
        ("declared.py", "# coding: cp1251\ndef \u0434\u0430(): pass\n".encode("cp1251"), "\u0434\u0430"),
        ("crlf.py", b"# one\r\ndef f():\r\n    pass\r\n", "f"),
        ("mac.py", b"# one\rdef f():\r    pass\r", "f"),
    ],
)
async def test_names_are_read_in_the_encoding_of_their_file(
    made: Repository, name: str, raw: bytes, symbol: str, reader: Reading
) -> None:
    made.commit("Text", {name: raw})
    await reader.poll()
    texts, _ = await read(reader)
    language = grammars.language_of(name)
    assert language
    # As it travels: JSON, then bytes again.
    facts = extraction.extract(name, texts[name].encode(), language)
    assert ([found.name for found in facts.symbols], facts.has_error) == ([symbol], False)
    assert facts.symbols[0].line == extraction.extract(name, raw, language).symbols[0].line


async def test_names_of_files_that_are_usual_elsewhere(made: Repository, reader: Reading) -> None:
    usual: Mapping[bytes | str, bytes | None] = dict.fromkeys(
        ["with space.py", "it's.py", 'say "hi".py', "-dash.py", "a\\b.py", "\u4e2d\u6587.py", "e\u0301.py"], b"X = 1\n"
    )
    odd: Mapping[bytes | str, bytes | None] = dict.fromkeys([b"new\nline.py", b"\xff\xfe.py", b"tab\t.py"], b"X = 1\n")
    made.commit("Names", {**usual, **odd})
    await reader.poll()
    texts, skipped = await read(reader)
    assert texts == dict.fromkeys(usual, "X = 1\n")
    assert skipped == {"\\xff\\xfe.py": "odd-name", "new\\nline.py": "odd-name", "tab\\t.py": "odd-name"}


async def test_huge_and_binary_files_are_named_or_refused(made: Repository, reader: Reading) -> None:
    made.commit("Large", {"a.py": b"A = 1\n", "huge.js": bytes(64 << 20), "blob.py": b"x\0y", "logo.png": b"\x89PNG"})
    await reader.poll()
    texts, skipped = await read(reader)
    assert (texts, skipped) == ({"a.py": "A = 1\n", "blob.py": "x\0y"}, {"huge.js": "too-large"})


async def test_a_renamed_file_keeps_its_content_under_its_new_name(made: Repository, reader: Reading) -> None:
    made.commit("One", {"old.py": b"A = 1\n", "b.py": b"B = 1\n"})
    await reader.poll()
    before = {file.path: file.blob for file in reader.trees[-1].request.files}
    made.commit("Two", {"old.py": None, "new/place.py": b"A = 1\n"})
    await reader.poll()
    after = {file.path: file.blob for file in reader.trees[-1].request.files}
    assert after == {"b.py": before["b.py"], "new/place.py": before["old.py"]}


async def test_a_default_branch_that_is_renamed_takes_the_place_of_the_former(
    made: Repository, reader: Reading
) -> None:
    made.commit("One", {"a.py": b"A = 1\n"})
    await reader.poll()
    made.point("trunk", "main")
    made.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    made.git("update-ref", "-d", "refs/heads/main")
    made.commit("Two", {"b.py": b"B = 1\n"}, branch="trunk")
    await reader.poll()
    sent = [(each.request.branch, each.request.removed) for each in reader.trees]
    assert sent == [("main", False), ("main", True), ("trunk", False)]
    assert reader.trees[-1].request.repository.default_branch == "trunk"
    assert reader.branches == {"main": [], "trunk": log(made, "trunk")}
    # One that stays beside the new default is not read any more either.
    made.point("main", "trunk")
    await reader.poll()
    assert len(reader.trees) == 3


async def test_a_forced_push_sends_the_tree_that_is_there_now(made: Repository, reader: Reading) -> None:
    first = made.commit("One", {"a.py": b"A = 1\n"})
    made.commit("Two", {"a.py": b"A = 2\n", "b.py": b"B = 1\n"})
    await reader.poll()
    made.point("main", first)
    await reader.poll()
    assert reader.trees[-1].request.commit == first
    assert (await read(reader))[0] == {"a.py": "A = 1\n"}
    made.commit("Other", {"c.py": b"C = 1\n"}, parents=())
    await reader.poll()
    assert (await read(reader))[0] == {"c.py": "C = 1\n"}
    assert reader.failures == []


async def test_an_empty_repository_and_an_empty_commit_have_no_sources(made: Repository, reader: Reading) -> None:
    await reader.poll()
    assert (reader.trees, reader.failures) == ([], [])
    made.commit("Empty")
    await reader.poll()
    assert [(each.request.commit, each.request.files) for each in reader.trees] == [(made.sha("main"), [])]
    assert await read(reader) == ({}, {})


async def test_a_shallow_repository_is_read_from_where_its_history_begins(made: Repository, tmp_path: Path) -> None:
    for number in range(5):
        made.commit(f"Change {number}", {"a.py": b"A = %d\n" % number, f"m{number}.py": b"X = 1\n"})
    shallow = Repository(tmp_path / "srv" / "acme" / "shallow.git")
    shallow.git("fetch", "--quiet", "--depth=2", made.url, "main:main")
    assert len(log(shallow)) == 2
    reader = Reading(tmp_path / "ws", shallow.url)
    await reader.poll()
    assert reader.branches == {"main": log(shallow)}
    assert (await read(reader))[0] == {"a.py": "A = 4\n", **{f"m{number}.py": "X = 1\n" for number in range(5)}}
    shallow.commit("More", {"a.py": b"A = 5\n"})
    await reader.poll()
    assert reader.branches == {"main": log(shallow)}
    assert (await read(reader))[0]["a.py"] == "A = 5\n"


async def test_contents_that_a_clone_lacks_are_left_out(made: Repository) -> None:
    made.commit("One", {"a.py": b"A = 1\n", "b.py": b"B = 1\n"})
    found, _ = tree.files(made.path, made.sha("main"))
    lacking = [one.model_copy(update={"blob": "0" * 40}) if one.path == "a.py" else one for one in found]
    assert tree.contents(made.path, lacking) == {"b.py": "B = 1\n"}


async def test_a_tree_says_its_host_and_whether_another_one_has_a_repository_of_its_name(
    made: Repository, tmp_path: Path
) -> None:
    made.commit("One", {"a.py": b"A = 1\n"})
    made.point("side", "main")
    with daemon(tmp_path / "srv") as url:
        reader = Reading(tmp_path / "ws", f"{url}/acme/storage.git", include=["main", "s*"])

        def elsewhere(where: str, **more: str) -> assignments.Claim:
            spec = reader.spec.model_copy(update={"url": where, **more})
            branches = {name: {"at": made.sha("main")} for name in ("main", "side")}
            at = {"of": git.cursor_of(spec), "branches": branches}
            return assignments.Claim("other", "jervis", "other", spec, 1, 1, at, state.State(), NOW)

        await reader.poll()
        assert {(each.request.host, each.request.moved) for each in reader.trees} == {("127.0.0.1", True)}
        # The same server by another protocol, another project, and another name are no other host's.
        reader.alike = [
            elsewhere("ssh://git@127.0.0.1:2222/acme/storage.git"),
            elsewhere("https://github.com/acme/storage", project_id="other"),
            elsewhere("https://github.com/acme/other"),
        ]
        made.commit("Two", {"a.py": b"A = 2\n"})
        await reader.poll()
        assert (reader.trees[-1].request.branch, reader.trees[-1].request.moved) == ("main", True)
        reader.alike = [elsewhere("https://GitHub.com/acme/storage")]
        made.commit("Three", {"a.py": b"A = 3\n"})
        await reader.poll()
        assert (reader.trees[-1].request.host, reader.trees[-1].request.moved) == ("127.0.0.1", False)
        # Its branch goes with its files, though a repository of that name on another host has one.
        made.git("update-ref", "-d", "refs/heads/side")
        await reader.poll()
        last = reader.trees[-1].request
        assert (last.branch, last.removed, last.host, last.moved) == ("side", True, "127.0.0.1", False)


def test_files_are_sources_and_project_files_with_the_time_of_their_last_change(made: Repository) -> None:
    long = b"x = 1\n" * 200_000
    made.commit("One", {"a.py": b"A = 1\n", "go.mod": b"module a\n", "README.md": b"# A\n", "long.py": long})
    first = int(made.git("log", "-1", "--format=%ct", "main"))
    made.commit("Two", {"b/c.ts": b"export const c = 1\n", "latin.py": "# caf\xe9\n".encode("latin-1")})
    found, skipped = tree.files(made.path, made.sha("main"))
    assert [one.path for one in found] == ["a.py", "b/c.ts", "go.mod", "latin.py"]
    assert [(one.path, one.reason) for one in skipped] == [("long.py", "too-large")]
    assert found[0].modified == datetime.fromtimestamp(first, UTC)
    texts = tree.contents(made.path, found)
    assert texts == {
        "a.py": "A = 1\n",
        "b/c.ts": "export const c = 1\n",
        "go.mod": "module a\n",
        "latin.py": "# caf\xe9\n",
    }
    assert found[0].blob == made.git("rev-parse", "main:a.py").decode().strip()


def test_paths_that_no_request_holds_are_left_out(made: Repository) -> None:
    folder = "/".join(["\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 80] * 8)
    made.commit("One", {f"{folder}/{number:04}.py": b"" for number in range(2000)})
    found, skipped = tree.files(made.path, made.sha("main"))
    request = api.GitStructure.model_validate(
        {"scope": {"clientId": ""}, "repository": {"name": "r"}, "branch": "main", "commit": "a" * 40}
    ).model_copy(update={"files": found, "skipped": skipped})
    assert 0 < len(found) < 2000
    assert {one.reason for one in skipped} == {"budget-files"}
    assert len(request.model_dump_json()) < 8 << 20


def test_any_path_has_the_time_of_its_last_change(made: Repository) -> None:
    names = ["\x01a.py", "a\x01/b.py", "\n.py", " /c\td.py", "z.py"]
    made.commit("One", dict.fromkeys(names, b"1\n"))
    made.commit("Two", {"\n.py": b"2\n"})
    assert [path.decode() for path, _ in tree.modified(made.path, made.sha("main"))] == [
        "\n.py",
        *sorted(set(names) - {"\n.py"}),
    ]
    found, skipped = tree.files(made.path, made.sha("main"))
    assert [(one.path, one.modified is not None) for one in found] == [("z.py", True)]
    assert [one.reason for one in skipped] == ["odd-name"] * 4


def test_the_endings_are_those_of_the_grammars() -> None:
    assert {ending for ending in api.ENDINGS if grammars.language_of(f"a.{ending}")} == api.ENDINGS
    # What resolves names by these files has them only if they are sent.
    for name in (*calls.CONFIGURATION, "tsconfig.json", "tsconfig.base.json"):
        assert calls.is_configuration(f"a/{name}")
        assert api.is_source(f"a/{name}")
    known = {one for language in grammars.LANGUAGES for one in grammars.endings(language)}
    assert {one.removeprefix(".") for one in known} == api.ENDINGS


async def test_a_branch_is_followed_by_its_source_files_and_goes_with_them(made: Repository, tmp_path: Path) -> None:
    made.commit("One", {"a.py": b"A = 1\n"})
    made.commit("Side", {"s.py": b"S = 1\n"}, branch="side")
    reader = Reading(tmp_path / "ws", made.url, include=["main", "s*"])
    await reader.poll()
    assert [(each.request.branch, each.request.commit) for each in reader.trees] == [
        ("main", made.sha("main")),
        ("side", made.sha("side")),
    ]
    assert await reader.trees[0].read(["a.py", "gone.py"]) == {"a.py": "A = 1\n"}
    await reader.poll()
    assert len(reader.trees) == 2, "nothing is new"
    reader.cursor = {**reader.cursor, "branches": {name: {"at": made.sha(name)} for name in ("main", "side")}}
    await reader.poll()
    assert [each.request.branch for each in reader.trees[2:]] == ["main", "side"], "read by a version without code"
    made.git("update-ref", "-d", "refs/heads/side")
    made.commit("Two", {"a.py": b"A = 2\n"})
    await reader.poll()
    assert [(each.request.branch, each.request.removed) for each in reader.trees[4:]] == [
        ("side", True),
        ("main", False),
    ]


async def test_files_of_a_branch_stay_while_another_connection_reads_it(made: Repository, tmp_path: Path) -> None:
    made.commit("One", {"a.py": b"A = 1\n"})
    made.commit("Side", {"s.py": b"S = 1\n"}, branch="side")
    reader = Reading(tmp_path / "ws", made.url, include=["main", "s*"])
    await reader.poll()
    at = {"of": git.cursor_of(reader.spec), "branches": {"side": {"at": made.sha("side")}}}
    other = assignments.Claim("other", "jervis", "other", reader.spec, 1, 1, at, state.State(), NOW)
    made.git("update-ref", "-d", "refs/heads/side")
    reader.alike = [other]
    before = dict(reader.cursor)
    await reader.poll()
    assert [each.request for each in reader.trees[2:]] == []
    reader.cursor, reader.alike = before, []
    await reader.poll()
    assert [(each.request.branch, each.request.removed) for each in reader.trees[2:]] == [("side", True)]
