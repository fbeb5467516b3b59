"""The node in which the decision agent of the knowledge base answers a question of a user, in place of evidence, plan
and `respond`.

The run asks with its own token, so the agent sees what the run may see, under the hard rules of the task's scope. What
it costs is booked on the fence as it is spent, beside the name of the stream: a process that follows one which died
reads the same stream again, from its beginning, and asks anew where it is no more. A run that is stopped ends the
stream, so that its GPU is free.

Source: seed 004 "Streaming Output Format".
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import structlog

import crds.errors
from contracts.rules import enforce_lines
from kb import api
from kb import client as kb_client
from orchestrator_job import errors, outcome
from orchestrator_job.answer import evidence_pack, model_answer, question_store
from orchestrator_job.model import excerpt, intent, model_calls, prompt_escape, prompts, repetition, telemetry
from orchestrator_job.run import run_context
from orchestrator_job.store.graph_state import State
from router import client as router_client
from text import quotations

_log = structlog.get_logger("orchestrator_job.run.consult")
NAME = "consult"
INTENT = "intent.v1"
_INTENT_TOKENS = 512
RESUME_SECONDS = 120.0
"""For so long the agent works on while no process of the run reads."""
_QUERY_CHARS = 8000
_STOP_SECONDS = 2.0
_ANSWER = "text_response"
_LEAST_CALLS = 2
_ANSWER_TOKENS = 10_000
"""Left of the round's tokens for the answer, which is one call with what was found."""
_TEXTS = ("text", "interpretation", "summary")
_UNRATED = 0.5
"""Confidence of what the knowledge base does not rate: relationships, code, pages and what was seen on them."""


def consults(state: State, *, delegates: bool) -> bool:
    """Whether the agent answers: a question of a user, where nothing is ordered that the run's graph works on. That of
    delegations works on all that has an effect."""
    wanted = intent.of(state)
    return not wanted.works and not (delegates and wanted.effects)


class AskIntent:
    """Asks the model what a user wants, where no reply of the run's graph would say it before the agent is asked.
    `kinds` are what the graph works on."""

    def __init__(self, run: run_context.RunContext, asks: model_calls.Asking, kinds: Sequence[intent.Kind]) -> None:
        self._run = run
        self._asks = asks
        self._kinds = tuple(kinds)

    async def __call__(self, state: State) -> State:
        """Writes intent. Raises Fenced, what a refused token raises, and Unavailable while no model can be asked."""
        run, number = self._run, state["round"]
        held = await run.loader.of(state)
        asked = await question_store.load(state, run.store)
        said = prompt_escape.defuse(held.conversation)
        before = f"<conversation>\n{said}\n</conversation>\n" if said else ""
        question = prompt_escape.defuse(asked.within(_QUERY_CHARS))
        light = run.settings.planner_model
        try:
            found = await self._asks.shaped(
                "intent",
                f"r{number}.intent",
                [
                    {"role": "system", "content": prompts.tagged(INTENT) + intent.asked(self._kinds)},
                    {"role": "user", "content": f"{held.today(run.now())}\n{before}<question>{question}</question>"},
                ],
                intent.Ordered,
                lambda reply: intent.read(reply, asked.text, number),
                wire=intent.order((*intent.ANSWERED, *self._kinds)),
                priority=run.beside if light else run.settings.priority,
                model=light or run.settings.model,
                num_ctx=run.settings.planner_num_ctx if light else run.settings.num_ctx,
                num_predict=_INTENT_TOKENS,
            )
        except router_client.Unauthorized:
            raise
        except (errors.BudgetExhausted, errors.InvalidOutput, router_client.Rejected) as error:
            _log.warning("what the user wants is not known; it is answered", reason=error.message)
            found = None
        return {"intent": (found or intent.Intent(round=number)).at(run.now()).dump()}


@dataclass
class Read:
    """What of a stream has been read."""

    stream: str = ""
    calls: int = 0
    """Of the model, as the stream counts them."""
    text: list[str] = field(default_factory=list)
    found: dict[int, dict[str, Any]] = field(default_factory=dict)
    error: api.AgentEvent | None = None
    end: api.AgentEvent | None = None

    def note(self, objects: Sequence[dict[str, Any]]) -> None:
        """Keep what was found, by its number: of a passage its own text, also where a relationship in it came first."""
        for one in objects:
            if isinstance(ref := one.get("ref"), int) and (ref not in self.found or "confidence" in one):
                self.found[ref] = one


class Consult:
    """Asks the decision agent of the knowledge base within the calls and tokens of the round."""

    def __init__(self, run: run_context.RunContext) -> None:
        self._task = run.task
        self._kb = run.kb
        self._store = run.store
        self._guard = run.guard
        self._retries = run.retries
        self._loader = run.loader
        self._urgency = run.beside
        self._max_calls = run.limits.llm_calls
        self._max_tokens = run.limits.tokens
        self._context_chars = run.settings.evidence_chars
        self._seen: dict[str, tuple[int, int]] = {}
        self._reading = Read()

    async def __call__(self, state: State) -> State:
        """Writes pack, answer, model, left_out and trail; raises InvalidOutput, BudgetExhausted, Stuck, or what the
        knowledge base raises."""
        held = await self._loader.of(state)
        number = state["round"]
        asked = await question_store.load(state, self._store)
        ask = functools.partial(self._asked, number, _query(asked, held.conversation))
        read = await self._retries.call("ask the decision agent", ask)
        evidence = items(read, self._context_chars)
        try:
            given = _answer(read, evidence, held.provisions)
        except errors.InvalidOutput:
            # Read once more it would be the same.
            await self._guard.forget_consulted(number)
            raise
        trail: list[str] = []
        if given.needs_input:
            trail = repetition.note(state.get("trail", []), "ask", list(given.questions))
        _log.info("answered", by="decision agent", citations=given.citations, needs_input=given.needs_input)
        return {
            "pack": await self._store.put(evidence_pack.dump(evidence), number),
            "answer": await self._store.put(given.model_dump(by_alias=True), number),
            "model": (read.end.model if read.end is not None else None) or "",
            "left_out": _left_out(asked),
            "trail": trail,
        }

    def found(self) -> tuple[evidence_pack.Item, ...]:
        """What the stream that this process read last has found so far."""
        return items(self._reading, self._context_chars)

    async def _asked(self, number: int, query: str) -> Read:
        """The whole answer: of the stream that an earlier process began, or of a new one.

        Raises `kb.client.Unavailable` where another attempt may succeed, `Rejected`, BudgetExhausted, or InvalidOutput
        for a question that failed for good.
        """
        before = await self._guard.consulted(number)
        if before.stream:
            used: int | None = None
            try:
                read = await self._followed(number, self._kb.agent.resume(self._task.scope, before.stream))
            except kb_client.Rejected as error:
                outcome.recheck(error)
                if error.code not in ("not_found", "conflict"):
                    raise
            else:
                if read.end is not None and read.end.outcome in ("answered", "impossible"):
                    return read
                used = read.calls
            # It may work on: what cannot be read whole, or where the store was away for a moment.
            await self._stop(number, before.stream)
            await self._guard.forget_consulted(number, used)
            before = await self._guard.consulted(number)
        # The decision and the answer: with less than that there is none. What is booked for a question that never
        # began is not booked again.
        if before.calls < _LEAST_CALLS:
            more = _LEAST_CALLS - before.calls
            spent = await self._guard.reserve_call(number, self._max_calls, 0, self._max_tokens, calls=more)
        else:
            spent = await self._guard.spent(number)
        await self._guard.begin_consulting(number, calls=_LEAST_CALLS)
        left = None if self._max_tokens is None else max(1, self._max_tokens - spent.tokens - _ANSWER_TOKENS)
        request = api.AgenticSearch(
            scope=self._task.scope,
            query=query,
            max_iterations=min(50, self._max_calls - spent.calls + 1),
            max_tokens=left,
            resume_seconds=RESUME_SECONDS,
        )
        read = await self._followed(number, self._kb.agent.ask(request, urgency=self._urgency))
        if read.end is not None and read.end.outcome in ("answered", "impossible"):
            return read
        await self._guard.forget_consulted(number, read.calls)
        raise _failed(read)

    async def _followed(self, number: int, opened: AbstractAsyncContextManager[AsyncIterator[api.AgentEvent]]) -> Read:
        """Read a stream to its end. It is ended where this run is stopped or may spend no more."""
        read = self._reading = Read()
        try:
            async with opened as events:
                async for event in events:
                    await self._take(number, event, read)
        except (asyncio.CancelledError, errors.BudgetExhausted, errors.Forgotten):
            await self._stop(number, read.stream)
            raise
        if read.end is None:
            raise kb_client.Unavailable("the connection to the decision agent was lost")
        return read

    async def _take(self, number: int, event: api.AgentEvent, read: Read) -> None:
        if event.stream:
            read.stream = event.stream
            await self._guard.name_consulted(number, event.stream)
        if event.calls is not None:
            read.calls = max(read.calls, event.calls)
            await self._book(number, event, read.stream)
        if event.type == "result":
            read.note(event.objects or ())
        elif event.verdict == api.THOUGHTS:
            read.text.clear()
        elif event.type == "token":
            read.text.append(event.content or "")
        elif event.type == "error":
            read.error = event
        elif event.type == "complete":
            read.end = event

    async def _book(self, number: int, event: api.AgentEvent, stream: str) -> None:
        """Count what is new of what the stream has cost. Raises BudgetExhausted where no call is left for an answer."""
        calls, tokens = event.calls or 0, event.tokens or 0
        spent = await self._guard.count_consulted(number, calls, tokens)
        # For the trace of this process, which may read the stream again after a connection was lost.
        seen = self._seen.get(stream, (0, 0))
        telemetry.count(max(0, calls - seen[0]), max(0, tokens - seen[1]))
        self._seen[stream] = (max(calls, seen[0]), max(tokens, seen[1]))
        # What was counted before was allowed then, as the calls of an answer that is read again.
        if spent is None or event.type == "complete" or event.tool == _ANSWER:
            return
        if spent.calls > self._max_calls:
            raise errors.BudgetExhausted(
                f"This round has used all of its {self._max_calls} model calls.",
                field="spec.budget.maxLlmCalls",
                remedy="Raise spec.budget.maxLlmCalls and try again, or add a message that narrows the task.",
            )
        if self._max_tokens is not None and spent.tokens >= self._max_tokens:
            raise errors.BudgetExhausted(
                f"This round has used {spent.tokens} of its {self._max_tokens} tokens.",
                field="spec.budget.maxTokens",
                remedy="Raise spec.budget.maxTokens and try again, or add a message that narrows the task.",
            )

    async def _stop(self, number: int, stream: str) -> None:
        """End the stream; "": that of the fence. Where that fails it ends by itself, after RESUME_SECONDS."""
        with contextlib.suppress(crds.errors.JervisError, TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                stream = stream or (await self._guard.consulted(number)).stream
                if stream:
                    await self._kb.agent.stop(self._task.scope, stream)


def items(read: Read, most: int) -> tuple[evidence_pack.Item, ...]:
    """What was found, by the numbers that the answer cites, in `most` characters; the cited passages first where not
    all have room."""
    cited = {one.ref: one for one in (read.end.citations if read.end is not None else None) or ()}
    found: list[evidence_pack.Item] = []
    for ref, one in sorted(read.found.items(), key=lambda pair: (pair[0] not in cited, pair[0])):
        content = next((str(one[name]) for name in _TEXTS if one.get(name)), "").strip()[:most]
        if not content:
            continue
        most -= len(content)
        title, where = str(one.get("title") or ""), _pages(one, cited.get(ref))
        found.append(
            evidence_pack.Item(
                id=ref,
                source=str(one.get("sourceUrn") or one.get("key") or ""),
                title=f"{title}, {where}" if where else title,
                content=content,
                origin="Graph" if one.get("target") else "RAG",
                confidence=float(one.get("confidence", _UNRATED)),
                chunk_id=one.get("chunkId"),
            )
        )
    return tuple(sorted(found, key=lambda item: item.id))


def _pages(one: Mapping[str, Any], cited: api.Citation | None) -> str:
    """Where evidence stands, as "page 2" or "pages 2-3", or "": of what is cited the page of what is quoted, which may
    be none of those that the search meant."""
    if cited is not None:
        return f"page {cited.page}" if cited.page else ""
    numbers = {page for _, page in one.get("pageStarts") or () if page} or {one.get("page") or one.get("pageNumber")}
    first, last = min(numbers, default=None), max(numbers, default=None)
    return "" if not first else f"page {first}" if first == last else f"pages {first}-{last}"


def _query(asked: excerpt.Parts, conversation: str) -> str:
    """The question, with what was said before as far as there is room."""
    said = asked.within(_QUERY_CHARS)
    before = f"Said before:\n{conversation}\n\nQuestion: " if conversation else ""
    return f"{before}{said}" if len(before) + len(said) <= _QUERY_CHARS else said


def _left_out(asked: excerpt.Parts) -> list[str]:
    """For the result: what of a question that is too long the agent did not get."""
    whole, shown = excerpt.size(asked.text), excerpt.size(asked.within(_QUERY_CHARS))
    return [f"The decision agent was given {shown} of the {whole} bytes of the question."] if shown < whole else []


def _answer(
    read: Read, evidence: tuple[evidence_pack.Item, ...], held: enforce_lines.Provisions
) -> model_answer.Answer:
    """The agent's answer as one of the run; a question to the user where there is none. Raises InvalidOutput."""
    end = read.end
    assert end is not None
    why = (end.reason or "nothing was found").strip().rstrip(".")
    if end.reasoning:
        why = f"{why}. The model says: {end.reasoning.strip()}"
    if end.outcome == "answered":
        text = quotations.MARK.sub(lambda found: f"{quotations.numbers(found)}", "".join(read.text)).strip()
        known = {item.id: item for item in evidence}
        cited = sorted({one.ref for one in end.citations or ()} & known.keys())
        sure = sum(known[one].confidence for one in cited) / len(cited) if cited else 0.0
        given = model_answer.Answer(
            answer=text, citations=cited, confidence=min(1.0, max(0.0, sure)), needs_input=False, questions=[]
        )
    elif held.permits_tool("ask"):
        asked = f"The knowledge base does not answer this ({why}). What is missing, or where does it stand?"
        given = model_answer.Answer(answer="", citations=[], confidence=0.0, needs_input=True, questions=[asked[:2048]])
    else:
        said = f"The knowledge base does not answer this: {why}"
        given = model_answer.Answer(answer=said, citations=[], confidence=0.0, needs_input=False, questions=[])
    # The agent has kept to the rules of its time; those of the run may be newer.
    said = " ".join([given.answer, *given.questions]).strip()
    objection = held.objection(said, cites=bool(given.citations), final=not given.needs_input)
    if objection is not None or not said:
        raise errors.InvalidOutput(
            f"The decision agent gave no usable answer: {objection or 'it is empty'}.",
            remedy="Run the task again, or change the hard rules of this scope.",
        )
    return given


def _failed(read: Read) -> crds.errors.JervisError:
    """Why there is no answer: what may be another time is tried again, first by this run, then by the operator."""
    end, error = read.end, read.error
    assert end is not None
    why = f"The decision agent could not answer: {end.reason or end.outcome}"
    if end.outcome == "cancelled" or (error is not None and error.recoverable):
        return kb_client.Unavailable(why)
    return errors.InvalidOutput(why, remedy=(error.suggestion if error is not None else None) or "Run the task again.")
