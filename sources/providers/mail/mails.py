"""Mails as items of a source, whatever protocol brings them: portions of bounded size, and what is wrong with one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from crds import pendingtask
from sources.core import port
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
_ID_CHARS = 400


@dataclass(frozen=True, slots=True)
class Head:
    """A mail before it is fetched. `number` is the protocol's; `received` the time that the server gives it."""

    number: int
    size: int
    place: str
    received: datetime | None = None


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


def read(fetched: Sequence[tuple[Head, bytes | None]]) -> tuple[tuple[port.Item, ...], tuple[port.Failure, ...]]:
    """Items and failures of mails; None stands for the bytes of one that is too large."""
    items, failures = [], []
    for head, raw in fetched:
        if raw is None:
            why = f"The mail has {head.size} bytes, more than {LARGEST}."
            failures.append(port.Failure(head.place, "", why, head.place))
            continue
        try:
            items.append(item(head.place, raw, head.received))
        except mail.UnreadableError as error:
            failures.append(port.Failure(head.place, "", f"This is no usable mail: {error}.", head.place))
        except Exception as error:
            # One mail that triggers a bug of ours must not stop the others.
            log.exception("mail not read", place=head.place)
            failures.append(port.Failure(head.place, "", f"This mail cannot be read: {error!r}.", head.place))
    return tuple(items), tuple(failures)


def item(place: str, raw: bytes, received: datetime | None) -> port.Item:
    """A mail as an item; `place` names one without a Message-ID. Raises `text.mail.UnreadableError`."""
    found = mail.read(raw, received)
    digest = hashlib.sha256(raw).hexdigest()
    source_id = found.message_id[:_ID_CHARS] or place
    return port.Item(
        source_id=source_id,
        version=digest,
        type=pendingtask.Type.EMAIL,
        urn=found.urn or f"email::{digest[:32]}",
        title=found.title[:200],
        text=found.text,
        files=tuple(found.files),
        observed_at=received,
        editable=False,
        place=place,
        facts=found.facts,
    )


def said(error: BaseException) -> str:
    """An error on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
