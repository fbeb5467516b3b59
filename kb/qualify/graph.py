"""The phases of the graph (seed 003): vision, content type, details, extraction, indexing, chunks, routing.

It always reaches its end. An answer that no model gives in a usable form is replaced by what can be read without one
and recorded in the state; an operational error skips the phases that are left and is given back, so that the document
waits. Chunks are read while the other phases run, unless the type may make them needless (a log).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar, cast

from crds import errors as root
from crds import priority, scope
from kb import api, errors, hidden, identity, metrics
from kb.content import store as content
from kb.files import image, inside, vision
from kb.qualify import language, room, state
from kb.qualify.tools import calling
from kb.reading import anchor, answers, base_node, draft, extraction, hints, mail, prompt, typed
from kb.rules import enforce, steering

MOST_CALLS = 10
"""Model calls for a chunk (seed 003 "No infinite loops"); today twice `answers.ATTEMPTS` are the bound."""
TYPE, DETECT, EMAIL, JIRA = "type/v1", "detect/v2", "email/v2", "jira/v2"
_THREADED = frozenset({DETECT, EMAIL, JIRA})
_LOOKS = 4
"""Images that are looked at at once."""
_SEEN_CHARS = 6000
_Shape = TypeVar("_Shape", bound=hints.Judgement)
_Type = api.ContentType
_Phase = api.QualifierPhase


class Extracted(Protocol):
    """What was said in the chunks of a draft."""

    @property
    def problems(self) -> list[str]:
        """The passages that nothing usable was said about."""
        ...

    @property
    def extractions(self) -> Mapping[str, extraction.Extraction]:
        """By chunk id."""
        ...


_E = TypeVar("_E", bound=Extracted)


@dataclass
class Run:
    """One run: what is asked about, and what the phases share beside the state."""

    request: api.IngestRequest
    text: str
    made: draft.Draft
    urgency: priority.Priority
    read: Callable[[draft.Draft, answers.Spent], Awaitable[Extracted]]
    monotonic: Callable[[], float]
    told: Sequence[str] = ()
    steer: steering.Steering = steering.NONE
    earlier: str = ""
    stopped: root.JervisError | None = None
    unjudged: errors.Unusable | None = None
    chunks: asyncio.Task[Extracted | root.JervisError] | None = None
    chunks_spent: answers.Spent = field(default_factory=answers.Spent)
    chunk_seconds: float = 0.0

    @property
    def sight(self) -> priority.Priority:
        """Images are looked at before what runs in the background: a document waits for them."""
        return min(self.urgency, priority.Priority.P2)

    def start_chunks(self) -> None:
        """Have the chunks read from now on."""
        if self.chunks is None:
            self.chunks = asyncio.create_task(self._read_chunks())

    async def forget_chunks(self) -> None:
        """What is still being read of the chunks is not needed any more."""
        if self.chunks is not None:
            self.chunks.cancel()
            await asyncio.gather(self.chunks, return_exceptions=True)
            self.chunks = None

    async def _read_chunks(self) -> Extracted | root.JervisError:
        since = self.monotonic()
        try:
            return await self.read(self.made, self.chunks_spent)
        except root.JervisError as error:
            return error
        finally:
            self.chunk_seconds = self.monotonic() - since

    @property
    def derived(self) -> anchor.Anchor:
        """What the sourceUrn calls the document."""
        return anchor.derive(self.request.source_urn, self.request.kind, self.request.scope)


@dataclass(frozen=True)
class Qualified(Generic[_E]):
    """What the phases came to. `judged` and `extracted` are errors where models gave nothing.

    `made` is the draft that is to be committed: with the base node, and of a log with other chunks.
    """

    judged: hints.Judgement | root.JervisError
    extracted: _E | root.JervisError
    made: draft.Draft
    state: state.QualifierPipelineState


@dataclass(frozen=True)
class Eyes:
    """How images are looked at: of at most `limit` bytes each, from `content`, by one of `models`, in `room`."""

    models: vision.Models
    content: content.Store
    limit: int
    room: room.Room = field(default_factory=room.Room)

    async def load(self, owner: scope.Scope, file: api.File) -> tuple[bytes, str]:
        """An image and its media type. Raises `kb.errors.Invalid`, `TooLarge`, `NotFound`, or what is operational."""
        if isinstance(file, inside.File):
            return file.body, image.check(file.body)
        reference = file.content_ref
        if reference.bytes > self.limit:
            raise errors.TooLarge(f"the file has {reference.bytes} bytes, at most {self.limit} are read")
        body = await self.content.load(owner, reference.key)
        if identity.digest_bytes(body) != reference.sha256:
            raise errors.Invalid("the stored content is not what contentRef describes")
        return body, image.check(body)


class Qualifier:
    """Runs the graph; without `eyes` no image is looked at. `fast` is a smaller model that says the type; what it does
    not know, or gives no usable answer about, the other one judges whole. With `tools` (the rules that bound them)
    issues, and what is of no type and could not be judged otherwise, are judged by calls of tools.

    `clock` gives the current time in UTC, `monotonic` seconds for what phases take.
    """

    def __init__(
        self,
        asked: answers.Answers,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        eyes: Eyes | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        tools: enforce.Port | None = None,
        fast: answers.Answers | None = None,
    ) -> None:
        self._answers = asked
        self._fast = fast
        self._calling = None if tools is None else calling.Calling(asked, meters, tools)
        self._eyes = eyes
        self._meters = meters
        self._clock = clock
        self._monotonic = monotonic
        extractions = {
            _Type.EMAIL: self._email,
            _Type.JIRA: self._jira,
            _Type.CONFLUENCE: self._confluence,
            _Type.LOG: self._log,
            _Type.GENERIC: self._generic,
        }
        # Only here: a process that answers questions has no use for it.
        from kb.qualify import flow

        self._flow = flow.Flow(
            [
                (_Phase.VISION_GENERAL.value, self._phase(_Phase.VISION_GENERAL, self._look)),
                (_Phase.CONTENT_TYPE.value, self._phase(_Phase.CONTENT_TYPE, self._detect)),
                (_Phase.VISION_DETAILS.value, self._phase(_Phase.VISION_DETAILS, self._look_closer)),
            ],
            {kind.value: self._phase(_Phase.EXTRACTION, step) for kind, step in extractions.items()},
            [
                (_Phase.INDEXING.value, self._phase(_Phase.INDEXING, self._index)),
                (_Phase.CHUNKS.value, self._phase(_Phase.CHUNKS, self._chunks)),
                (_Phase.ROUTING.value, self._phase(_Phase.ROUTING, self._route)),
            ],
        )

    async def run(
        self,
        request: api.IngestRequest,
        text: str,
        made: draft.Draft,
        urgency: priority.Priority,
        read: Callable[[draft.Draft, answers.Spent], Awaitable[_E]],
        told: Sequence[str] = (),
        steer: steering.Steering = steering.NONE,
        earlier: str = "",
    ) -> Qualified[_E]:
        """Qualify a document; `read` says what its chunks say, `told` are rules for the judging model, `steer` rules
        that hold whatever it says, `earlier` is what was said before in the document's thread.

        Raises no `JervisError`: they are in the result.
        """
        work = Run(request, text, made, urgency, read, self._monotonic, told, steer, earlier)
        begun = state.QualifierPipelineState.initial(request, text)
        try:
            ended = await self._flow.go(begun, work)
            # Also when the rest was stopped: the answers that do arrive are kept for the repeated call.
            extracted = None if work.chunks is None else await work.chunks
        finally:
            # What is given up must have ended here: an erasure of the scope waits for this run alone.
            await work.forget_chunks()
        judged = work.stopped or ended.judgement or work.unjudged
        assert judged is not None
        read_or_why = extracted if isinstance(extracted, root.JervisError) else work.stopped or extracted
        return Qualified(judged, cast("_E | root.JervisError", read_or_why), work.made, ended)

    def _phase(self, name: api.QualifierPhase, step: _Step) -> _Node:
        """A node: measures the step, collects its errors, and passes by when the graph was stopped."""

        async def node(before: state.QualifierPipelineState, work: Run) -> state.QualifierPipelineState:
            if work.stopped is not None:
                return before
            since, spent, problems = self._monotonic(), answers.Spent(), list[str]()
            try:
                after = await step(work, before, spent, problems)
            except root.JervisError as error:
                work.stopped = error
                return before
            if after is None:
                return before
            seconds = self._monotonic() - since
            if name is _Phase.CHUNKS:
                seconds, spent = work.chunk_seconds, work.chunks_spent
            self._meters.qualify_seconds.labels(name.value).observe(seconds)
            self._meters.qualify_calls.labels(name.value).inc(spent.calls)
            self._meters.qualify_errors.labels(name.value).inc(len(problems))
            return after.measured(
                api.PhaseMetrics(
                    phase=name,
                    seconds=round(seconds, 6),
                    calls=spent.calls,
                    kept=spent.kept,
                    tokens=spent.tokens or None,
                    errors=tuple(problems),
                )
            )

        return node

    async def _ask(
        self,
        work: Run,
        now: state.QualifierPipelineState,
        name: str,
        shape: type[_Shape],
        spent: answers.Spent,
        problems: list[str],
    ) -> _Shape | None:
        """An answer, or None and a problem when there is no usable one. Raises the other errors of `Answers.ask`."""
        today = self._clock().astimezone(UTC).date()
        num_ctx = self._answers.num_ctx
        before = work.earlier if name in _THREADED else ""
        question = typed.question(name, work.request, work.text, now.seen, today=today, num_ctx=num_ctx, earlier=before)
        return await self._usable(work, question, shape, spent, problems)

    async def _usable(
        self, work: Run, question: prompt.Prompt, shape: type[_Shape], spent: answers.Spent, problems: list[str]
    ) -> _Shape | None:
        rules = [*work.told, *language.rule(work.steer.language)]
        try:
            answer = await self._answers.ask(
                prompt.under(question, rules), shape, work.urgency, work.request.scope, spent
            )
            if language.fits(answer.summary, work.steer.language):
                return answer
            # Once more, with what was wrong; kept answers are found by the question.
            again = prompt.under(question, [*rules, language.wrong(work.steer.language)])
            with contextlib.suppress(errors.Unusable):
                answer = await self._answers.ask(again, shape, work.urgency, work.request.scope, spent)
        except errors.Unusable as error:
            work.unjudged = error
            problems.append(error.message)
            return None
        if language.fits(answer.summary, work.steer.language):
            return answer
        problems.append(f"The summary is left out: it is not in {work.steer.language}, as a hard rule asks.")
        return answer.model_copy(update={"summary": work.request.title})

    async def _by_calls(
        self, work: Run, now: state.QualifierPipelineState, issue_key: str, spent: answers.Spent, problems: list[str]
    ) -> hints.Judgement | None:
        """The judgement by calls of tools, where they are used and decide. Their prompt has no place for a thread, and
        nothing checks the language of a summary: there the structured answer is asked for."""
        if self._calling is None or work.earlier or work.steer.language:
            return None
        today, num_ctx = self._clock().astimezone(UTC).date(), self._answers.num_ctx
        asked = calling.question(work.request, work.text, now.seen, issue_key, today=today, num_ctx=num_ctx)
        question = prompt.under(asked, work.told)
        return await self._calling.judge(question, issue_key, work.made, work.request, work.urgency, spent, problems)

    async def _look(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState | None:
        """Stage 1: what each image shows. An image that cannot be looked at is a problem; the others are looked at."""
        if self._eyes is None or not work.request.files or not work.steer.looks:
            return None
        sizes = [one.content_ref.bytes for one in work.request.files]
        slots = asyncio.Semaphore(_LOOKS)

        async def look(eyes: Eyes, file: api.File) -> image.Sight | root.JervisError:
            owner = work.request.scope
            try:
                async with slots, eyes.room.of(file.content_ref.bytes):
                    body, kind = await eyes.load(owner, file)
                    return await eyes.models.describe(
                        body, owner, title=file.name, kind=kind, urgency=work.sight, among=sizes, spent=spent
                    )
            except root.JervisError as error:
                return error

        # All are awaited even when one fails: the answers that do arrive are kept for the repeated call.
        found = await asyncio.gather(*(look(self._eyes, one) for one in work.request.files))
        for file, one in zip(work.request.files, found, strict=True):
            _raise_operational(one, file)
        seen = []
        for known, one in zip(now.attachments, found, strict=True):
            if isinstance(one, root.JervisError):
                problems.append(f"{known.name}: {one.message}")
                seen.append(known)
            else:
                said = hints.excerpt(hidden.plain(image.document(one)), _SEEN_CHARS)
                seen.append(known.model_copy(update={"vision_analysis": said}))
        told = [f"{one.name}: {one.vision_analysis}" for one in seen if one.vision_analysis is not None]
        summary = hints.excerpt("\n\n".join(told), _SEEN_CHARS) if told else None
        context = now.vision.model_copy(update={"general_vision_summary": summary})
        return now.model_copy(update={"attachments": tuple(seen), "vision": context})

    async def _look_closer(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState | None:
        """Stage 2: what matters for the type, in the first images that stage 1 could look at, by one call."""
        summary = now.vision.general_vision_summary
        if self._eyes is None or summary is None or now.content_type is _Type.GENERIC:
            return None
        owner = work.request.scope
        files = zip(now.attachments, work.request.files, strict=True)
        seen = [file for known, file in files if known.vision_analysis is not None][:_LOOKS]
        totals = itertools.accumulate(one.content_ref.bytes for one in seen)
        # The first one, and as many more as there is room for in one request.
        wanted = [
            one
            for n, (one, total) in enumerate(zip(seen, totals, strict=True))
            if not n or total <= self._eyes.room.most
        ]
        sizes = [one.content_ref.bytes for one in wanted]
        try:
            async with self._eyes.room.of(sum(sizes)):
                images = [(await self._eyes.load(owner, file))[0] for file in wanted]
                question = typed.look(now.content_type, work.request, summary, images)
                said = await self._eyes.models.choose(sizes).ask(question, typed.Details, work.sight, owner, spent)
        except root.JervisError as error:
            _raise_operational(error, *wanted)
            problems.append(error.message)
            return now
        context = now.vision.model_copy(update={"type_specific_vision_details": said.details.strip() or None})
        return now.model_copy(update={"vision": context})

    async def _detect(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState | None:
        known = work.steer.read_as or base_node.KINDS.get(work.request.kind.casefold())
        if known is not _Type.LOG and (known is not None or not typed.looks_like_log(work.text)):
            work.start_chunks()
        if known is not None:
            return now.model_copy(update={"content_type": known})
        if (quick := await self._detect_fast(work, now, spent, problems)) is not None:
            return quick
        said = await self._ask(work, now, DETECT, typed.Detection, spent, problems)
        if said is None:
            return now
        found, kind = _detected(said)
        if kind is None:
            problems.append(f"{said.content_type!r} is no type; the document counts as GENERIC")
        return now.model_copy(
            update={
                "content_type_detection": found,
                "content_type": kind or _Type.GENERIC,
                "judgement": _judgement(said),
            }
        )

    async def _detect_fast(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState | None:
        """With the type that the fast model says; None where there is none: the judgement comes with the type then."""
        if self._fast is None:
            return None
        today, num_ctx = self._clock().astimezone(UTC).date(), self._fast.num_ctx
        question = typed.question(TYPE, work.request, work.text, now.seen, today=today, num_ctx=num_ctx)
        try:
            said = await self._fast.ask(question, typed.Kind, work.urgency, work.request.scope, spent)
        except (errors.Unusable, errors.Unconfigured) as error:
            problems.append(error.message)
            return None
        found, kind = _detected(said)
        if kind in (None, _Type.GENERIC):
            return None
        return now.model_copy(update={"content_type_detection": found, "content_type": kind})

    async def _email(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        shape = typed.EmailReading if mail.read(work.text) is None else typed.EmailJudgement
        said = await self._ask(work, now, EMAIL, shape, spent, problems)
        now = now.model_copy(update={"answers_earlier": said is not None and said.answers_earlier})
        return _extracted(now, typed.email(work.request, work.text, now.seen, said), said)

    async def _jira(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        key = typed.issue_key(work.derived.key, work.text)
        called = await self._by_calls(work, now, key, spent, problems)
        if called is not None:
            return _extracted(now, typed.jira(key, work.text, now.seen, None), called)
        said = await self._ask(work, now, JIRA, typed.JiraReading, spent, problems)
        now = now.model_copy(update={"answers_earlier": said is not None and said.answers_earlier})
        return _extracted(now, typed.jira(key, work.text, now.seen, said), said)

    async def _confluence(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        said = await self._ask(work, now, "confluence/v1", typed.ConfluenceReading, spent, problems)
        return _extracted(now, typed.confluence(work.request, work.text, now.seen, said), said)

    async def _log(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        """A log that no model could summarize keeps its raw chunks, as a document of no type."""
        said = await self._ask(work, now, "log/v1", typed.LogReading, spent, problems)
        if said is None:
            return await self._generic(work, now.model_copy(update={"content_type": _Type.GENERIC}), spent, problems)
        found, left_out = typed.log(work.text, said)
        problems += left_out
        await work.forget_chunks()
        work.made = draft.of_parts(work.made, typed.parts(found))
        return _extracted(now, found, said)

    async def _generic(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        called = None if now.judgement else await self._by_calls(work, now, "", spent, problems)
        if called is not None:
            return _extracted(now, _plain(work, now), called)
        if now.judgement is None:
            # What was asked before failed; the shorter question may be answered.
            today = self._clock().astimezone(UTC).date()
            shown = typed.document(work.text, now.seen, self._answers.num_ctx)
            request = work.request
            question = prompt.hints(shown, title=request.title, kind=request.kind, today=today, team=request.team)
            said = await self._usable(work, question, hints.Judgement, spent, problems)
            now = now.model_copy(update={"judgement": said})
        return _extracted(now, _plain(work, now), None)

    async def _index(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        assert now.extraction is not None
        node = base_node.made(work.request, work.text, work.derived, now.extraction, qualified=True)
        work.start_chunks()
        if now.content_type is not _Type.GENERIC:
            # One of no type says no more by its node than when it came by a way on which no model is asked.
            work.made = draft.given_to(work.made, draft.facts(work.request, node, work.derived))
        summary = now.judgement.summary if now.judgement else ""
        indexing = state.IndexingState(
            base_node_key=node.key,
            base_info=base_node.info(now.extraction, work.request, summary),
            chunks=tuple(piece.id for piece in work.made.pieces),
        )
        return now.model_copy(update={"base_node": node, "indexing": indexing})

    async def _chunks(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        assert now.indexing is not None
        assert work.chunks is not None
        found = await work.chunks
        if isinstance(found, root.JervisError):
            # It is in the result: what is not stored has its hints all the same.
            problems.append(found.message)
            return now
        done = len(found.extractions) + len(found.problems)
        indexing = now.indexing.model_copy(update={"processed_chunk_count": done, "errors": tuple(found.problems)})
        return now.model_copy(update={"indexing": indexing})

    async def _route(
        self, work: Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        """No call: the judgement came with the fields. Without one a person has to look at the document."""
        said = now.judgement
        if said is None:
            route = api.RoutingDecision(decision="LIFT_UP", reason="No model could judge the document.")
        else:
            decision = "LIFT_UP" if said.has_actionable_content else "DONE"
            route = api.RoutingDecision.model_validate({"decision": decision, "reason": said.reason})
        return now.model_copy(update={"routing_decision": route})


_Step = Callable[
    [Run, state.QualifierPipelineState, answers.Spent, list[str]],
    Awaitable[state.QualifierPipelineState | None],
]
_Node = Callable[[state.QualifierPipelineState, Run], Awaitable[state.QualifierPipelineState]]


def _raise_operational(found: object, *files: api.File) -> None:
    """A model that no backend has will not be there soon: the document goes on without it."""
    waits = not all(isinstance(one, inside.File) and one.optional for one in files)
    if waits and isinstance(found, root.Operational) and not isinstance(found, errors.Unconfigured):
        raise found


def _extracted(
    now: state.QualifierPipelineState, found: api.TypedExtraction, said: hints.Judgement | None
) -> state.QualifierPipelineState:
    judged = now.judgement if said is None else _judgement(said)
    return now.model_copy(update={"extraction": found, "judgement": judged})


def _detected(said: typed.Kind | typed.Detection) -> tuple[state.ContentTypeDetection, _Type | None]:
    """What was said, and the type that it names."""
    word = said.content_type.strip().upper()
    found = state.ContentTypeDetection(content_type=said.content_type, reason=said.type_reason)
    return found, _Type(word) if word in _Type.__members__ else None


def _plain(work: Run, now: state.QualifierPipelineState) -> api.GenericExtraction:
    summary = now.judgement.summary if now.judgement else ""
    return api.GenericExtraction(
        base_info=work.request.title or summary, chunks=tuple(piece.id for piece in work.made.pieces)
    )


def _judgement(said: hints.Judgement) -> hints.Judgement:
    """Without the fields of the type."""
    return hints.Judgement.model_validate(said.model_dump(include=set(hints.Judgement.model_fields)))
