"""Commits of a Git repository, which need no model (seed 001 "Git Commit Ingest Pipeline")."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints, model_validator

from contracts.api import message
from contracts.api.git import BranchName, Hash, Repository
from crds import scope
from crds.access import Access

GIT_COMMIT = "git_commit"
"""The kind of a commit's document."""
STRUCTURED = frozenset({GIT_COMMIT, "git_file", "git_branch"})
"""Kinds of documents whose facts are given with them: no model reads them, their text is only embedded."""
MOST_COMMITS, MOST_REMOVED = 200, 1000
MOST_FILES = 1000
MESSAGE_CHARS, DIFF_CHARS = 16_384, 65_536
CONTENT_CHARS = 1_000_000

_Path = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class Author(message.Request):
    """Who wrote a commit; `email` may be ""."""

    name: str = Field(max_length=255)
    email: str = Field(default="", max_length=320)


class CommitFile(message.Request):
    """A file that a commit modified, added, deleted, or renamed from `oldPath`, with a similarity in percent.

    `blob` and `oldBlob` are Git's ids of its content after the commit and before it: by them `contents` of the request
    says what its declarations were, so that those that changed are known.
    """

    path: _Path
    status: Literal["M", "A", "D", "R"]
    old_path: _Path | None = None
    similarity: int | None = Field(default=None, ge=0, le=100)
    blob: Hash | None = None
    old_blob: Hash | None = None

    @model_validator(mode="after")
    def _renamed(self) -> CommitFile:
        if (self.status == "R") != (self.old_path is not None):
            raise ValueError("oldPath belongs to status R, and R needs it")
        return self


class Commit(message.Request):
    """A commit; `parents` are hashes. `diff` is its text as far as the caller sends it, `filesTruncated` and
    `diffTruncated` say that there is more."""

    hash: Hash
    message: str = Field(default="", max_length=MESSAGE_CHARS)
    author: Author
    date: AwareDatetime
    parents: list[Hash] = Field(default_factory=list, max_length=64)
    files: list[CommitFile] = Field(default_factory=list, max_length=MOST_FILES)
    files_truncated: bool = False
    diff: str = Field(default="", max_length=DIFF_CHARS)
    diff_truncated: bool = False


class GitCommits(message.Request):
    """Commits that a branch of a repository has, and hashes of those that it has no more (`removed`, after a forced
    push). A commit that other branches have stays until none has it. `access` is who may see them at the source;
    without it each keeps what was said before, and a new one is Unknown. Repeating a request changes nothing.

    `contents`: texts of source files by `blob`. What was read of them stays known where a later request has none.
    """

    scope: scope.Scope
    repository: Repository
    branch: BranchName
    commits: list[Commit] = Field(default_factory=list, max_length=MOST_COMMITS)
    removed: list[Hash] = Field(default_factory=list, max_length=MOST_REMOVED)
    contents: dict[Hash, Annotated[str, StringConstraints(max_length=CONTENT_CHARS)]] = Field(
        default_factory=dict, max_length=MOST_COMMITS * MOST_FILES
    )
    access: Access | None = None

    @model_validator(mode="after")
    def _once(self) -> GitCommits:
        hashes = [one.hash for one in self.commits] + self.removed
        if not hashes:
            raise ValueError("give commits or removed")
        twice = next((one for one in hashes if hashes.count(one) > 1), None) if len(set(hashes)) < len(hashes) else None
        if twice is not None:
            raise ValueError(f"{twice} is named twice in commits and removed; name it once")
        return self


CommitResult = Literal["Stored", "Updated", "Unchanged", "LeftOut", "Removed", "Forgotten", "Absent", "Failed"]


class CommitOutcome(message.Reply):
    """What became of a commit.

    Stored     it is known now                     Removed    the branch has it no more, another one has
    Updated    known before, with other facts      Forgotten  no branch has it, nothing of it is left
    Unchanged  known before as it was sent         Absent     it was to be removed, and the branch did not have it
    LeftOut    `problem` names the hard rule       Failed     see `problem`; `retryable`: the same may succeed later

    `omitted`: edges to files of some of its branches that are left out, because there are too many. `symbols`: how many
    declarations it changed, as far as contents were sent.
    """

    hash: str
    source_urn: str
    result: CommitResult
    chunks: int = 0
    edges: int = 0
    omitted: int = 0
    symbols: int = 0
    problem: message.Problem | None = None
    retryable: bool = False


class GitCommitsReply(message.Reply):
    """The outcome of each commit, then of each removed one, in the order of the request."""

    outcomes: list[CommitOutcome]
