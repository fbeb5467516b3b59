"""What differs between Git hosts whose issues are read: addresses, lists, pages, and what the fields are called.

`sources.providers.git_host.issues` is the reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import parse_qsl

from crds import access
from crds.access import Access
from sources.core import port, rest
from sources.providers.git_host import issue

Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of a repository: its name in the cursor, its path, and what is always asked. `comments`: of comments, each
    of which names its issue. `mark` stands before the number of its things."""

    name: str
    path: str
    query: Query
    comments: bool = False
    mark: str = "#"


@dataclass(frozen=True, slots=True)
class Choice:
    """What `spec.filter` admits: `since` and the query. `types` are issues, pulls."""

    since: datetime | None = None
    state: str = "all"
    labels: str = ""
    types: tuple[str, ...] = ("issues", "pulls")

    def admits(self, thing: issue.Thing) -> bool:
        """Whether a list would have it."""
        wanted = set(filter(None, self.labels.split(",")))
        stated = self.state == "all" or (self.state == "closed") == bool(thing.closed)
        return (
            stated and wanted <= set(thing.labels) and (self.since is None or issue.time(thing.updated) >= self.since)
        )


Readers = Mapping[str, Access]
"""Who may read things of a repository, by their mark (# or !)."""


class Host(Protocol):
    """What differs between hosts. Rows are objects of JSON; what is missing in one raises KeyError, TypeError or
    ValueError."""

    provider: str
    """The beginning of a URN."""
    number: str
    """The field of a row with the number of an issue."""
    since: str
    """The parameter for what changed at a time or later."""
    keeps: bool
    """Whether everything that was ever seen may be compared again."""

    def lists(self, repository: str, choice: Choice) -> tuple[Listing, ...]:
        """What is read, those of comments first."""
        ...

    def newest_first(self, listing: Listing) -> Query:
        """The query of a list in the order of creation, newest first, as large as pages may be."""
        ...

    def following(self, answer: rest.Answer, query: Query) -> Query | None:
        """The query of the next page, None after the last one."""
        ...

    async def count(self, api: rest.Rest, listing: Listing, query: Query) -> int | None:
        """How many things a list has; None where the host does not say."""
        ...

    async def access(self, api: rest.Rest, repository: str) -> Readers:
        """Who may read its lists."""
        ...

    async def comment_count(self, api: rest.Rest, repository: str) -> int | None:
        """How many comments there are, where the host does not time their deletion; None: it need not be known."""
        ...

    def name(self, row: Mapping[str, Any], listing: Listing) -> tuple[str, str, str]:
        """(name in its list, stamp, RFC 3339 time of the last change)."""
        ...

    def thing(self, row: Mapping[str, Any], repository: str, choice: Choice) -> issue.Thing | None:
        """None for one that the choice leaves out."""
        ...

    def owner(self, row: Mapping[str, Any], repository: str) -> str:
        """The path of the issue that a comment belongs to."""
        ...

    def comments_of(self, thing: issue.Thing) -> tuple[str, Query]:
        """Path and query of its comments, the oldest first."""
        ...

    def comment(self, row: Mapping[str, Any]) -> issue.Comment | None:
        """None for an entry that no person wrote."""
        ...

    def files(self, row: Mapping[str, Any], repository: str, text: str) -> Sequence[issue.Linked]:
        """The files of an issue or comment that are kept by the host itself."""
        ...

    def rest_of(self, linked: issue.Linked) -> str:
        """Which client asks for the file: api or web."""
        ...


async def repository(api: rest.Rest, path: str) -> Mapping[str, Any]:
    """What a host says of a repository itself."""
    found = (await api.get(path)).json
    if not isinstance(found, Mapping):
        raise port.Unreachable(f"{path} answered no object.")
    return found


def members(provider: str, repository: str) -> Access:
    """The access to what a host shows to the members of a repository alone: `group:github-repo:acme/shop`."""
    return access.restricted([access.principal("group", f"{provider}-repo:{repository}")])


def query(text: str) -> Choice:
    """`state=open&labels=bug,urgent&type=issues`, any of them. Raises `port.Misconfigured`."""
    found = dict(parse_qsl(text, keep_blank_values=True))
    wrong = sorted(found.keys() - {"state", "labels", "type"})
    state, kind = found.get("state", "all"), found.get("type", "all")
    if wrong or (text.strip() and not found) or state not in _STATES or kind not in _TYPES:
        raise port.Misconfigured(
            f"spec.filter.query {text[:100]!r} is not understood.",
            field="spec.filter.query",
            remedy="Write state=open|closed|all, labels=NAME,NAME and type=issues|pulls|all, joined by &.",
        )
    return Choice(None, state, found.get("labels", ""), _TYPES[kind])


_STATES = ("open", "closed", "all")
_TYPES = {"issues": ("issues",), "pulls": ("pulls",), "all": ("issues", "pulls")}
