"""The port of a protocol: what is asked of a source, and what it answers.

A source answers batches. Each has the items and the failures that were found, and the cursor behind them: the caller
stores both before it stores the cursor, so a kill repeats a batch and loses none. An error is raised and never looks
like an empty batch. What is gone is found by a list of everything that is there (`Source.ids`), not by a batch.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from codegraph import api as code_api
from crds import connection, errors, given_graph, pendingtask
from crds.access import Access
from kb import api
from text import mail

ACCESS_KEY = "access_token"
"""The key of credentials under which a provider gets an access token that OAuth made; no Secret has it."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
Cursor = Mapping[str, Any]
"""JSON that only the protocol reads; {} before the first poll. `{"rewound": CURSOR}` has to be read from the beginning,
because a person asked for it."""


class Rejected(errors.Permanent):
    """The source refuses the credentials."""


class Misconfigured(errors.Permanent):
    """The source is there, and what the Connection asks for is not."""


class Unreachable(errors.Operational):
    """The source does not answer, answers nonsense, or asks for a pause (`retry_after`)."""


class DiskFull(errors.Permanent):
    """The volume of the process has no room; the source may be as it should."""

    def __init__(self, said: str) -> None:
        super().__init__(
            f"The volume of the sources process is full: {said}.",
            remedy="Raise sources.workspace.sizeLimit of the chart or enlarge its existingClaim, and keep"
            " sources.settings.gitWorkspaceBytes below it; or suspend a Git Connection with a large repository.",
        )


@contextmanager
def disk() -> Iterator[None]:
    """Errors of a full volume as ours; others pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DiskFull(error.strerror or str(error)) from error


class Uncloned(errors.Operational):
    """A Git source has no clone, and none could be made; `cause` says why."""

    def __init__(self, cause: errors.JervisError) -> None:
        super().__init__(cause.message)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Item:
    """One thing of the source. `source_id` is its name there, at most 512 characters and the same for ever; `version`
    differs where the content does. `observed_at`: the time that the source gives it. What is not `editable` never
    changes: a second version of it is another thing with the same name."""

    source_id: str
    version: str
    type: pendingtask.Type
    urn: str
    title: str
    text: str
    files: tuple[mail.File, ...] = ()
    observed_at: datetime | None = None
    editable: bool = True
    place: str = ""
    """Where it was found, as `Source.ids` lists it; "": it is never taken for gone."""
    facts: given_graph.Facts | None = None
    """What its fields say; where they change, `version` does."""
    access: Access | None = None
    """Who may read it there; where it alone changes, `version` does not. None: the protocol does not ask, and
    `spec.access` of the Connection counts."""
    recurs: bool = False
    """The same version may come back after another one, and is new again then."""
    left_out: tuple[str, ...] = ()
    """What of it is not in its text and files, or is there in doubt: a sentence each."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A thing of the source that cannot become a task, and why, in a sentence. The cursor passes it: with a `place` of
    `Source.ids` it is asked for again (`Fetching`), more and more rarely."""

    source_id: str
    title: str
    reason: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """The source files of a branch at a commit, without their contents, which `read` gives by path; or that the branch
    is gone."""

    request: code_api.GitStructure
    read: Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class Batch:
    """What was found next, and the cursor behind it; `shown` says for people where that is. `commits` need no model and
    go straight to the knowledge base; `workspace` is what the clone of a Git source has come to."""

    cursor: Cursor
    shown: str
    items: tuple[Item, ...] = ()
    failures: tuple[Failure, ...] = field(default=())
    commits: tuple[api.GitCommits, ...] = ()
    workspace: connection.WorkspaceState | None = None
    trees: tuple[Tree, ...] = ()
    """Branches whose source files are to be known; they go to the knowledge base like commits, after them."""


@dataclass(frozen=True, slots=True)
class Page:
    """Places of things of the source. Only after the page that is `last` everything has been listed: everything whose
    place begins with one of `within` and a slash; None: everything. A place outside of `within` is never taken for
    gone, so a project that the user does not see any more deletes nothing. `access`: who may read what is at a place,
    as far as the list says it. `moving`, of the last page: a thing gets another place in time, so that a place which is
    not known may be that of any thing."""

    places: tuple[str, ...]
    last: bool = False
    within: frozenset[str] | None = None
    access: Mapping[str, Access] = field(default_factory=dict)
    moving: bool = False


class Source(Protocol):
    """One poll of one Connection."""

    def batches(self, cursor: Cursor) -> AsyncGenerator[Batch]:
        """What is new behind the cursor, until there is no more.

        Raises `Rejected`, `Misconfigured`, `Unreachable`; what was yielded before that is good.
        """
        ...

    def ids(self) -> AsyncGenerator[Page]:
        """The places of everything that `batches` admits now, of the things that became failures too, without contents;
        the page that is `last` says that nothing is missing.

        Raises what `batches` raises: an error, a folder that cannot be opened, and a source that shows nothing at all
        where it must show something are never "nothing".
        """
        ...


@runtime_checkable
class Fetching(Protocol):
    """A source that gives single things by their places: what is listed and not known, and what could not be read
    before."""

    tells: bool
    """Its list says who may read what (`Page.access`), and its news does not name everything that appears or changes: a
    page that was restored, moved, shown to the user again, or restricted to others has no new time."""

    def fetch(self, places: Sequence[str]) -> AsyncGenerator[Batch]:
        """What is at these places of `Source.ids`; the cursors of these batches are not kept. A place where nothing is
        any more is left out. Raises what `batches` raises."""
        ...
