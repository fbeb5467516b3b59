"""What the modules of hosts share: where a commit is, lists page by page, and texts of others within bounds.

A list that the user may not read (403, 404) or that a server of this version does not have is named in the report; the
others count. What refuses the credentials, or does not answer, ends the reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from crds import errors
from sources.api import problems
from sources.ci import wire
from sources.core import host_address, port, rest

PAGES = 3
PAGE = 100
"""Rows of each page of a list."""
LARGEST = 8 << 20
"""Bytes of an answer: GitHub writes up to 128 KiB about a check run, and a page has a hundred of them."""
_CUT = "…"
Row = Mapping[str, Any]


class UnexpectedAnswer(errors.Permanent):
    """An answer is not as the API says. Asking again gives the same one."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the host answered something that is not understood: {what}",
            remedy="Ask what the host is, and whether spec.url of the Connection is the address of its API.",
        )


@dataclass(frozen=True, slots=True)
class CommitQuery:
    """A branch or a commit (short or whole), or neither: the repository's default branch."""

    repository: str
    branch: str = ""
    commit: str = ""


@dataclass(slots=True)
class CommitChecks:
    """What was read so far."""

    commit: str
    branch: str = ""
    checks: list[wire.Check] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


class Host(Protocol):
    """One kind of host."""

    async def read(self, api: rest.Rest, asked: CommitQuery) -> CommitChecks:
        """All checks of the commit, within `PAGES` of each list. Raises what `sources.core.rest` raises, and
        `UnexpectedAnswer`, or one of `UNEXPECTED`, for an answer that is not as the API says."""
        ...


@dataclass(frozen=True, slots=True)
class CheckedHost:
    """What reads the checks of a type of Connection: its address and its API."""

    rules: host_address.Rules
    checks: Host


UNEXPECTED = (LookupError, TypeError, ValueError, AttributeError, OverflowError)


def ref(name: str) -> str:
    """A branch or a commit as a part of a path, with the slashes of a branch."""
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise problems.Invalid(f"{name[:100]!r} names no branch", field="branch", remedy="Give the branch's own name.")
    return quote(name, safe="/")


async def listed(
    api: rest.Rest, found: CommitChecks, what: str, path: str, query: Mapping[str, str], rows: Callable[[Any], Any]
) -> list[Row]:
    """The rows of a list, which `rows` takes out of an answer. What cannot be read is noted in `found`."""
    listed_rows: list[Row] = []
    following: Mapping[str, str] | None = query
    for _ in range(PAGES):
        try:
            answer = await api.get(path, following)
        except (rest.Absent, port.Misconfigured) as error:
            found.unread.append(f"{what}: {error.message}"[:300])
            return listed_rows
        page = rows(answer.json)
        if not isinstance(page, list):
            raise UnexpectedAnswer(f"{what} are no list")
        listed_rows += page[:PAGE]
        if len(page) > PAGE:
            found.unread.append(f"{what}: only the first {PAGE} of a page of {len(page)}")
            return listed_rows
        following = _following(answer, following or {}, len(page))
        if following is None:
            return listed_rows
    found.unread.append(f"{what}: more than {PAGES} pages")
    return listed_rows


def _following(answer: rest.Answer, query: Mapping[str, str], size: int) -> Mapping[str, str] | None:
    """By the header Link, which all three send where there is a next page."""
    following = rest.next_query(answer)
    return {**query, "page": following["page"]} if following and size and "page" in following else None


def check(
    name: object,
    kind: str,
    state: wire.State,
    *,
    url: object = "",
    started: object = "",
    finished: object = "",
    summary: object = "",
    may_fail: bool = False,
) -> wire.Check:
    """A check out of what a host says of it."""
    return wire.Check(
        name=text(name, 200) or "(without a name)",
        kind=kind,
        state=state,
        url=link(url),
        started_at=time(started),
        finished_at=time(finished),
        summary=text(summary, 1000),
        may_fail=may_fail,
    )


def text(value: object, most: int) -> str:
    """Of others: without control characters but line breaks, and its beginning where it is long."""
    if not isinstance(value, str):
        return ""
    plain = "".join(letter for letter in value[: 4 * most] if letter.isprintable() or letter == "\n").strip()
    cut = len(plain) > most or len(value) > 4 * most
    return plain[: most - 1] + _CUT if cut else plain


def link(value: object) -> str:
    """An address on the web, without credentials; "" for anything else."""
    if not isinstance(value, str) or len(value) > 1000 or not value.isprintable() or " " in value:
        return ""
    try:
        parts = urlsplit(value)
    except ValueError:
        return ""
    return value if parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc else ""


def time(value: object) -> str:
    """Of a host; Go's zero time is none."""
    return value if isinstance(value, str) and len(value) <= 40 and not value.startswith("0001-") else ""
