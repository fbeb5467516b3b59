"""Paths of a workspace never leave it, and never reach `.git`."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator_job.effects.tools import checkout, workspace


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "..", "../x", "a/../../x", "a/..", "a//b", "./a", "a/.", "", "a\\..\\b", "a\nb", "\0",
        ".git", ".git/config", "a/.git/hooks/pre-commit", ".GIT/config", ".Git", ".git /config", ".git./x", "git~1/x",
        ".g\u200cit/config", ".git\u200d", ".git::$INDEX_ALLOCATION/x", "GIT~2",
    ],
)  # fmt: skip
def test_a_path_out_of_the_clone_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(checkout.Unworkable):
        workspace.inside(tmp_path, path)


def test_no_part_is_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret").write_text("s")
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "tree" / "file").symlink_to(tmp_path / "out" / "secret")
    with pytest.raises(checkout.Unworkable, match="no folder"):
        workspace.inside(tmp_path / "tree", "link/secret")
    with pytest.raises(checkout.Unworkable, match="no file"):
        workspace.load(workspace.inside(tmp_path / "tree", "file"), "file")


@pytest.mark.parametrize("path", ["a", "a/b.py", ".gitignore", ".github/x", "a b/c", "gitx", "über/ñ"])
def test_other_paths_are_taken(tmp_path: Path, path: str) -> None:
    assert workspace.inside(tmp_path, path) == tmp_path / path
