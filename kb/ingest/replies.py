"""The answers to requests: hints and directive with the last word of the rules, and what was stored of the document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from crds import errors as root
from kb import api, errors, metrics
from kb import hidden as unseen
from kb.ingest import extractor, graph_builder, opening, source
from kb.links import extract
from kb.qualify import graph, state
from kb.reading import hints
from kb.rules import enforce


class Replies:
    """At most `links` of a document are listed. What is answered is counted."""

    def __init__(self, meters: metrics.Metrics, clock: Callable[[], datetime], *, links: int) -> None:
        self._meters, self._clock, self._links = meters, clock, links

    def left_out(
        self,
        begun: opening.Begun,
        judged: hints.Judgement | errors.Unusable,
        qualified: state.QualifierPipelineState,
    ) -> api.IngestReply:
        """To a request that a hard rule forbids to store."""
        failed = "The document is not stored, because a hard rule forbids it, and it could not be judged"
        summary, found, acted = self._judgement(judged, failed, begun.met)
        return api.IngestReply(
            source_urn=begun.request.source_urn,
            replaced=begun.opened.known,
            chunk_ids=[],
            node_keys=[],
            edge_count=0,
            summary=summary,
            hints=found,
            directive=hints.direct(judged, found, self._clock()),
            problems=list(qualified.errors),
            qualification=qualified.qualification(),
            hidden=self.hidden(begun.text),
            rules=[*begun.met.unindexed, *acted],
            indexed=False,
        )

    def unstored(
        self,
        request: api.IngestRequest,
        qualified: graph.Qualified[extractor.ExtractionResult],
        superseded: api.Superseded,
        met: enforce.Met,
        *,
        replaced: bool,
    ) -> api.IngestReply:
        """To a request that is not the latest, or not any more.

        Models that failed are no error: repeated, a request without a time would undo what came after it.
        """
        failed = "A newer version or a deletion came, and this one could not be judged"
        summary, found, acted = self._judgement(qualified.judged, failed, met)
        return api.IngestReply(
            source_urn=request.source_urn,
            replaced=replaced,
            superseded_by=superseded,
            chunk_ids=[],
            node_keys=[],
            edge_count=0,
            summary=summary,
            hints=found,
            directive=hints.direct(qualified.judged, found, self._clock()),
            qualification=qualified.state.qualification(),
            rules=acted,
            hidden=self.hidden(qualified.state.original_text),
        )

    async def stored(
        self,
        begun: opening.Begun,
        built: graph_builder.Built,
        judged: hints.Judgement | errors.Unusable,
        extracted: extractor.ExtractionResult,
        qualified: state.QualifierPipelineState,
    ) -> api.IngestReply:
        """To a request whose document is stored."""
        failed = "The document is stored, but it could not be judged"
        summary, found, acted = self._judgement(judged, failed, begun.met)
        # A linked page only mentions its links: nothing follows them.
        most = 0 if begun.request.kind == "link" else self._links
        linked = await asyncio.to_thread(extract.find, begun.text, most=most)
        return api.IngestReply(
            source_urn=begun.request.source_urn,
            replaced=begun.opened.known,
            chunk_ids=list(built.patch.chunk_ids),
            node_keys=sorted({mention.node_key for mention in built.patch.mentions}),
            edge_count=len(built.edges),
            summary=summary,
            hints=found,
            directive=hints.direct(judged, found, self._clock()),
            problems=[
                *source.unread(begun.text),
                *extracted.problems,
                *qualified.errors,
                *begun.taken.problems,
                *built.problems,
            ],
            qualification=qualified.created().qualification(),
            links=[api.Link(url=one.url, before=one.before, after=one.after) for one in linked],
            rules=acted,
            hidden=self.hidden(begun.text),
            earlier=begun.thread.sources(),
            answered=begun.thread.answered(qualified),
            duplicate=begun.like.reply() if begun.like else None,
        )

    def _judgement(
        self, judged: hints.Judgement | root.JervisError, failed: str, met: enforce.Met
    ) -> tuple[str, api.Hints, list[api.RuleActed]]:
        """Summary, hints, and the rules that changed them; `failed` begins the sentence for when models gave none."""
        if isinstance(judged, root.JervisError):
            summary, found = "", hints.unknown(f"{failed}: {judged.message}")
        else:
            summary, found = judged.summary, hints.settle(judged, self._clock())
        found, acted = met.settle(found)
        if found.route is not None:
            self._meters.ruled.labels(found.route).inc()
        return summary, found, acted

    def hidden(self, text: str) -> list[api.HiddenText]:
        """What is hidden in a text that was taken, listed and counted."""
        found = unseen.listed(text)
        for one in found:
            self._meters.hidden.labels(one.kind).inc()
        return [api.HiddenText(kind=one.kind, quote=one.quote) for one in found]
