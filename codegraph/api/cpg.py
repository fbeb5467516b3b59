"""What Joern says about the code of a branch (seed 001 "Joern CPG Pipeline"): its export, pruned, and the outcome."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from contracts.api import git, message
from crds import scope

MOST_CPG = 200_000
"""Types, methods, and pairs of each kind of an export."""
_Text = Annotated[str, StringConstraints(max_length=1000)]
_Path = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
_Line = Annotated[int, Field(ge=0, le=10_000_000)]
_At = Annotated[int, Field(ge=0, lt=MOST_CPG)]
_Pair = tuple[_At, _At]
_Call = tuple[_At, _At, _Line]


class CpgType(message.Request):
    """A type that the tree declares: its full name in the words of Joern, and where."""

    name: _Text
    file: _Path
    line: _Line


class CpgMethod(message.Request):
    """A method or function that the tree declares: its name, the full name of its type (of its file for a function),
    where it begins (annotations before the name count), and its signature with resolved types, "" where unknown."""

    name: _Text
    type: _Text = ""
    file: _Path
    line: _Line
    signature: _Text = ""


class CpgMissing(message.Request):
    """A language of the tree that was not analysed, with the number of its files; `reason` is a word such as
    LanguagesMissing (no front end), OutOfMemory, DeadlineExceeded, JoernFailed."""

    language: str = Field(max_length=64)
    files: int = Field(default=0, ge=0)
    reason: str = Field(max_length=64)
    detail: str = Field(default="", max_length=1000)


class CpgExport(message.Request):
    """A code property graph, pruned to what the graph of the knowledge base takes: no operators, no synthetic methods,
    nothing outside of the tree.

    `calls` are (caller, callee, line) by indexes of `methods`, `extends` (type, base) and `usesType` (type, type of a
    field, parameter or result) by indexes of `types`. `truncated`: there was more.
    """

    version: Literal[1]
    joern: str = Field(default="", max_length=64)
    languages: list[Annotated[str, StringConstraints(max_length=64)]] = Field(default_factory=list, max_length=64)
    missing: list[CpgMissing] = Field(default_factory=list, max_length=64)
    types: list[CpgType] = Field(default_factory=list, max_length=MOST_CPG)
    methods: list[CpgMethod] = Field(default_factory=list, max_length=MOST_CPG)
    calls: list[_Call] = Field(default_factory=list, max_length=MOST_CPG)
    extends: list[_Pair] = Field(default_factory=list, max_length=MOST_CPG)
    uses_type: list[_Pair] = Field(default_factory=list, max_length=MOST_CPG)
    truncated: bool = False

    @model_validator(mode="after")
    def _within(self) -> CpgExport:
        for name, pairs, most in (
            ("calls", self.calls, len(self.methods)),
            ("extends", self.extends, len(self.types)),
            ("usesType", self.uses_type, len(self.types)),
        ):
            odd = next((one for one in pairs if max(one[:2]) >= most), None)
            if odd is not None:
                raise ValueError(f"{name} has {list(odd)}, and there are {most} to name; count from 0")
        return self


class Cpg(message.Request):
    """What Joern says about a branch whose structure is known at exactly this commit.

    Without `export`: go on with the one that was sent before (the reply said Writing). Repeating a request changes
    nothing; another export replaces the one before.
    """

    scope: scope.Scope
    repository: git.Repository
    branch: git.BranchName
    commit: git.Hash
    export: CpgExport | None = None


class CpgReply(message.Reply):
    """What became of it. Writing: `left` documents are not written yet, send the request again without the export.

    `signatures`, `calls`, `extends`, `usesType` count what is added to what was known before, `calls` beside those of
    the own resolver; `unmatched` methods and types of the export are no declarations of the branch.
    """

    state: Literal["Writing", "Done"]
    commit: str
    left: int = 0
    stored: int = 0
    signatures: int = 0
    calls: int = 0
    extends: int = 0
    uses_type: int = 0
    unmatched: int = 0
