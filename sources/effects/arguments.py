"""The arguments of the tools for issues, pages and branches."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from crds import values

_ISSUE = r"^([1-9][0-9]{0,9}|[A-Z][A-Z0-9_]{0,63}-[1-9][0-9]{0,9})$"
_PLACE = r"^([A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+){0,20})?$"


def _line(text: str) -> str:
    if any(ord(letter) < 32 or ord(letter) == 127 or letter in "\x85\u2028\u2029" for letter in text):
        raise ValueError("must be one line without control characters")
    return text


def _text(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain the character 0")
    return text


Issue = Annotated[str, Field(pattern=_ISSUE)]
Title = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_line)]
Text = Annotated[str, Field(min_length=1, max_length=32_000), AfterValidator(_text)]
Labels = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_line)], ...], Field(max_length=50)
]


class _Arguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Where(_Arguments):
    """`repository` is owner/name, for Jira the project's key; it may be left out where the Connection has only one."""

    repository: Annotated[str, Field(max_length=256, pattern=_PLACE)] = ""


class AddComment(Where):
    """A comment on `issue`: its number, or the key of Jira."""

    issue: Issue
    text: Text


class CreateIssue(Where):
    """An issue. `labels` exist already at Gitea; `issueType` is Jira's."""

    title: Title
    text: Text
    labels: Labels = ()
    issue_type: Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_line)] = "Task"


class Status(StrEnum):
    """Whether an issue is worked on."""

    OPEN = "open"
    CLOSED = "closed"


class UpdateIssue(Where):
    """Changes what is given, at least one thing; `state` is for Git hosts alone."""

    issue: Issue
    title: Title | None = None
    text: Text | None = None
    state: Status | None = None
    labels: Labels | None = None

    @model_validator(mode="after")
    def _some(self) -> UpdateIssue:
        if self.title is None and self.text is None and self.state is None and self.labels is None:
            raise ValueError("give title, text, state or labels")
        return self


class Way(StrEnum):
    """How a page is edited."""

    APPEND = "append"
    REPLACE = "replace"


class EditPage(_Arguments):
    """`text` becomes paragraphs, one of each group of lines, behind the page or instead of it. `version`: the one that
    was read; a page that has another one by now is left as it is."""

    page: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,19}$")]
    text: Text
    way: Way = Way.APPEND
    title: Title | None = None
    version: Annotated[int, Field(ge=1)] | None = None


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*(/[A-Za-z0-9_][A-Za-z0-9._+-]*)*")
_SHA = r"^[0-9a-f]{40}$"


def _branch(name: str) -> str:
    """Narrower than git-check-ref-format(1): letters that look alike deceive the person who reviews a branch."""
    odd = ".." in name or any(part.endswith((".", ".lock")) for part in name.split("/"))
    if odd or not _NAME.fullmatch(name) or name == "HEAD" or name.startswith("refs/") or re.fullmatch(_SHA, name):
        raise ValueError("must be the name of a branch, of ASCII letters, digits and . _ + - /, as in jervis/fix-12")
    return name


class PushBranch(_Arguments):
    """`branch` without refs/heads/. `commit` is what it is at afterwards, `expected` what it is at now; left out: there
    is no such branch. `bundle` is a stored Git bundle with the commits."""

    branch: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_branch)]
    commit: Annotated[str, Field(pattern=_SHA)]
    expected: Annotated[str, Field(pattern=_SHA)] | None = None
    bundle: values.ContentRef
