"""The phases of the graph (seed 003): vision, content type, details, extraction, indexing, chunks, routing.

It always reaches its end. An answer that no model gives in a usable form is replaced by what can be read without one
and recorded in the state; an operational error skips the phases that are left and is given back, so that the document
waits. Chunks are read while the other phases run, unless the type may make them needless (a log).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar, cast

from crds import errors as root
from crds import priority
from kb import api, errors, metrics
from kb.extract import answers, base_node, draft, hints, mail, prompt, typed
from kb.extract.qualifier import image_reading, run_context, state, summary_language
from kb.extract.tools import calling
from kb.rules import enforce, overrides

MOST_CALLS = 10
"""Model calls for a chunk (seed 003 "No infinite loops"); today twice `answers.ATTEMPTS` are the bound."""
TYPE, DETECT, EMAIL, JIRA = "type/v1", "detect/v2", "email/v2", "jira/v2"
_THREADED = frozenset({DETECT, EMAIL, JIRA})
_Shape = TypeVar("_Shape", bound=hints.Judgement)
_Type = api.ContentType
_Phase = api.QualifierPhase


_E = TypeVar("_E", bound=run_context.Extracted)


@dataclass(frozen=True)
class Qualified(Generic[_E]):
    """What the phases came to. `judged` and `extracted` are errors where models gave nothing.

    `made` is the draft that is to be committed: with the base node, and of a log with other chunks.
    """

    judged: hints.Judgement | root.JervisError
    extracted: _E | root.JervisError
    made: draft.Draft
    state: state.QualifierPipelineState


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
        eyes: image_reading.Eyes | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        tools: enforce.Port | None = None,
        fast: answers.Answers | None = None,
    ) -> None:
        self._answers = asked
        self._fast = fast
        self._calling = None if tools is None else calling.Calling(asked, meters, tools)
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
        from kb.extract.qualifier import flow

        look, look_closer = (_blind, _blind) if eyes is None else (eyes.look, eyes.look_closer)
        self._flow = flow.Flow(
            [
                (
                    _Phase.VISION_GENERAL.value,
                    self._phase(_Phase.VISION_GENERAL, look),
                ),
                (_Phase.CONTENT_TYPE.value, self._phase(_Phase.CONTENT_TYPE, self._detect)),
                (
                    _Phase.VISION_DETAILS.value,
                    self._phase(_Phase.VISION_DETAILS, look_closer),
                ),
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
        prompt_rules: Sequence[str] = (),
        overrides: overrides.Overrides = overrides.NONE,
        earlier: str = "",
    ) -> Qualified[_E]:
        """Qualify a document; `read` says what its chunks say, `prompt_rules` are for the judging model, `overrides`
        hold whatever it says, `earlier` is what was said before in the document's thread.

        Raises no `JervisError`: they are in the result.
        """
        work = run_context.Run(request, text, made, urgency, read, self._monotonic, prompt_rules, overrides, earlier)
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

        async def node(before: state.QualifierPipelineState, work: run_context.Run) -> state.QualifierPipelineState:
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
        work: run_context.Run,
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
        smaller = typed.question(name, work.request, work.text, now.seen, today=today, num_ctx=typed.smaller(num_ctx))
        return await self._usable(work, question, smaller, shape, spent, problems)

    async def _usable(
        self,
        work: run_context.Run,
        question: prompt.Prompt,
        smaller: prompt.Prompt,
        shape: type[_Shape],
        spent: answers.Spent,
        problems: list[str],
    ) -> _Shape | None:
        rules = [*work.prompt_rules, *summary_language.rule(work.overrides.language)]

        async def ask(rules: Sequence[str]) -> _Shape:
            answer = await self._answers.ask(
                prompt.under(question, rules),
                shape,
                work.urgency,
                work.request.scope,
                spent,
                smaller=None if smaller == question else prompt.under(smaller, rules),
            )
            return answer if answer.summary.strip() else answer.model_copy(update={"summary": work.request.title})

        try:
            answer = await ask(rules)
            if summary_language.fits(answer.summary, work.overrides.language):
                return answer
            # Once more, with what was wrong; kept answers are found by the question.
            with contextlib.suppress(errors.Unusable):
                answer = await ask([*rules, summary_language.wrong(work.overrides.language)])
        except errors.Unusable as error:
            work.unjudged = error
            problems.append(error.message)
            return None
        if summary_language.fits(answer.summary, work.overrides.language):
            return answer
        problems.append(f"The summary is left out: it is not in {work.overrides.language}, as a hard rule asks.")
        return answer.model_copy(update={"summary": work.request.title})

    async def _by_calls(
        self,
        work: run_context.Run,
        now: state.QualifierPipelineState,
        issue_key: str,
        spent: answers.Spent,
        problems: list[str],
    ) -> hints.Judgement | None:
        """The judgement by calls of tools, where they are used and decide. Their prompt has no place for a thread, and
        nothing checks the language of a summary: there the structured answer is asked for."""
        if self._calling is None or work.earlier or work.overrides.language:
            return None
        today, num_ctx = self._clock().astimezone(UTC).date(), self._answers.num_ctx
        asked = calling.question(work.request, work.text, now.seen, issue_key, today=today, num_ctx=num_ctx)
        question = prompt.under(asked, work.prompt_rules)
        return await self._calling.judge(question, issue_key, work.made, work.request, work.urgency, spent, problems)

    async def _detect(
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState | None:
        known = work.overrides.read_as or base_node.KINDS.get(work.request.kind.casefold())
        if known is not _Type.LOG and (known is not None or not typed.looks_like_log(work.text)):
            work.start_chunks()
        if known is not None:
            return now.model_copy(update={"content_type": known})
        if (quick := await self._detect_fast(work, now, spent, problems)) is not None:
            return quick
        said = await self._ask(work, now, DETECT, typed.Detection, spent, problems)
        if said is None:
            return now
        found = _detected(said)
        return now.model_copy(
            update={"content_type_detection": found, "content_type": said.content_type, "judgement": _judgement(said)}
        )

    async def _detect_fast(
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
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
        if said.content_type is _Type.GENERIC:
            return None
        return now.model_copy(update={"content_type_detection": _detected(said), "content_type": said.content_type})

    async def _email(
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        shape = typed.EmailReading if mail.read(work.text) is None else typed.EmailJudgement
        said = await self._ask(work, now, EMAIL, shape, spent, problems)
        now = now.model_copy(update={"answers_earlier": said is not None and said.answers_earlier})
        return _extracted(now, typed.email(work.request, work.text, now.seen, said), said)

    async def _jira(
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        key = typed.issue_key(work.derived.key, work.text)
        called = await self._by_calls(work, now, key, spent, problems)
        if called is not None:
            return _extracted(now, typed.jira(key, work.text, now.seen, None), called)
        said = await self._ask(work, now, JIRA, typed.JiraReading, spent, problems)
        now = now.model_copy(update={"answers_earlier": said is not None and said.answers_earlier})
        return _extracted(now, typed.jira(key, work.text, now.seen, said), said)

    async def _confluence(
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        said = await self._ask(work, now, "confluence/v1", typed.ConfluenceReading, spent, problems)
        return _extracted(now, typed.confluence(work.request, work.text, now.seen, said), said)

    async def _log(
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
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
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
    ) -> state.QualifierPipelineState:
        called = None if now.judgement else await self._by_calls(work, now, "", spent, problems)
        if called is not None:
            return _extracted(now, _plain(work, now), called)
        if now.judgement is None:
            # What was asked before failed; the shorter question may be answered.
            today = self._clock().astimezone(UTC).date()
            request, num_ctx = work.request, self._answers.num_ctx
            question, smaller = (
                prompt.hints(shown, title=request.title, kind=request.kind, today=today, team=request.team)
                for shown in (
                    typed.document(work.text, now.seen, num_ctx),
                    typed.document(work.text, now.seen, typed.smaller(num_ctx)),
                )
            )
            said = await self._usable(work, question, smaller, hints.Judgement, spent, problems)
            now = now.model_copy(update={"judgement": said})
        return _extracted(now, _plain(work, now), None)

    async def _index(
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
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
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
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
        self, work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
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
    [run_context.Run, state.QualifierPipelineState, answers.Spent, list[str]],
    Awaitable[state.QualifierPipelineState | None],
]
_Node = Callable[[state.QualifierPipelineState, run_context.Run], Awaitable[state.QualifierPipelineState]]


async def _blind(
    work: run_context.Run, now: state.QualifierPipelineState, spent: answers.Spent, problems: list[str]
) -> None:
    """No image is looked at."""


def _extracted(
    now: state.QualifierPipelineState, found: api.TypedExtraction, said: hints.Judgement | None
) -> state.QualifierPipelineState:
    judged = now.judgement if said is None else _judgement(said)
    return now.model_copy(update={"extraction": found, "judgement": judged})


def _detected(said: typed.Kind | typed.Detection) -> state.ContentTypeDetection:
    return state.ContentTypeDetection(content_type=said.content_type.value, reason=said.type_reason)


def _plain(work: run_context.Run, now: state.QualifierPipelineState) -> api.GenericExtraction:
    summary = now.judgement.summary if now.judgement else ""
    return api.GenericExtraction(
        base_info=work.request.title or summary, chunks=tuple(piece.id for piece in work.made.pieces)
    )


def _judgement(said: hints.Judgement) -> hints.Judgement:
    """Without the fields of the type."""
    return hints.Judgement.model_validate(said.model_dump(include=set(hints.Judgement.model_fields)))
