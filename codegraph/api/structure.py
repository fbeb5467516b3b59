"""The structure of a repository's source files (seed 001 "Tree-sitter Pipeline"): what is sent, and its outcome."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints, model_validator

from contracts.api import git, message
from crds import scope
from crds.access import Access

GIT_FILE, GIT_BRANCH = "git_file", "git_branch"
"""The kinds of the documents of a file and of a branch."""
MOST_SOURCES = 20_000
SOURCE_BYTES = 1_000_000
"""Of one file that is read."""
ENDINGS = frozenset(
    {
        "sh",
        "bash",
        "c",
        "h",
        "cc",
        "cpp",
        "cxx",
        "c++",
        "hh",
        "hpp",
        "hxx",
        "h++",
        "ipp",
        "inl",
        "cu",
        "cuh",
        "cs",
        "go",
    }
    | {
        "java",
        "js",
        "jsx",
        "mjs",
        "cjs",
        "kt",
        "kts",
        "php",
        "py",
        "pyi",
        "pyw",
        "rb",
        "rake",
        "gemspec",
        "rs",
        "scala",
    }
    | {"sc", "swift", "tsx", "ts", "mts", "cts"}
)
"""Of the names of source files, as `codegraph.parse.grammars` knows them."""
_PROJECT_FILES = frozenset(
    {"go.mod", "go.work", "package.json", "pnpm-workspace.yaml", "jsconfig.json", "pyproject.toml", "setup.cfg"}
    | {"setup.py", "Cargo.toml", "settings.gradle", "settings.gradle.kts", "pom.xml"}
)
_COMPILER = re.compile(r"^tsconfig(?:\.[\w-]+)?\.json$")

_Path = Annotated[str, StringConstraints(min_length=1, max_length=700, pattern=r"^[^\x00]+$")]


def is_project_file(path: str) -> bool:
    """Whether a file says how a project is put together: its modules, workspaces, roots."""
    name = path.rpartition("/")[2]
    return name in _PROJECT_FILES or _COMPILER.match(name) is not None


def is_source(path: str) -> bool:
    """Whether a file is read as code: by the ending of its name, or as a project file."""
    return is_code(path) or is_project_file(path)


def is_code(path: str) -> bool:
    """Whether a file may declare something, by the ending of its name."""
    return path.rpartition("/")[2].rpartition(".")[2] in ENDINGS


class SourceFile(message.Request):
    """A file of the tree. `blob` is Git's id of its content, `modified` the time of the last commit that changed it.

    `content` is wanted once for each path and blob: a reply names those that are missing.
    """

    path: _Path
    blob: git.Hash
    size: int = Field(ge=0)
    modified: AwareDatetime | None = None
    content: Annotated[str, StringConstraints(max_length=SOURCE_BYTES)] | None = None


class SkippedFile(message.Request):
    """A file that was not read; `reason` is a word such as too-large, binary, vendored, timed-out, budget-time."""

    path: str = Field(max_length=1024)
    reason: str = Field(max_length=64)
    detail: str = Field(default="", max_length=400)


class GitStructure(message.Request):
    """The files of a branch at a commit, all that are to be read: what is not among them is forgotten.

    `skipped` are those that the caller left out, so that the answers can say so. `removed`: the branch is gone, and
    nothing of its structure stays. `host` is where the repository is read from, "" where that does not matter: one of
    the same name on another host has the same keys in its project, so it is refused, unless the caller knows that the
    repository `moved`. Repeating a request changes nothing.
    """

    scope: scope.Scope
    repository: git.Repository
    branch: git.BranchName
    commit: git.Hash | None = None
    committed_at: AwareDatetime | None = None
    files: list[SourceFile] = Field(default_factory=list, max_length=MOST_SOURCES)
    skipped: list[SkippedFile] = Field(default_factory=list, max_length=MOST_SOURCES)
    removed: bool = False
    host: Annotated[str, StringConstraints(max_length=255, to_lower=True)] = ""
    moved: bool = False
    access: Access | None = None

    @model_validator(mode="after")
    def _whole(self) -> GitStructure:
        if self.removed == (self.commit is not None):
            raise ValueError("give commit with the files of the branch, or removed without one")
        if self.removed and self.files:
            raise ValueError("a branch that is removed has no files")
        paths = [one.path for one in self.files]
        if len(set(paths)) < len(paths):
            twice = next(one for one in paths if paths.count(one) > 1)
            raise ValueError(f"{twice[:200]} is named twice in files; name it once")
        return self


class FileOutcome(message.Reply):
    """A file that failed; `retryable`: the same may succeed later."""

    path: str
    problem: message.Problem
    retryable: bool = False


class GitStructureReply(message.Reply):
    """What became of a request.

    Wanted    contents of `missing` are to be sent (the first ones of them; send the request again with some)
    Writing   `left` documents are not written yet: send the request again, no content is needed
    Done      the structure of the branch is that of `commit`

    `calls` are those whose callee is known, `unresolved` the others. `skipped` are those of the caller and those that
    were given up here. `extractor` is the version that read the files: another one reads all of them again.
    """

    state: Literal["Wanted", "Writing", "Done"]
    commit: str | None = None
    missing: list[str] = Field(default_factory=list)
    left: int = 0
    files: int = 0
    symbols: int = 0
    calls: int = 0
    unresolved: int = 0
    stored: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: list[FileOutcome] = Field(default_factory=list)
    skipped: list[SkippedFile] = Field(default_factory=list)
    extractor: str = ""
