"""The source files of a commit: what counts as one, contents as they are, the time of the last change."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from controllers.sources import assignments, state
from controllers.sources.git import tree
from controllers.sources.protocols import git
from kb import api
from kb.code import calls, grammars
from tests.sources.git.making import Repository
from tests.sources.git.test_repository import Reading


def test_files_are_sources_and_project_files_with_the_time_of_their_last_change(tmp_path: Path) -> None:
    made = Repository(tmp_path / "r.git")
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


def test_paths_that_no_request_holds_are_left_out(tmp_path: Path) -> None:
    made = Repository(tmp_path / "r.git")
    folder = "/".join(["\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 80] * 8)
    made.commit("One", {f"{folder}/{number:04}.py": b"" for number in range(2000)})
    found, skipped = tree.files(made.path, made.sha("main"))
    request = api.GitStructure.model_validate(
        {"scope": {"clientId": ""}, "repository": {"name": "r"}, "branch": "main", "commit": "a" * 40}
    ).model_copy(update={"files": found, "skipped": skipped})
    assert 0 < len(found) < 2000
    assert {one.reason for one in skipped} == {"budget-files"}
    assert len(request.model_dump_json()) < 8 << 20


def test_any_path_has_the_time_of_its_last_change(tmp_path: Path) -> None:
    made = Repository(tmp_path / "r.git")
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


async def test_a_branch_is_followed_by_its_source_files_and_goes_with_them(tmp_path: Path) -> None:
    made = Repository(tmp_path / "srv" / "acme" / "storage.git")
    made.commit("One", {"a.py": b"A = 1\n"})
    made.commit("Side", {"s.py": b"S = 1\n"}, branch="side")
    one = Reading(tmp_path / "ws", made.url, include=["main", "s*"])
    await one.poll()
    assert [(each.request.branch, each.request.commit) for each in one.trees] == [
        ("main", made.sha("main")),
        ("side", made.sha("side")),
    ]
    assert await one.trees[0].read(["a.py", "gone.py"]) == {"a.py": "A = 1\n"}
    await one.poll()
    assert len(one.trees) == 2, "nothing is new"
    one.cursor = {**one.cursor, "branches": {name: {"at": made.sha(name)} for name in ("main", "side")}}
    await one.poll()
    assert [each.request.branch for each in one.trees[2:]] == ["main", "side"], "read by a version without code"
    made.git("update-ref", "-d", "refs/heads/side")
    made.commit("Two", {"a.py": b"A = 2\n"})
    await one.poll()
    assert [(each.request.branch, each.request.removed) for each in one.trees[4:]] == [("side", True), ("main", False)]


async def test_files_of_a_branch_stay_while_another_connection_reads_it(tmp_path: Path) -> None:
    made = Repository(tmp_path / "srv" / "acme" / "storage.git")
    made.commit("One", {"a.py": b"A = 1\n"})
    made.commit("Side", {"s.py": b"S = 1\n"}, branch="side")
    one = Reading(tmp_path / "ws", made.url, include=["main", "s*"])
    await one.poll()
    at = {"of": git.cursor_of(one.spec), "branches": {"side": {"at": made.sha("side")}}}
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    other = assignments.Claim("other", "jervis", "other", one.spec, 1, 1, at, state.State(), moment)
    made.git("update-ref", "-d", "refs/heads/side")
    one.alike = [other]
    before = dict(one.cursor)
    await one.poll()
    assert [each.request for each in one.trees[2:]] == []
    one.cursor, one.alike = before, []
    await one.poll()
    assert [(each.request.branch, each.request.removed) for each in one.trees[2:]] == [("side", True)]
