"""Ingestion: the requests to the knowledge base for a task's content and files, and a task's reading.

- The request is built from the task alone (pure); without a sourceUrn the task itself is the source.
- Attachments are ingested before the task is routed. A file that the knowledge base refuses (damaged, too large, a
  macro) does not stop the task; the condition `AttachmentsIngested` records it.
- While a service is unavailable the task waits. Files are left out after `PATIENCE` tries, and the condition records
  that.
- Content that is superseded, by that of a task created later for example, is not stored, nor are its files. The task
  goes on by its hints.
- A reading is one asyncio task, at most one per PendingTask. Its result is an observation.

Source: seed 000 "Qualification Loop (CPU)".
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from email import errors as mail_errors
from email.header import decode_header, make_header
from email.parser import HeaderParser
from typing import Any

import orjson
import pydantic
import structlog

import kube
from clients.mongo import Unavailable
from contracts import trace
from controllers import clients, tracing
from controllers.memory import document, mongo
from controllers.pendingtask import directive
from controllers.pendingtask.effects import answers, links, readings, repeats
from controllers.pendingtask.observed import Attached, Ingested, Observation, Reading, Ruled, Trouble, trouble
from controllers.pendingtask.policy import qualifying
from crds import conditions, errors, order, pendingtask, scope
from crds.pendingtask import Type
from crds.phases import Phase
from crds.priority import Priority
from kb import api, client

KINDS = {
    Type.EMAIL: "email",
    Type.WIKI: "wiki",
    Type.BUG_TRACKER: "issue",
    Type.GIT: "commit",
    Type.USER_INPUT: "user_input",
    Type.USER_TASK: "user_task",
    Type.SCHEDULED: "scheduled_task",
    Type.LINK: "link",
    Type.MEETING: "meeting",
}


def ingest_request(
    task: pendingtask.PendingTask, team: Sequence[str], instead_of: Sequence[str] = ()
) -> api.IngestRequest:
    """The ingestion of `task`. Without a sourceUrn the task itself is the source.

    `instead_of`: uids of tasks whose content it has too, and which came to nothing.
    """
    spec = task.spec
    ref = spec.content_ref
    return api.IngestRequest(
        scope=scope.Scope(client_id=spec.client_id, project_id=spec.project_id, group_id=spec.group_id),
        source_urn=content_source(task),
        kind=KINDS[spec.type],
        title=content_title(task)[:1000],
        content=spec.content,
        content_ref=api.ContentRef(key=ref.key, sha256=ref.sha256, bytes=ref.bytes) if ref else None,
        observed_at=task.metadata.creation_timestamp,
        team=list(team),
        attachments=attached_files(task),
        files=images(task),
        **_given(spec),
        access=spec.access,
        metadata={
            "taskUid": task.metadata.uid,
            "taskType": spec.type.value,
            "correlationId": spec.correlation_id,
        },
        task=repeats.origin(task, repeats.digest(content_title(task), spec), instead_of),
    )


def _given(spec: pendingtask.Spec) -> dict[str, Any]:
    """What the fields of the source item say, as the knowledge base takes it."""
    found = spec.facts.wire() if spec.facts is not None else {}
    return {name: found.get(name, []) for name in ("nodes", "relationships")}


_FACTS = ("nodes", "relationships")


def _in_spec(field: str) -> str:
    """A field of the request as the task has it."""
    return f"spec.facts.{field}" if field.startswith(_FACTS) else f"spec.{field}"


_INPUT = {
    "type", "client_id", "project_id", "group_id", "source_urn", "correlation_id",
    "content", "content_ref", "attachments", "facts", "access",
}  # fmt: skip


def content_digest(task: pendingtask.PendingTask) -> str:
    """SHA-256 of the fields that a reading depends on, and of the title. Other changes need no new reading."""
    # A link is read once more with a person's answer.
    more = {"answers", "messages"} if task.spec.type is Type.LINK else set()
    known = (content_title(task), task.spec.model_dump(mode="json", include=_INPUT | more))
    return hashlib.sha256(orjson.dumps(known, option=orjson.OPT_SORT_KEYS)).hexdigest()


def content_source(task: pendingtask.PendingTask) -> str:
    """The sourceUrn of the content; without one, that of the task itself."""
    return task.spec.source_urn or f"task::{task.metadata.uid}"


def attached_files(task: pendingtask.PendingTask) -> list[str]:
    """The names of the task's files in the knowledge base; equal names are distinguished by a number."""
    seen: Counter[str] = Counter()
    names = []
    for one in task.spec.attachments:
        seen[one.name] += 1
        names.append(one.name if seen[one.name] == 1 else f"{one.name[:245]} ({seen[one.name]})")
    return names


_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MOST_IMAGES = 50


def images(task: pendingtask.PendingTask) -> list[api.File]:
    """The images among the task's files, under the names that they have there; none where a task has waited too long
    for a model that looks at them."""
    if task.status.retry is not None and task.status.retry.count >= PATIENCE:
        return []
    named = zip(attached_files(task), task.spec.attachments, strict=True)
    return [
        api.File(name=name, content_ref=api.ContentRef(key=ref.key, sha256=ref.sha256, bytes=ref.bytes))
        for name, ref in ((name, one.content_ref) for name, one in named if _is_image(one))
    ][:_MOST_IMAGES]


def _is_image(one: pendingtask.Attachment) -> bool:
    """By what its sender says; the knowledge base looks at its bytes."""
    return one.media_type.casefold() in _IMAGES or one.name.casefold().endswith(
        (".png", ".jpg", ".jpeg", ".gif", ".webp")
    )


def content_title(task: pendingtask.PendingTask) -> str:
    """The annotation, or the Subject of a mail, or nothing."""
    named = task.metadata.annotations.get(document.TITLE_ANNOTATION, "")
    if named or task.spec.type is not Type.EMAIL:
        return named
    return _header(task, "Subject")


def _header(task: pendingtask.PendingTask, name: str) -> str:
    """Of a mail that is in the task itself, decoded. Addresses are not parsed: a hostile one's would take minutes."""
    try:
        raw = HeaderParser().parsestr(task.spec.content or "").get(name, "")
        said = " ".join(str(make_header(decode_header(raw))).split())
        # Some charsets spell what is no letter; it would cost the whole request.
        return said.encode("utf-8", "replace").decode()
    except (mail_errors.MessageError, ValueError, LookupError):
        # A header that cannot be decoded is left out.
        return ""


def link_source(task: pendingtask.PendingTask) -> dict[str, str]:
    """What the task of a link knows about the document that has it."""
    sender = _header(task, "From") if task.spec.type is Type.EMAIL else ""
    return {
        "source_urn": content_source(task),
        "source_kind": KINDS[task.spec.type],
        "subject": content_title(task)[:1000],
        "sender": sender[:320],
    }


SUPERSEDED: Mapping[api.Superseded, str] = {
    "Version": "The knowledge base has a newer version of the content, so this one is not stored.",
    "Deletion": "The content was deleted from the knowledge base while it was read.",
}
PATIENCE = 8
"""Tries of a task's qualification after which what is unavailable is left out (the reader of a file, tasks that a quota
refuses): about fifteen minutes."""
LINK_PATIENCE = 4
"""Tries after which the site of a link is left: a minute and a quarter. Most of those that are away then stay away, and
each try takes a place at the qualifier."""


def file_drafts(task: pendingtask.PendingTask) -> list[api.AttachmentDraft]:
    """One per file; the names are unique (`attached_files`), so no file replaces another."""
    spec = task.spec
    made = []
    for one, name in zip(spec.attachments, attached_files(task), strict=True):
        ref = one.content_ref
        made.append(
            api.AttachmentDraft(
                scope=scope.Scope(client_id=spec.client_id, project_id=spec.project_id, group_id=spec.group_id),
                attached_to=content_source(task),
                name=name,
                content_ref=api.ContentRef(key=ref.key, sha256=ref.sha256, bytes=ref.bytes),
                title=content_title(task)[:700],
                observed_at=task.metadata.creation_timestamp,
                looks=task.status.retry is None or task.status.retry.count < PATIENCE,
            )
        )
    return made


async def ingest_files(kb: client.Client, task: pendingtask.PendingTask, urgency: Priority) -> Attached:
    """Send every file. Raises `kb.client.Unavailable` for the first `PATIENCE` tries."""
    tried = task.status.retry.count if task.status.retry else 0
    chunk_ids: list[str] = []
    refused: list[tuple[str, str]] = []
    partly: list[tuple[str, str]] = []
    away = False
    for draft in file_drafts(task):
        try:
            reply = await kb.learning.attachment(draft, urgency=urgency)
        except client.Rejected as error:
            remedy = f" {error.remedy}" if error.remedy else ""
            refused.append((draft.name, f"{error.message}.{remedy}"))
        except client.Unavailable as error:
            if tried < PATIENCE:
                raise
            away = True
            refused.append((draft.name, f"{error.message} (after {tried} tries)"))
        else:
            chunk_ids += [*reply.chunk_ids, *(chunk_id for one in reply.images for chunk_id in one.chunk_ids)]
            if reply.problems:
                partly.append((draft.name, "; ".join(reply.problems)))
    return Attached(tuple(chunk_ids), tuple(refused), away, tuple(partly))


log = structlog.get_logger(__name__)

Fetch = Callable[[str], Awaitable[pendingtask.PendingTask | None]]


class Qualifier:
    """`fetch` reads the whole task from the API, `cluster` creates those of links, of which a client has `linking`
    unfinished ones; `done(uid, observation)` is called in the loop at the end."""

    def __init__(
        self,
        kb: client.Client,
        memory: mongo.Memory,
        *,
        readings: readings.Readings,
        known: clients.Clients,
        archived: repeats.Archived,
        find: answers.Find,
        fetch: Fetch,
        done: Callable[[str, Observation | None], None],
        clock: Callable[[], datetime],
        cluster: kube.Kube,
        linking: Callable[[str], int] = lambda client_id: 0,
    ) -> None:
        self._linking = linking
        self._cluster, self._archived, self._find = cluster, archived, find
        self._kb, self._memory, self._clients = kb, memory, known
        self._fetch, self._done, self._clock, self._readings = fetch, done, clock, readings

    def start(
        self, uid: str, raw: kube.Object | None = None, before: Observation | None = None, after: float = 0.0
    ) -> None:
        """Start a reading after `after` seconds, unless one is in progress.

        `raw` is the whole task as the API has just served it; without it the task is fetched. `before` is the result
        of a reading of an earlier generation; it is used again if the input is the same.
        """
        if uid not in self._readings:
            self._readings.start(uid, self._run(uid, raw, before, after))

    async def _run(self, uid: str, raw: kube.Object | None, before: Observation | None, after: float) -> None:
        found: Observation | None = None
        try:
            await asyncio.sleep(after)
            found = await self._read(uid, raw, before)
        except errors.JervisError as error:
            found = trouble(error)
        except Exception as error:
            log.exception("qualification failed", uid=uid)
            found = _bug(error)
        finally:
            self._readings.end(uid)
        self._done(uid, found)

    async def _read(self, uid: str, raw: kube.Object | None, before: Observation | None) -> Observation | None:
        task = await self._fetch(uid) if raw is None else pendingtask.PendingTask.model_validate(raw)
        if task is None:
            return None
        generation, digest = task.metadata.generation, content_digest(task)
        if isinstance(before, Ingested) and before.digest == digest:
            return replace(before, generation=generation)
        try:
            found = await self._ingest(uid, task)
        except client.Rejected as error:
            of_facts = error.field is not None and error.field.startswith(_FACTS)
            found = replace(trouble(error), field=_in_spec(error.field) if of_facts and error.field else error.field)
        except errors.JervisError as error:
            found = trouble(error)
        except Exception as error:
            log.exception("qualification failed", uid=uid)
            found = _bug(error)
        return replace(found, generation=generation, digest=digest)

    async def _ingest(self, uid: str, task: pendingtask.PendingTask) -> Reading:
        tracing.current.set(trace.parent(uid) if task.status.trace_id else "")
        urgency = Priority.P0 if order.foreground(task.spec) else Priority.P3
        stored = pendingtask.stored_content(task)
        task = task.model_copy(update={"spec": task.spec.model_copy(update={"content_ref": stored})})
        if task.spec.git is not None and task.spec.content is None and stored is None:
            files = await ingest_files(self._kb, task, urgency) if task.spec.attachments else None
            return replace(_analyzed(task), attached=files)
        if task.spec.type in qualifying.CHAT:
            # A question is no knowledge; its attachments are.
            asked = pendingtask.Hints(has_actionable_content=True)
            return Ingested(hints=asked, attached=await ingest_files(self._kb, task, urgency))
        try:
            request = ingest_request(task, self._clients.of(task.spec.client_id).team)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = _in_spec(".".join(str(part) for part in first["loc"]))
            why = first["msg"].removeprefix("Value error, ")
            return Trouble(f"the content cannot be ingested: {why}", operational=False, field=where)
        tried = task.status.retry.count if task.status.retry else 0
        if task.spec.type is Type.LINK:
            reply = await self._kb.links.read(links.request(task, request), urgency=urgency)
            away = reply.link is not None and reply.link.outcome is api.LinkOutcome.UNREACHABLE
            if reply.link is not None and away and tried < LINK_PATIENCE:
                return Trouble(f"{reply.link.url} cannot be read now: {reply.link.reason}", operational=True)
        else:
            reply = await self._kb.ingest(request, urgency=urgency)
            nothing: list[str] = []
            while (of := reply.repeats) is not None:
                ended = await repeats.settled(self._cluster, self._archived, task, of)
                if isinstance(ended, Trouble):
                    return ended
                if ended is not None:
                    return replace(ingested(reply), repeats=ended)
                if of.task_uid in nothing or len(nothing) == api.MOST_INSTEAD:
                    return Trouble(f"the content came with {len(nothing)} tasks that came to nothing", operational=True)
                # By its uid: another task that takes this one's place meanwhile is waited for.
                nothing.append(of.task_uid)
                request = ingest_request(task, request.team, nothing)
                reply = await self._kb.ingest(request, urgency=urgency)
        # The files belong to the version that they came with: they would stay behind a newer one, or a deletion.
        # Nor are they stored when a rule forbids to store the content.
        wanted = task.spec.attachments and reply.superseded_by is None and reply.indexed
        attached = await ingest_files(self._kb, task, urgency) if wanted else None
        found = ingested(reply, attached)
        # Before the route is persisted: afterwards the knowledge base is not asked for these again.
        now, lead = self._clock(), self._clients.of(task.spec.client_id).lead
        chosen = directive.choose(task.spec.type, found, lead=lead, now=now)
        findings = document.of_findings(
            task,
            found.summary,
            found.node_keys,
            found.chunk_ids,
            now,
            facts=facts(task, found),
            decision=chosen.decision,
            reason=chosen.reason,
        )
        try:
            await self._memory.write(uid, findings)
        except Unavailable as error:
            # No run and no person goes on from the memory of a task that is done: it does not wait for MongoDB.
            if chosen.phase is not Phase.DONE:
                raise
            log.warning("the task has no memory", uid=uid, why=error.message)
        by = (task, content_source(task))
        if trouble := await answers.supersede(reply.answered, *by, find=self._find, observed=self._done):
            return trouble
        if task.spec.type not in links.HOLDERS:
            return found
        # Before the route is persisted, as above: a repeated reading finds those that were created.
        linked = await links.make(
            self._cluster,
            task,
            reply.links,
            link_source(task),
            patient=tried < PATIENCE,
            waiting=self._linking(task.spec.client_id),
        )
        return replace(found, linked=linked)


def ingested(reply: api.IngestReply, attached: Attached | None = None) -> Ingested:
    """A reply of the knowledge base as an observation. One without a directive says in its hints what is needed."""
    return Ingested(
        hints=stored_hints(reply.hints),
        reason=reply.hints.reason,
        summary=reply.summary,
        chunk_ids=(
            *reply.chunk_ids,
            *(chunk_id for one in reply.images for chunk_id in one.chunk_ids),
            *(attached.chunk_ids if attached else ()),
        ),
        node_keys=tuple(reply.node_keys),
        attached=attached,
        directive=reply.directive or reply.hints.directive(),
        superseded=SUPERSEDED[reply.superseded_by] if reply.superseded_by else "",
        forbidden=_forbidden(reply),
        ruled=_ruled(reply),
        unread=reply.link is not None and reply.link.outcome is api.LinkOutcome.UNCLEAR,
        hidden=tuple(f"{one.kind}: {one.quote}" for one in reply.hidden),
        similar=repeats.similar(reply),
        answers=answers.sentence(reply.answered),
    )


def facts(task: pendingtask.PendingTask, found: Ingested) -> dict[str, object]:
    """What qualification knows of a task beside its summary, for `structuredData` of its memory."""
    deadline = found.hints.suggested_deadline
    return {
        "title": content_title(task),
        "urgency": found.hints.urgency,
        "assignedToUs": found.hints.is_assigned_to_me,
        "deadline": deadline.isoformat() if deadline else "",
        "files": attached_files(task),
        "tags": found.directive.tags if found.directive else (),
    }


def _analyzed(task: pendingtask.PendingTask) -> Ingested:
    """Of a task that only wanted its repository analyzed: nothing is read, and what became of that is its result."""
    said = conditions.find(task.status.conditions, pendingtask.CODE_ANALYZED)
    text = said.message if said is not None else ""
    return Ingested(hints=pendingtask.Hints(), reason="Only the analysis of a repository was asked for.", summary=text)


def _forbidden(reply: api.IngestReply) -> str:
    if reply.indexed:
        return ""
    return f"The content is not stored, because a hard rule forbids it: {'; '.join(_named(reply))[:500]}."


def _named(reply: api.IngestReply) -> tuple[str, ...]:
    return tuple(f"{one.rule_key} (version {one.version}): {one.effect}" for one in reply.rules)


def _ruled(reply: api.IngestReply) -> Ruled | None:
    found = reply.hints
    if found.route is None:
        return None
    decision = pendingtask.Decision(found.route)
    return Ruled(decision, _named(reply), found.defer_minutes, tuple(found.questions), found.failure)


def _bug(error: Exception) -> Trouble:
    """The error for a bug in a reading: it is recorded in the status, where a person sees it."""
    return Trouble(f"qualification failed: {error!r}", operational=False, remedy="Report it with the logs.")


def stored_hints(found: api.Hints) -> pendingtask.Hints:
    """The hints as the status stores them. A deadline out of range (a model's 9999-12-31) is left out."""
    fields = found.model_dump()
    try:
        return pendingtask.Hints.model_validate(fields)
    except pydantic.ValidationError as error:
        log.info("deadline left out", reason=str(error.errors(include_url=False)[0]["msg"]))
        return pendingtask.Hints.model_validate({**fields, "has_future_deadline": False, "suggested_deadline": None})
