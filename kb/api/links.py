"""Links: what a client decides about them, and what became of one."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, StringConstraints, field_validator

from contracts.api import message
from crds import scope
from kb.api.words import Name


class LinkList(StrEnum):
    """Links that a pattern matches are opened without a question, or never."""

    SAFE = "Safe"
    UNSAFE = "Unsafe"


PATTERN = r"^(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:/[^\s#]*)?$"
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=1000, strip_whitespace=True)]


class LinkPatternDraft(message.Request):
    """`pattern` is a host with what lies below it (`docs.example.com`), with a port where it is not the usual one, and
    with the beginning of a path where only that is meant: `example.com/blog/*`. `*` in a path is any text."""

    scope: scope.Scope
    pattern: Annotated[Pattern, StringConstraints(pattern=PATTERN)]
    list: LinkList
    reason: Annotated[str, StringConstraints(max_length=1000, strip_whitespace=True)] = ""
    by: Name

    @field_validator("pattern", mode="before")
    @classmethod
    def _host_in_lower_case(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        host, slash, path = given.strip().removeprefix("https://").removeprefix("http://").partition("/")
        return f"{host.lower()}{slash}{path}"


class LinkPattern(message.Reply):
    """A pattern and who decided it; `scope` is whose it is."""

    scope: scope.Scope
    pattern: str
    list: LinkList
    reason: str
    by: str
    at: AwareDatetime


class LinkPatterns(message.Reply):
    """The patterns that hold in a scope, wider ones included, in order of the patterns."""

    patterns: list[LinkPattern]


class Link(message.Reply):
    """A link that a document holds: its URL in one spelling, and the text around it."""

    url: str
    before: str = ""
    after: str = ""


class LinkOutcome(StrEnum):
    """What became of a link that a task was about.

    Indexed      it was opened, and its page is a document
    Known        its page is a document already; it was not opened
    Blocked      a link for one use (unsubscribe, confirm ...) or of a pattern that is not opened
    Unsafe       its host, port or address is not to be opened, or the model said so
    Gone         the site says that there is no such page (404, 410)
    Refused      it was asked for and cannot be taken: its type, its size, robots.txt, a login
    Unreachable  its site does not answer now
    Unclear      neither patterns nor the model could say; a person is asked
    """

    INDEXED = "Indexed"
    KNOWN = "Known"
    BLOCKED = "Blocked"
    UNSAFE = "Unsafe"
    GONE = "Gone"
    REFUSED = "Refused"
    UNREACHABLE = "Unreachable"
    UNCLEAR = "Unclear"


class LinkReport(message.Reply):
    """`reason` is a sentence."""

    url: str
    outcome: LinkOutcome
    reason: str


class LinkSource(message.Reply):
    """The content of a task about a link, as JSON: where the link stands. Unknown fields are ignored."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    source_urn: Annotated[str, StringConstraints(max_length=1024)] = ""
    source_kind: Annotated[str, StringConstraints(max_length=64)] = ""
    subject: Annotated[str, StringConstraints(max_length=1000)] = ""
    sender: Annotated[str, StringConstraints(max_length=320)] = ""
    before: Annotated[str, StringConstraints(max_length=1000)] = ""
    after: Annotated[str, StringConstraints(max_length=1000)] = ""


LINK_URN = "link::"
"""The beginning of the source URN of a linked page; the URL follows."""
