"""Questions about the code of a branch, answered from its resolved calls, imports and bases; no model is asked."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints

from contracts.api import git, message
from crds import scope

CodeSymbol = Annotated[str, StringConstraints(min_length=1, max_length=1000, strip_whitespace=True)]


class CodeQuestion(message.Request):
    """A question about one branch. `repository` (org/name) is needed where the scope has several, `branch` where the
    repository has several and none is the default one."""

    scope: scope.Scope
    repository: str = Field(default="", max_length=511)
    branch: git.BranchName | None = None


class Callers(CodeQuestion):
    """Who calls `symbol`, or whom it calls; `transitive` follows calls of calls.

    A symbol is the end of a qualified name (`area`, `Shape.area`, `app.shape.Shape.area`), or PATH:NAME.
    """

    symbol: CodeSymbol
    after: int = Field(default=0, ge=0)
    limit: int = Field(default=50, ge=1, le=500)


class Impact(CodeQuestion):
    """What may break when `symbol` changes, up to `depth` steps away."""

    symbol: CodeSymbol
    depth: int = Field(default=5, ge=1, le=20)
    after: int = Field(default=0, ge=0)
    limit: int = Field(default=50, ge=1, le=500)


class CodePath(CodeQuestion):
    """The shortest way by calls from `source` to `target`."""

    source: CodeSymbol
    target: CodeSymbol


class CodeHistory(CodeQuestion):
    """Which commits of the branch changed `symbol`, or a file where it is a path; also before the file was renamed.

    PATH:NAME and PATH may name what is not there any more.
    """

    symbol: CodeSymbol
    after: int = Field(default=0, ge=0)
    limit: int = Field(default=50, ge=1, le=500)


class CodeNeighbourhood(CodeQuestion):
    """The callers and callees of `symbol`, up to `steps` away, `limit` of them at most: the nearest first."""

    symbol: CodeSymbol
    steps: int = Field(default=1, ge=1, le=2)
    limit: int = Field(default=100, ge=1, le=300)


class CodeWhere(CodeQuestion):
    """Where the text of an issue is about."""

    text: str = Field(min_length=1, max_length=20_000)
    limit: int = Field(default=10, ge=1, le=50)


class CodeMap(CodeQuestion):
    """An outline of what matters most, within `tokens`; with `near`, to these paths or symbols."""

    tokens: int = Field(default=1024, ge=64, le=32_768)
    near: list[CodeSymbol] = Field(default_factory=list, max_length=50)


class Coverage(message.Reply):
    """What an answer stands on. `commit` is the one whose structure is known; `current` is false while that of a newer
    one, or by a newer extractor, is being written. `skipped` counts files that were not read, by reason; calls whose
    callee is not known (`unresolved`) are in no answer. `calls_unknown` are the languages of the branch of which no
    call is known: that an answer has none of them says nothing. `analysed` is the commit of which Joern's analysis is
    known, "" without one; it counts for the files that are still the same."""

    repository: str
    branch: str
    commit: str
    current: bool
    observed_at: AwareDatetime | None = None
    updated_at: AwareDatetime | None = None
    files: int = 0
    calls: int = 0
    unresolved: int = 0
    skipped: dict[str, int] = Field(default_factory=dict)
    calls_unknown: list[str] = Field(default_factory=list)
    extractor: str = ""
    analysed: str = ""


class CodePlace(message.Reply):
    """A declaration, or with kind `file` the code of a file outside of any; `key` is its node in the graph."""

    path: str
    name: str
    qualified_name: str
    kind: str
    line: int
    key: str
    signature: str = ""


class CodeCall(message.Reply):
    """A call between two places, where it stands, by which rule the callee is known and how surely (0 to 1)."""

    caller: CodePlace
    callee: CodePlace
    line: int
    rule: str
    confidence: float


class CallsReply(message.Reply):
    """Calls in the order of their files and lines; `next` is `after` of the next page, null after the last."""

    coverage: Coverage
    symbol: CodePlace
    calls: list[CodeCall]
    total: int
    next: int | None = None


class Affected(message.Reply):
    """A place that may break: `distance` steps away, over `by` (calls, extends, overrides, imports, uses_type) of
    `of`."""

    place: CodePlace
    distance: int
    by: str
    of: str


class ImpactReply(message.Reply):
    """What may break, the nearest first; `tests` are the files of tests among all of it, which should be run."""

    coverage: Coverage
    symbol: CodePlace
    affected: list[Affected]
    tests: list[str]
    total: int
    next: int | None = None


class CodeChange(message.Reply):
    """A commit that changed something. `path` is that of the file then.

    `change` of a declaration is added, changed, removed, or member (only something inside of it changed); of a file it
    is added, modified, deleted or renamed. `unread`: the commit changed the file, but not which declarations of it is
    known.
    """

    hash: str
    title: str
    author: str = ""
    date: AwareDatetime | None = None
    path: str
    change: str
    source_urn: str


class FileRename(message.Reply):
    """A rename that the history was followed over; `similarity` in percent."""

    hash: str
    old_path: str
    path: str
    similarity: int | None = None


class HistoryReply(message.Reply):
    """Commits, the latest first by the dates of their authors. `name` is that of the declaration inside of its file, ""
    for a file. `unread` counts commits of the file whose declarations are not known; they are not among `commits`.
    `truncated`: a file has more commits than are read."""

    coverage: Coverage
    symbol: CodePlace | None = None
    path: str
    name: str = ""
    commits: list[CodeChange] = Field(default_factory=list)
    renames: list[FileRename] = Field(default_factory=list)
    total: int = 0
    unread: int = 0
    truncated: bool = False
    next: int | None = None


class Neighbour(message.Reply):
    """A declaration that many steps away: `side` is caller or callee, by the shortest way; `symbol` for the start."""

    place: CodePlace
    side: str
    steps: int


class NeighbourCalls(message.Reply):
    """Calls from one neighbour to another, by their keys; `lines` are those of the calls, in the caller's file."""

    caller: str
    callee: str
    lines: list[int]


class NeighbourhoodReply(message.Reply):
    """The neighbours, the start first, the nearest first, and the calls among them. `left_out` counts those that
    `limit` leaves no place for, as far as they are `steps` away."""

    coverage: Coverage
    symbol: CodePlace
    neighbours: list[Neighbour]
    calls: list[NeighbourCalls]
    left_out: int = 0


class PathReply(message.Reply):
    """The calls one after the other; [] where no way is known."""

    coverage: Coverage
    source: CodePlace
    target: CodePlace
    calls: list[CodeCall]


class RankedFile(message.Reply):
    """A file, the best first; `score` is comparable within one reply."""

    path: str
    score: float


class RankedPlace(message.Reply):
    """A function, method or class, the best first."""

    place: CodePlace
    score: float


class WhereReply(message.Reply):
    """Files and functions for a text."""

    coverage: Coverage
    files: list[RankedFile]
    functions: list[RankedPlace]


class MapReply(message.Reply):
    """The outline as text, with an estimate of its tokens; `files` are those that it shows, of `coverage.files`."""

    coverage: Coverage
    text: str
    tokens: int
    files: int
