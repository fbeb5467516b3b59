"""Mails as items of a source, whatever protocol brings them: portions of bounded size, and what is wrong with one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from crds import pendingtask
from sources.core import port
from sources.providers.mail import identity
from text import mail

log = structlog.get_logger("sources")

BATCH = 50
BATCH_BYTES = 8 << 20
LARGEST = 32 << 20
"""Bytes of a mail; a larger one is a failure that says so."""
IN_FLIGHT = 64 << 20
"""Bytes of mails that all polls of a process hold at once; taking one apart needs about five times as many."""
PAGE = 1000
"""Places of one page."""
MOST_BAD = 3
"""If none of the mails of a batch can be had and it has more than this, the server fails and not they. A server that
hangs up for so many mails in a row fails, too."""
_ID_CHARS = 400
_MANY = f"a task holds at most {pendingtask.MOST_ATTACHMENTS} attachments"
_SUBJECT = re.compile(rb"^Subject[ \t]*:((?:[^\r\n]*(?:\r\n|\r|\n)[ \t])*[^\r\n]*)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Head:
    """A mail before it is fetched. `number` is the protocol's; `received` the time that the server gives it. `size` is
    0 where the server does not say."""

    number: int
    size: int
    place: str
    received: datetime | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a server gave of a mail: its bytes, or `reason`, a sentence that says why there are none; `title` is then
    what could be had of its subject."""

    head: Head
    raw: bytes | None = None
    reason: str = ""
    title: str = ""


def portions(heads: Iterable[Head]) -> list[list[Head]]:
    """In order, BATCH mails and about BATCH_BYTES each."""
    found: list[list[Head]] = []
    some: list[Head] = []
    for head in heads:
        if some and (len(some) >= BATCH or weight(some) + head.size > BATCH_BYTES):
            found.append(some)
            some = []
        some.append(head)
    return [*found, some] if some else found


def weight(heads: Sequence[Head]) -> int:
    """The bytes that fetching them takes."""
    return sum(head.size for head in heads if head.size <= LARGEST)


def too_large(head: Head) -> str:
    """Why a mail is not fetched, "" where it is."""
    return f"The mail has {head.size} bytes, more than {LARGEST}." if head.size > LARGEST else ""


def read(fetched: Sequence[Fetched]) -> tuple[tuple[port.Item, ...], tuple[port.Failure, ...]]:
    """Items and failures of mails."""
    items, failures = [], []
    for answer in fetched:
        head, raw = answer.head, answer.raw
        if raw is None:
            failures.append(port.Failure(head.place, answer.title, answer.reason, head.place))
            continue
        try:
            items.append(item(head.place, raw, head.received))
        except mail.UnreadableError as error:
            why = f"This is no usable mail: {error}."
            failures.append(port.Failure(head.place, title(raw), why, head.place))
        except Exception as error:
            # One mail that triggers a bug of ours must not stop the others.
            log.exception("mail not read", place=head.place)
            why = f"This mail cannot be read: {error!r}."
            failures.append(port.Failure(head.place, title(raw), why, head.place))
    return tuple(items), tuple(failures)


def item(place: str, raw: bytes, received: datetime | None) -> port.Item:
    """A mail as an item. Raises `text.mail.UnreadableError`."""
    message = mail.read(raw, received)
    digest = identity.digest(raw)
    return port.Item(
        source_id=message.message_id[:_ID_CHARS] or f"mail:{digest}",
        version=digest,
        type=pendingtask.Type.EMAIL,
        urn=message.urn or f"email::{digest[:32]}",
        title=message.title[:200],
        text=message.text,
        files=tuple(message.files),
        observed_at=received,
        editable=False,
        place=place,
        facts=message.facts,
        left_out=(
            *message.doubts,
            *(f"{file.name}: {_MANY}" for file in message.files[pendingtask.MOST_ATTACHMENTS :]),
        ),
    )


def title(raw: bytes) -> str:
    """The subject of a mail of which nothing else has to be readable, "" without one."""
    line = _SUBJECT.search(raw[: 1 << 16])
    if line is None:
        return ""
    try:
        return mail.read(b"Subject:" + line[1] + b"\r\n\r\n").title[:200]
    except mail.UnreadableError:
        return " ".join(line[1].decode("utf-8", "replace").split())[:200]


def said(error: BaseException) -> str:
    """An error on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
