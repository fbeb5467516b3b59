"""One pass: documents are ingested one after the other, as a task's is, and what was stored of each is read back."""

from __future__ import annotations

import collections
import math
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.qualify import site, spy
from bench.real import corpus, facts, naming, sent
from crds import scope
from kb import api, client
from kb.extract import document_node
from tests.kb import calls

OWNER = scope.Scope(client_id="bench", project_id="real")
_TRIES = 3
_ANSWERS = "jervis_kb_model_answers_total{"


@dataclass(frozen=True)
class Outcome:
    """What became of a document. `failed` is why it could not be ingested."""

    document: corpus.Document
    counted: facts.Counted
    seconds: float
    calls: Sequence[spy.Call]
    failed: str = ""


async def run(
    place: site.Site,
    documents: Sequence[corpus.Document],
    say: Callable[[str], None],
    keep: Callable[[corpus.Document, spy.Call], None],
    *,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """The figures of all documents; of as many as there were when `seconds` were over. `say` is told of each, `keep` is
    given each call of a model."""
    before, started = await _read(place), time.perf_counter()
    outcomes: list[Outcome] = []
    for document in documents:
        if time.perf_counter() - started > seconds:
            break
        outcomes.append(await _one(place, document))
        say(f"{len(outcomes)} of {len(documents)}: {_said(outcomes[-1])}")
        for call in outcomes[-1].calls:
            keep(document, call)
    chats = [call for outcome in outcomes for call in outcome.calls]
    read = await _read(place)
    usable, invalid = (read[origin] - before[origin] for origin in ("model", "invalid"))
    return {
        "documents": len(outcomes),
        "failed": [f"{one.document.urn}: {one.failed}" for one in outcomes if one.failed],
        "asSent": sent.count(chats),
        "usableShare": round(usable / (usable + invalid), 4) if usable else None,
        "triesPerAnswer": round((usable + invalid) / usable, 3) if usable else None,
        "facts": _facts(outcomes),
        "factsByLanguage": {
            language: _facts([one for one in outcomes if one.document.language == language])
            for language in sorted({one.document.language for one in outcomes})
        },
        "perTask": {
            "calls": round(len(chats) / len(outcomes), 2),
            "promptTokens": round(sum(call.prompt_tokens for call in chats) / len(outcomes)),
            "answerTokens": round(sum(call.answer_tokens for call in chats) / len(outcomes)),
            "seconds": round(statistics.fmean(one.seconds for one in outcomes), 2),
            "secondsLongest": round(max(one.seconds for one in outcomes), 2),
            "longestCallSeconds": round(max((call.seconds for call in chats), default=0.0), 2),
        },
    }


def _said(outcome: Outcome) -> str:
    answers = (f"{call.tag} {call.seconds:.0f} s {sent.problem(call)}".strip() for call in outcome.calls if call.shape)
    stored = f"{outcome.counted.stored} facts, {outcome.counted.invented} invented"
    return f"{outcome.document.urn}: {stored}; {', '.join(answers)}{outcome.failed and f'; {outcome.failed}'}"


async def _one(place: site.Site, document: corpus.Document) -> Outcome:
    before, started, failed = len(place.spy.calls), time.perf_counter(), ""
    stored: list[facts.Stored] = []
    request = api.IngestRequest(
        scope=OWNER, source_urn=document.urn, kind=document.kind, title=document.title, content=document.content
    )
    for _ in range(_TRIES):
        try:
            reply = await place.kb.ingest(request)
        except client.Unavailable as error:
            failed = error.message
        except client.Rejected as error:
            failed = error.message
            break
        else:
            failed = "; ".join(reply.problems)
            stored = await read_back(place.kb, document, reply)
            break
    seconds = time.perf_counter() - started
    calls = [call for call in place.spy.calls[before:] if call.path in spy.CHATS]
    return Outcome(document, facts.count(document, stored), seconds, calls, failed)


async def read_back(kb: client.Client, document: corpus.Document, reply: api.IngestReply) -> list[facts.Stored]:
    """The relationships between names that this document proves; those of the document itself (who sent it, what it
    mentions) are not counted: the program makes them of its head and of the names."""
    edges: dict[tuple[str, str, str], facts.Stored] = {}
    names: dict[str, str] = {}
    own = document_node.derive(document.urn, document.kind, OWNER).key
    for key in reply.node_keys:
        listed = await calls.relationships(kb, OWNER, source=key)
        for one in listed.relationships:
            proofs = tuple(proof.sentence for proof in one.evidence if proof.source_urn == document.urn)
            if not proofs or own in (one.source, one.target):
                continue
            for end in (one.source, one.target):
                if end not in names:
                    names[end] = await _called(kb, end, document)
            stored = facts.Stored(names[one.source], one.type, names[one.target], proofs)
            if not facts.of_itself(document, stored):
                edges[one.source, one.type, one.target] = stored
    return list(edges.values())


async def _called(kb: client.Client, key: str, document: corpus.Document) -> str:
    """The name that the document has for a node: another document may have another one."""
    listed = await kb.looking.nodes(OWNER, text=key)
    names = [name for node in listed.nodes if node.key == key for name in node.names] or [key.rpartition(":")[2]]
    return next((name for name in names if naming.names(document.content, name)), names[0])


def _facts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    return {
        name: sum(getattr(one.counted, name) for one in outcomes)
        for name in ("planted", "recalled", "stored", "invented", "unnamed", "unplanted")
    }


async def _read(place: site.Site) -> collections.Counter[str]:
    """Structured answers that the knowledge base has read so far, by origin: `model` after repairs, `invalid` not."""
    found: collections.Counter[str] = collections.Counter()
    for line in (await place.http.get(f"{place.url}/metrics")).text.splitlines():
        if line.startswith(_ANSWERS) and (origin := re.search(r'origin="(\w+)"', line)):
            found[origin[1]] += int(float(line.rpartition(" ")[2]))
    return found
