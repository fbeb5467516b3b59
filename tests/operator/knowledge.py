"""A knowledge base at wire level: HTTP in, the answers of the contract out, by words in the content. The outside.

It has the paths on which the operator and the sources process write. Those that a run reads are in
`tests/orchestrator_job/knowledge.py`, which answers in the event loop of its tests; a model that holds documents and
commits as their sources have them is `World` in `tests/sources/model.py`.

    INFO      information only                  ASSIGNED  assigned to us
    DEADLINE  actionable, deadline in 30 days   ASK       actionable
    INVALID   422 with field and remedy         (anything else: actionable)
    DIRECTIVE {...}: what follows is the directive of the answer, in JSON
    HINTS     {...}: fields of the hints; the directive is left to the operator

Links are those that `kb.extract.links_in_text` finds. Of a task about a link the word in its URL decides:

    unsubscribe  blocked                    away     its site does not answer
    unclear      a person is asked, whose answer decides
    (anything else: its page becomes a document)

Files that came with a task are taken, but those whose name says INVALID. Outcomes of finished tasks and the groups of
projects are noted.

`busy` answers 503 with Retry-After while it is set.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from codegraph import api as code_api
from kb import api
from kb.extract import links_in_text
from kb.links import reading
from tests import httpserver, waiting


class Knowledge(httpserver.Server):
    """Counts what it is asked. While the `gate` is closed, ingestion waits."""

    def __init__(self) -> None:
        self.requests: list[api.IngestRequest] = []
        self.code: dict[str, str] = {}
        """Contents of source files, by path."""
        self.links: list[api.LinkRequest] = []
        self.attached: list[api.AttachmentDraft] = []
        self.outcomes: list[api.Outcome] = []
        self.groups: dict[str, str] = {}
        self.stored: dict[str, bytes] = {}
        self.forgotten: list[str] = []
        self.commits: list[str] = []
        self.rules: list[api.Rule] = []
        self.parents: list[str | None] = []
        self.busy = False
        self.most_at_once = 0
        self.gate = threading.Event()
        self.gate.set()
        self._now = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """By method and path."""
        if request.method == "GET":  # the rules in force, for every scope
            return httpserver.reply(api.Rules(rules=self.rules).model_dump_json(by_alias=True))
        if request.method == "DELETE":  # a document, known or not
            [urn] = request.query.getall("sourceUrn")
            self.forgotten.append(urn)
            return web.Response(status=204)
        body = await request.read()
        self.parents.append(request.headers.get("traceparent"))
        others = {
            "/api/v1/ingest/attachment": self.attach,
            "/api/v1/ingest/link": self.link,
            "/api/v1/ingest/git-commits": self.commit,
            "/api/v1/ingest/git-structure": self.structure,
            "/api/v1/outcomes": self.outcome,
            "/api/v1/projects/regroup": self.regroup,
            "/api/v1/content": self.store,
        }
        taken = others.get(request.path)
        status, document = await self.ingest(body) if taken is None else taken(body)
        return httpserver.reply(document, status, {"Retry-After": "1"} if status == 503 else None)

    def commit(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Take commits."""
        asked = api.GitCommits.model_validate_json(body)
        hashes = [one.hash for one in asked.commits]
        self.commits += hashes
        outcomes = [{"hash": one, "sourceUrn": asked.repository.source_urn(one), "result": "Stored"} for one in hashes]
        return 200, {"outcomes": outcomes}

    def structure(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Take the source files of a branch; their contents are asked for once."""
        asked = code_api.GitStructure.model_validate_json(body)
        self.code |= {one.path: one.content for one in asked.files if one.content is not None}
        missing = [one.path for one in asked.files if one.path not in self.code]
        return 200, {"state": "Wanted" if missing else "Done", "commit": asked.commit, "missing": missing}

    async def ingest(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and document for one request."""
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            async with asyncio.timeout(waiting.PATIENCE):
                while not self.gate.is_set():  # noqa: ASYNC110  # tests open it from another thread
                    await asyncio.sleep(0.01)
            request = api.IngestRequest.model_validate_json(body)
            self.requests.append(request)
            if self.busy:
                return 503, {"error": {"code": "busy", "message": "the models are busy"}}
            text = request.content or ""
            if "INVALID" in text:
                problem = {"code": "invalid", "message": "no", "field": "kind", "remedy": "Choose another."}
                return 422, {"error": problem}
            return 200, self._reply(request, text)
        finally:
            self._now -= 1

    def link(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and document for the task of a link."""
        request = api.LinkRequest.model_validate_json(body)
        self.links.append(request)
        url = reading.stated(request.content or "").url
        words = {"unsubscribe": "Blocked", "away": "Unreachable", "unclear": "Unclear"}
        outcome = next((found for word, found in words.items() if word in url), "Indexed")
        if outcome == "Unclear" and request.answer is not None:
            outcome = "Indexed" if request.answer.value in ("Yes", "Always") else "Unsafe"
        asks = outcome == "Unclear"
        hints = api.Hints(
            has_actionable_content=asks,
            is_assigned_to_me=False,
            has_future_deadline=False,
            urgency="low",
            reason=f"{outcome} by rule.",
            questions=["May it be opened?"] if asks else [],
        )
        reply = api.IngestReply(
            source_urn=request.source_urn,
            replaced=False,
            chunk_ids=[],
            node_keys=[],
            edge_count=0,
            summary=f"{outcome}: {url}.",
            hints=hints,
            # As another document would have them: a link's task makes none.
            links=[api.Link(url=f"{url}/next")],
            link=api.LinkReport(url=url, outcome=api.LinkOutcome(outcome), reason=f"{outcome} by rule."),
        )
        return 200, _wire(reply)

    def attach(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and document for one file."""
        draft = api.AttachmentDraft.model_validate_json(body)
        self.attached.append(draft)
        if self.busy:
            return 503, {"error": {"code": "busy", "message": "Tika is busy"}}
        if "INVALID" in draft.name:
            problem = {"code": "invalid", "message": "the document has macros", "field": "body", "remedy": "Save it."}
            return 422, {"error": problem}
        reply = api.FileReply(
            id="d1",
            source_urn=api.attachment_urn(draft.attached_to, draft.name),
            replaced=False,
            chunk_ids=["a1"],
            queued=True,
            priority=3,
            media_type="text/plain",
            characters=5,
            title=draft.name,
            size=draft.content_ref.bytes,
        )
        return 202, _wire(reply)

    def store(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and document for a content that is to be stored."""
        if self.busy:
            return 503, {"error": {"code": "busy", "message": "the disk is busy"}}
        digest = hashlib.sha256(body).hexdigest()
        self.stored[digest] = body
        found: dict[str, Any] = api.ContentRef(key=digest, sha256=digest, bytes=len(body)).wire()
        return 201, found

    def outcome(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and document for what a finished task taught: worth remembering when it had steps."""
        outcome = api.Outcome.model_validate_json(body)
        if self.busy:
            return 503, {"error": {"code": "busy", "message": "the models are busy"}}
        self.outcomes.append(outcome)
        worth = bool(outcome.step_results) and outcome.error is None
        reply = api.OutcomeReply(remembered=worth, reason="by rule")
        return 200, _wire(reply)

    def regroup(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and document for a project that moves; `groups` has where each is."""
        where = api.Regroup.model_validate_json(body).scope
        moved = self.groups.get(where.project_id) != where.group_id
        self.groups[where.project_id] = where.group_id
        reply = api.Regrouped(documents=int(moved), vectors=int(moved))
        return 200, _wire(reply)

    @staticmethod
    def _reply(request: api.IngestRequest, text: str) -> dict[str, Any]:
        deadline = datetime.now(UTC) + timedelta(days=30)
        hints = api.Hints(
            has_actionable_content="INFO" not in text,
            is_assigned_to_me="ASSIGNED" in text,
            has_future_deadline="DEADLINE" in text,
            suggested_deadline=deadline if "DEADLINE" in text else None,
            urgency="normal",
            reason="by rule",
        )
        said = text.partition("DIRECTIVE ")[2]
        more = text.partition("HINTS ")[2]
        if more:
            hints = hints.model_copy(update=json.loads(more))
        reply = api.IngestReply(
            source_urn=request.source_urn,
            replaced=False,
            chunk_ids=["c1"],
            node_keys=["n1"],
            edge_count=1,
            summary="A summary.",
            hints=hints,
            directive=api.QualifierDirective.model_validate_json(said) if said else None,
            links=[api.Link(**vars(one)) for one in links_in_text.find(text, most=20)],
        )
        return _wire(reply)


def _wire(reply: api.Reply) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(reply.model_dump_json(by_alias=True))
    return document
