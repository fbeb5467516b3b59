"""The answers to requests: hints and directive with the last word of the rules, and what was stored of the document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from crds import errors as root
from kb import api, errors, metrics
from kb import hidden as unseen
from kb.extract import caller_facts, hints, links_in_text
from kb.extract.qualifier import phases, state
from kb.ingest import build, extractor, open_request, source
from kb.rules import enforce


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What models and rules say of a document: the rules have the last word in each field."""

    summary: str
    hints: api.Hints
    directive: api.QualifierDirective
    rules: list[api.RuleActed]

    def of(self, qualification: api.Qualification | None) -> api.Qualification | None:
        """The qualification with the routing decision that follows from the hints."""
        if qualification is None or qualification.routing_decision is None:
            return qualification
        routing = hints.lift(qualification.routing_decision, self.hints)
        return qualification.model_copy(update={"routing_decision": routing})


class Replies:
    """At most `links` of a document are listed. What is answered is counted."""

    def __init__(self, meters: metrics.Metrics, clock: Callable[[], datetime], *, links: int) -> None:
        self._meters, self._clock, self._links = meters, clock, links

    def left_out(
        self,
        begun: open_request.OpenRequest,
        judged: hints.Judgement | errors.Unusable,
        qualified: state.QualifierPipelineState,
    ) -> api.IngestReply:
        """To a request that a hard rule forbids to store."""
        failed = "The document is not stored, because a hard rule forbids it, and it could not be judged"
        verdict = self._verdict(judged, failed, begun.met)
        return api.IngestReply(
            source_urn=begun.request.source_urn,
            replaced=begun.opened.known,
            chunk_ids=[],
            node_keys=[],
            edge_count=0,
            summary=verdict.summary,
            hints=verdict.hints,
            directive=verdict.directive,
            problems=list(qualified.errors),
            qualification=verdict.of(qualified.qualification()),
            hidden=self.hidden(begun.text),
            rules=[*begun.met.unindexed, *verdict.rules],
            indexed=False,
        )

    def unstored(
        self,
        request: api.IngestRequest,
        qualified: phases.Qualified[extractor.ExtractionResult],
        superseded: api.Superseded,
        met: enforce.RuleMatches,
        *,
        replaced: bool,
    ) -> api.IngestReply:
        """To a request that is not the latest, or not any more.

        Models that failed are no error: repeated, a request without a time would undo what came after it.
        """
        failed = "A newer version or a deletion came, and this one could not be judged"
        verdict = self._verdict(qualified.judged, failed, met)
        return api.IngestReply(
            source_urn=request.source_urn,
            replaced=replaced,
            superseded_by=superseded,
            chunk_ids=[],
            node_keys=[],
            edge_count=0,
            summary=verdict.summary,
            hints=verdict.hints,
            directive=verdict.directive,
            qualification=verdict.of(qualified.state.qualification()),
            rules=verdict.rules,
            hidden=self.hidden(qualified.state.original_text),
        )

    async def stored(
        self,
        begun: open_request.OpenRequest,
        built: build.Built,
        judged: hints.Judgement | errors.Unusable,
        extracted: extractor.ExtractionResult,
        qualified: state.QualifierPipelineState,
    ) -> api.IngestReply:
        """To a request whose document is stored."""
        failed = "The document is stored, but it could not be judged"
        verdict = self._verdict(judged, failed, begun.met)
        # A linked page only mentions its links: nothing follows them.
        most = 0 if begun.request.kind == "link" else self._links
        linked = await asyncio.to_thread(links_in_text.find, begun.text, most=most, leaving=_leaving(begun.request))
        return api.IngestReply(
            source_urn=begun.request.source_urn,
            replaced=begun.opened.known,
            chunk_ids=list(built.patch.chunk_ids),
            node_keys=sorted({mention.node_key for mention in built.patch.mentions}),
            edge_count=len(built.edges),
            summary=verdict.summary,
            hints=verdict.hints,
            directive=verdict.directive,
            problems=[
                *source.unread(begun.text),
                *extracted.problems,
                *qualified.errors,
                *begun.taken.problems,
                *built.problems,
            ],
            qualification=verdict.of(qualified.created().qualification()),
            links=[api.Link(url=one.url, before=one.before, after=one.after) for one in linked],
            rules=verdict.rules,
            hidden=self.hidden(begun.text),
            earlier=begun.thread.sources(),
            answered=begun.thread.answered(qualified),
            duplicate=begun.like.reply() if begun.like else None,
        )

    def _verdict(self, judged: hints.Judgement | root.JervisError, failed: str, met: enforce.RuleMatches) -> _Verdict:
        """What a reply says of a document; `failed` begins the sentence for when models gave nothing."""
        now = self._clock()
        if isinstance(judged, root.JervisError):
            summary, noticed = "", hints.unknown(f"{failed}: {judged.message}")
        else:
            summary, noticed = judged.summary, hints.settle(judged, now)
        decided, rules = met.apply_rules(noticed)
        if decided.route is not None:
            self._meters.ruled.labels(decided.route).inc()
        return _Verdict(summary, decided, hints.direct(judged, decided, now), rules)

    def hidden(self, text: str) -> list[api.HiddenText]:
        """What is hidden in a text that was taken, listed and counted."""
        found = unseen.listed(text)
        for one in found:
            self._meters.hidden.labels(one.kind).inc()
        return [api.HiddenText(kind=one.kind, quote=one.quote) for one in found]


def _leaving(request: api.IngestRequest) -> list[str]:
    """The addresses by which the reader of a mail leaves its list, as its source states them."""
    told = caller_facts.of_document(request.nodes).get("listUnsubscribe", [])
    return [one for one in told if isinstance(one, str)] if isinstance(told, list) else []
