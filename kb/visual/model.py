"""The values of pages: what is stored of one, what a model makes of it, and what a search finds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from crds import scope
from kb import api, identity
from kb.files import pages

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Grid:
    """Which of a page's vectors are its patches: `rows` x `columns` of them, row by row, from vector `first` on."""

    rows: int
    columns: int
    first: int = 0

    @property
    def size(self) -> int:
        """How many patches there are."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Embedded:
    """A page's vectors, [tokens, dimension] with one unit vector per token; `grid` is None where none is known."""

    vectors: Array
    grid: Grid | None = None


@dataclass(frozen=True)
class Query:
    """A question's vectors, [tokens, dimension], and what the tokens are called, where the model says so."""

    vectors: Array
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """The document that pages belong to, in one version: `revision` is that of the graph (`kb.graph.model.Version`),
    `digest` the SHA-256 of the file that is drawn."""

    owner: scope.Scope
    document_id: str
    source_urn: str
    title: str
    media_type: str
    revision: str
    digest: str

    @property
    def id(self) -> str:
        """Of the work on it: another version, or another file, is another work."""
        return identity.page_work(self.document_id, self.revision, self.digest)

    def page_id(self, number: int) -> str:
        """Id of one of its pages."""
        return identity.page(self.id, number)


@dataclass(frozen=True)
class Work:
    """What is to be done, or was done, for a document. `done` of `count` pages were looked at; 0 until it is known.

    `model`: whose vectors the pages have; "" for none. `file`: the file, until all of its pages are drawn. `claim`:
    whose it is now, "" for no one's. `attempts`: claims since the last progress that ended without a word, as those of
    a process that dies do; `pauses`: how often since then something was away, the last time for the reason `waits`.
    """

    source: Source
    state: str
    model: str
    file: api.ContentRef | None
    count: int = 0
    done: int = 0
    attempts: int = 0
    next_at: datetime | None = None
    problems: tuple[str, ...] = ()
    claim: str = ""
    pauses: int = 0
    waits: str = ""
    updated_at: datetime | None = None


@dataclass(frozen=True)
class Page:
    """What is stored of a page in MongoDB. `vectors` are all of its vectors, not pooled; empty without a model."""

    id: str
    source: Source
    number: int
    image: api.ContentRef
    width: float
    height: float
    words: tuple[pages.Word, ...]
    figures: bool
    model: str = ""
    vectors: Array = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    grid: Grid | None = None

    @property
    def text(self) -> str:
        """Its own words in order."""
        return " ".join(one.text for one in self.words)


@dataclass(frozen=True)
class Indexed:
    """What the index knows of a page: `vectors` are pooled; `seen_only`: it has little text of its own, or figures."""

    id: str
    source: Source
    number: int
    text: str
    seen_only: bool
    vectors: Array


@dataclass(frozen=True)
class Hit:
    """A page that the index found. `score` is MaxSim over the pooled vectors, or BM25."""

    page_id: str
    document_id: str
    owner: scope.Scope
    score: float


@dataclass(frozen=True)
class Stored:
    """What the comparison of the stores sees of an indexed page."""

    page_id: str
    document_id: str
    work_id: str
    owner: scope.Scope


Scores = Mapping[str, float]
