"""The latest commits of a checkout as the text that a Git connection hands to a task."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_FORMAT = "--format=commit %H%nAuthor: %an <%ae>%nAuthored: %aI%n%n%B"
# A chunk of the knowledge base is 4000 characters and costs a model call: the head of a diff is enough to show it.
DIFF_CHARS = 2000


@dataclass(frozen=True)
class Commit:
    """`urn` identifies the commit (seed 001: `commit::{hash}::{projectId}`)."""

    urn: str
    subject: str
    text: str


def latest(checkout: Path, count: int) -> list[Commit]:
    """Up to `count` commits, newest first; empty without a Git history (an unpacked archive, no Git program)."""
    git = shutil.which("git")
    if git is None or not (checkout / ".git").exists():
        return []
    listed = _git(git, checkout, "log", f"--max-count={count}", "--format=%H")
    return [_read(git, checkout, identity) for identity in (listed or "").split()]


def _read(git: str, checkout: Path, identity: str) -> Commit:
    head = _git(git, checkout, "show", "--no-patch", _FORMAT, identity) or ""
    stat = _git(git, checkout, "show", "--stat=100", "--stat-count=20", "--format=", identity) or ""
    diff = _git(git, checkout, "show", "--unified=1", "--format=", identity) or ""
    if len(diff) > DIFF_CHARS:
        kept = diff[:DIFF_CHARS].rpartition("\n")[0]
        diff = f"{kept}\n[{len(diff) - len(kept)} more characters of the diff left out]\n"
    subject = _git(git, checkout, "show", "--no-patch", "--format=%s", identity) or ""
    return Commit(f"git::commit:{identity}", subject.strip(), f"{head.rstrip()}\n\n{stat.strip()}\n\n{diff}")


def _git(git: str, checkout: Path, *arguments: str) -> str | None:
    """Output of Git; None where it says no, as in a repository without a commit."""
    done = subprocess.run(
        [git, "-C", str(checkout), "--no-pager", *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return done.stdout if done.returncode == 0 else None
