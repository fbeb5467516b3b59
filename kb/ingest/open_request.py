"""A request that is recorded and waits for models, and what the one before it left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kb import api
from kb.extract import draft
from kb.files import inside
from kb.ingest import document_locks, duplicates, images, request_record
from kb.ingest import thread_context as threads
from kb.queue import job
from kb.rules import enforce


@dataclass(frozen=True)
class PreviousRequest:
    """What an earlier request of a document left: its job, and whether it is `unfinished`. Such a one may have taken a
    job out of the queue, which no other process knows. `reading` is its key when it is the same document, else ""."""

    job: tuple[job.Job, str] | None
    unfinished: bool
    reading: str


@dataclass(frozen=True)
class OpenRequest:
    """A request that is recorded, and what models are to read of it; `alone` is the turn of reading it.

    `met`: what the hard rules have to say about it. `thread`: what was said before it. `like`: what says nearly the
    same. `taken`: its text and the images in it.
    """

    request: api.IngestRequest
    taken: inside.Taken
    made: draft.Draft
    opened: request_record.IngestRequestRecord
    former: PreviousRequest
    alone: document_locks.Turn
    met: enforce.RuleMatches = field(default_factory=enforce.RuleMatches)
    thread: threads.Found = field(default_factory=threads.Found)
    like: duplicates.Found | None = None

    @property
    def text(self) -> str:
        """What is read of it by words."""
        return self.taken.text

    @property
    def images(self) -> Sequence[inside.Image]:
        """Those of them that hard rules let a model look at."""
        return self.taken.images if self.met.overrides.looks else ()

    @property
    def late(self) -> bool:
        """Whether it waits no longer for what its images show."""
        return self.opened.attempts > images.PATIENCE
