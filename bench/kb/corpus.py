"""Corpora for retrieval: files of JSON lines, and what an ingest of them replays instead of asking a model."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from bench.kb import copies, names, replay
from crds import scope
from kb import api
from kb.extract import answers, draft, extraction

OWNER = scope.Scope(client_id="bench")
PREFIX = "bench:"
HALVES = ("choose", "report")
# A chat says when it was in its first line: "Time: 20260409_08:38".
_TIME = re.compile(r"^Time: (\d{8})_(\d{2}:\d{2})$", re.MULTILINE)


@dataclass(frozen=True)
class Question:
    """`gold`: ids of the passages that answer it; one is enough where `any_of` says so.

    Weights are chosen on the questions of half "choose" and reported on the others, so that no figure is of what it
    was chosen on. The half follows from the id alone: it stays when questions are added.
    """

    text: str
    gold: frozenset[str]
    any_of: bool
    half: str


@dataclass(frozen=True)
class Corpus:
    """Passages as requests, by id, and OpenIE triples by passage where there are any.

    `types`: how many types the replayed extraction gives to one thing (`bench.kb.replay.typing`).
    """

    requests: Mapping[str, api.IngestRequest]
    triples: Mapping[str, dict[str, Any]]
    types: int = 1

    def part(self, passages: Iterable[str]) -> Corpus:
        """Some of the passages, by their ids."""
        return Corpus({passage: self.requests[passage] for passage in passages}, self.triples, self.types)

    async def replay(self, shelf: answers.Shelf, model: str, today: date, *, size: int, overlap: int) -> None:
        """Put on the shelf what the model would have answered: the triples, or names found by a rule."""
        for request in self.requests.values():
            made = draft.make(request, request.content or "", size=size, overlap=overlap)
            found = {ordinal: self.extraction(request, piece.chunk.text) for ordinal, piece in enumerate(made.pieces)}
            await replay.keep(shelf, model, request, found, today, size=size, overlap=overlap)

    def extraction(self, request: api.IngestRequest, text: str) -> extraction.Extraction:
        """What the model would have answered about a chunk of the passage."""
        row, typed = self.triples.get(request.source_urn.removeprefix(PREFIX)), replay.typing(text, self.types)
        if row:
            return replay.from_triples(row["entities"], row["triples"], typed)
        return replay.from_names(names.find(request.title, text), typed)


def load(corpus: Path, triples: Path | None, *, limit: int = 0, times: int = 1, types: int = 1) -> Corpus:
    """Read `{id, title, text}` and `{passage, entities, triples}` lines; the first `limit` passages (0: all).

    The whole `times` times over (see `bench.kb.copies`); triples name what only the original names.
    """
    if times > 1 and triples:
        raise ValueError("a corpus with triples cannot be copied: leave --triples or --copies out")
    rows = _read(corpus)
    kept = rows[:limit] if limit else rows
    requests = {_copied(row["id"], copy): _request(row, copy) for copy in range(times) for row in kept}
    return Corpus(requests, {row["passage"]: row for row in _read(triples)} if triples else {}, types)


def questions(path: Path, *, limit: int = 0, half: str = "all", answerable: bool = True) -> list[Question]:
    """Read `{id, question, gold}` lines: those with an answer in the corpus, or those without one.

    `half`: "choose", "report" or "all" (see `Question`).
    """
    rows = [row for row in _read(path) if bool(row["gold"]) is answerable]
    found = [
        Question(row["question"], frozenset(row["gold"]), bool(row.get("any_of")), half_of(str(row["id"])))
        for row in rows
    ]
    kept = [question for question in found if half in ("all", question.half)]
    return kept[:limit] if limit else kept


def half_of(question_id: str) -> str:
    """The half that a question belongs to."""
    return HALVES[hashlib.sha256(question_id.encode()).digest()[0] % 2]


def _copied(passage: str, copy: int) -> str:
    return f"{passage}#{copy}" if copy else passage


def _request(row: dict[str, Any], copy: int) -> api.IngestRequest:
    said = _TIME.search(row["text"])
    observed = datetime.strptime(" ".join(said.groups()), "%Y%m%d %H:%M").replace(tzinfo=UTC) if said else None
    return api.IngestRequest(
        scope=OWNER,
        source_urn=f"{PREFIX}{_copied(row['id'], copy)}",
        kind="chat" if said else "wiki_page",
        title=copies.mark(row["title"], copy),
        content=copies.mark(row["text"], copy),
        observed_at=observed,
    )


def _read(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return [json.loads(line) for line in text.split("\n") if line]
