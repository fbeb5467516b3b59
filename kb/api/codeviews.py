"""Questions about the code of a branch, answered from its resolved calls, imports and bases; no model is asked."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints

from crds import scope
from kb.api import commits, message

CodeSymbol = Annotated[str, StringConstraints(min_length=1, max_length=1000, strip_whitespace=True)]


class CodeQuestion(message.Request):
    """A question about one branch. `repository` (org/name) is needed where the scope has several, `branch` where the
    repository has several and none is the default one."""

    scope: scope.Scope
    repository: str = Field(default="", max_length=511)
    branch: commits.BranchName | None = None


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
    callee is not known (`unresolved`) are in no answer. `analysed` is the commit of which Joern's analysis is known, ""
    without one; it counts for the files that are still the same."""

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
