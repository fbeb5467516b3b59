"""What a push is asked for with, before anything is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from crds import connection
from sources.api import problems
from sources.core import port
from sources.effects import tools
from sources.providers.git import bundle, clone, quarantine
from tests.sources.parts import refused

GIVEN = {
    "branch": "jervis/fix",
    "commit": "a" * 40,
    "bundle": {"key": "k", "sha256": "0" * 64, "bytes": 1},
}


@pytest.mark.parametrize(
    "branch",
    ["refs/heads/../x", "-x", "jervis/-x", "jervis/../main", "jervis//x", "jervis/x.lock", "jervis/x/", "/jervis/x",
     "jervis/\u0441", "jervis/a b", "jervis/a\nb", "jervis/a:main", "jervis/*", "jervis/a^", "jervis/@{1}", "HEAD",
     "refs/heads/main", "refs/tags/v1", "", "a" * 40, "jervis/" + "a" * 200, "jervis/.git", "+jervis/x"],
)  # fmt: skip
def test_names_that_are_no_plain_branch_are_refused(branch: str) -> None:
    with refused(problems.Invalid, field="arguments.branch"):
        tools.parse("pushBranch", {**GIVEN, "branch": branch})


def test_a_plain_name_is_taken() -> None:
    for branch in ("jervis/fix-12", "release", "a.b_c+d/2"):
        assert tools.parse("pushBranch", {**GIVEN, "branch": branch})
    for field, value in (("commit", "abc"), ("expected", "A" * 40), ("bundle", {}), ("force", True)):
        with pytest.raises(problems.Invalid) as caught:
            tools.parse("pushBranch", {**GIVEN, field: value})
        assert str(caught.value.field).startswith(f"arguments.{field}")


def test_what_a_connection_allows() -> None:
    allowed = connection.Push(branches=("jervis/*", "release"))
    names = ("jervis/a", "jervis/a/b", "release", "jervis", "jervis2/a", "release/1", "main")
    assert [name for name in names if allowed.allows(name)] == ["jervis/a", "jervis/a/b", "release"]
    assert [name for name in names if allowed.allows(name, default=True)] == ["release"]


@pytest.mark.parametrize(
    "raw",
    [b"x", b"# v2 git bundle\n", b"# v2 git bundle\n\n", b"# v3 git bundle\n@filter=blob:none\n\nPACK",
     b"# v2 git bundle\n" + b"-" + b"a" * 40 + b" x" * 5000, b"# v2 git bundle\n" + (b"-" + b"a" * 40 + b"\n") * 1001,
     b"# v2 git bundle\n-zz\n\nPACK", b"# v2 git bundle\n" + b"a" * 40 + b" refs/heads/x\n\nPACK\0\0\0\3\0\0\0\0"],
)  # fmt: skip
def test_what_is_no_bundle(raw: bytes) -> None:
    with pytest.raises(problems.Invalid, match="bundle is not taken") as caught:
        bundle.parse(raw)
    assert (caught.value.field, bool(caught.value.remedy)) == ("arguments.bundle", True)


def test_one_push_at_a_time_and_nothing_is_left(tmp_path: Path) -> None:
    copy = clone.Clone(tmp_path / "uid.git", 1 << 30)
    one, two = (quarantine.Quarantine(copy, quarantine.Bounds(), lambda: "") for _ in range(2))
    one.open()
    with pytest.raises(port.Unreachable, match="another push"):
        two.open()
    assert (quarantine.purge(tmp_path), one.path.is_dir()) == ([], True)
    one.close()
    two.open()
    two.close()
    (tmp_path / "old.git.push").mkdir()
    assert quarantine.purge(tmp_path) == ["old.git.push"]
    assert not list(tmp_path.glob("*.push"))


def test_a_bundle_of_git_is_parsed() -> None:
    raw = b"# v2 git bundle\n-" + b"a" * 40 + b" Subject \xff with\ttabs\n" + b"b" * 40 + b" refs/heads/fix\n\n"
    found = bundle.parse(raw + b"PACK\0\0\0\2\0\0\1\0")
    assert (found.needs, found.has, found.count) == (("a" * 40,), frozenset({"b" * 40}), 256)
