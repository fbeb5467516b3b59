"""The loop of the decision agent: gate, automatic tools, decision, tool, until the question is answered.

    gate -> (enough or stuck) -> look -> text_response -> complete
         -> decision -> tool -> environment -> gate ...
         -> nothing can help -> look -> (nothing found) -> error -> complete, impossible

Before each round a gate asks whether it is enough, by what the program knows: how much of the question the evidence
covers, whether the last rounds found anything new, and what was spent. The model's own word on that is part of its
decision (`enough`). A call that was made before is refused; at the second one the run is stuck.

No run gives up before it has looked. Where it would end without a search, or with nothing found, `look` searches for
the question itself; that needs no call of a chat model, so spent tokens do not forbid it. Only after that the model's
"impossible" counts. The reason that is shown is the program's, and says what was searched; the model's own sentence
stands beside it, as the model's (decision 0176).

Source: seed 004 "Information Flow Diagram".
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from contracts.rules import enforce_lines
from crds import errors as root
from crds import scope
from kb import api, metrics, paging
from kb.agent import decision, decision_model
from kb.agent.environment import Error, Result
from kb.agent.tree import Dropped, Given, Retracted, Status, Token, Tool, TreeData
from kb.retrieve import sufficiency
from router import client as router_client
from router.client import asking
from text import quotations

log = structlog.get_logger(__name__)
ANSWER = decision.ANSWER
LOOK = "fast_vector_search"
"""The tool that searches for the question itself before the run gives up."""
_BESIDE = frozenset({ANSWER, "summarize", "rules"})
"""Tools that find nothing new in the knowledge base."""
REPEATS = 2
"""At so many calls that were made before the run is stuck."""
IDLE = 3
"""Rounds in a row that find nothing new."""
_THOUGHT = "What was written so far were the model's thoughts. The answer begins here."
_KEPT_BACK = "A hard rule keeps this text back."


@dataclass(frozen=True)
class Limits:
    """`iterations`: rounds of one question. `tokens`: read and written by the model, after which it answers.
    `context_tokens`: of the environment in a decision. `enough`: the share of the question's words in what was found
    with which it answers without another decision; 0: the model alone says when it is enough."""

    iterations: int = 10
    tokens: int = 200_000
    context_tokens: int = 10_000
    enough: float = 0.0


class Verdict(enum.Enum):
    """Of the gate."""

    GO_ON = "go on"
    ANSWER = "answer"
    IMPOSSIBLE = "impossible"


@dataclass
class Course:
    """How a run has gone so far. `tools` are all that it has, `called` are calls, `broken` the tools that were taken
    away, with the reason."""

    tools: dict[str, Tool]
    called: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    away: bool = False
    """Whether one of them may be back for a later question."""
    repeats: int = 0
    idle: int = 0
    ending: str = ""
    """Why the answer follows in any case."""


def gate(tree: TreeData, available: Sequence[str], course: Course, limits: Limits) -> tuple[Verdict, str]:
    """Whether what was found is enough, or nothing more can be found; and why."""
    can_answer = ANSWER in available
    why = course.ending
    if not why and tree.spent:
        why = f"the model has read and written {tree.tokens} tokens, and {tree.most_tokens} are allowed"
    if not why and course.repeats >= REPEATS:
        why = "the same call was chosen again and again"
    if not why and course.idle >= IDLE:
        why = f"{IDLE} rounds in a row found nothing new"
    if not why and not set(available) - _BESIDE:
        why = "no tool can find more"
        # Without a tool that searches the rules may still be asked for.
        if not can_answer and "rules" in available:
            return Verdict.GO_ON, ""
    if why:
        return Verdict.ANSWER if can_answer else Verdict.IMPOSSIBLE, f"Answering now: {why}."
    if can_answer and limits.enough:
        covered = sufficiency.coverage(tree.user_prompt, tree.environment.texts())
        if covered >= limits.enough:
            return Verdict.ANSWER, f"What was found covers {covered:.0%} of the question."
    return Verdict.GO_ON, ""


class Source(Protocol):
    """Gives tools beside the agent's own (`kb.agent.servers.Servers`)."""

    async def tools(self, viewer: scope.Scope) -> tuple[Sequence[Tool], Sequence[str]]:
        """Those that the viewer may use, and what is away."""
        ...


class Pages(Protocol):
    """Knows what pages look like (`kb.visual.search.Search`)."""

    async def locate(
        self, viewer: scope.Scope, cited: Sequence[api.Citation], known: Mapping[str, Mapping[str, paging.Starts]]
    ) -> list[api.Citation]:
        """The citations, those of passages with the image of their page and the places of their quotations on it where
        the viewer sees it and the passage stands there still. `known`: by chunk the texts of it that were found, with
        where in them pages began. Raises `kb.errors.Away`."""
        ...


class AgentOrchestrator:
    """Answers one question at a time for each call of `run`. `monotonic` gives seconds; `beside` gives more tools, and
    `pages` say where on them quotations stand."""

    def __init__(
        self,
        tools: Sequence[Tool],
        model: decision_model.DecisionModel,
        meters: metrics.Metrics,
        monotonic: Callable[[], float],
        *,
        limits: Limits | None = None,
        beside: Source | None = None,
        pages: Pages | None = None,
    ) -> None:
        self._beside = beside
        self._pages = pages
        self._tools = {one.name: one for one in tools}
        self._model = model
        self._meters = meters
        self._monotonic = monotonic
        self.limits = limits or Limits()

    async def run(
        self, tree: TreeData, *, iterations: int | None = None, tokens: int | None = None
    ) -> AsyncIterator[api.AgentEvent]:
        """The events of a question; the last one is `complete`. Errors of Jervis become events. `iterations` and
        `tokens` lower the limits."""
        tree.most_tokens = self.limits.tokens if tokens is None else min(tokens, self.limits.tokens)
        async with contextlib.aclosing(self._rounds(tree, iterations)) as events:
            async for event in events:
                spent: dict[str, Any] = {"calls": tree.calls, "tokens": tree.tokens}
                if event.type == "complete":
                    spent["model"] = self._model.name
                costs = event.type in ("decision", "complete")
                yield _permitted(event.model_copy(update=spent) if costs else event, tree.held)

    async def _rounds(self, tree: TreeData, iterations: int | None) -> AsyncGenerator[api.AgentEvent, None]:
        course = Course(dict(self._tools))
        tree.collection_names = [one.source for one in self._tools.values() if one.source]
        most = min(iterations or self.limits.iterations, self.limits.iterations)
        try:
            async for event in self._more(tree, course):
                yield event
            for _ in range(most):
                async for event in self._automatic(tree, course):
                    yield event
                available = await self._available(tree, course)
                verdict, why = gate(tree, list(available), course, self.limits)
                if verdict is not Verdict.GO_ON:
                    break
                chosen: list[decision.Decision] = []
                async for event in self._decide(tree, available, course, chosen):
                    yield event
                if not chosen:
                    # The same call again, or none that can be made; the gate decides.
                    continue
                made = chosen[0]
                if made.impossible:
                    look = self._look(tree, available, course, gives_up=True)
                    if look is not None:
                        async for event in self._execute_look(look, tree, course):
                            yield event
                        if not tree.environment.is_empty():
                            # The next decision has what was found, and its word counts.
                            continue
                    # What another tool would have found does not outweigh that word; what no search saw does.
                    away = course.away and LOOK in course.broken
                    for event in _unanswered(_cannot(_NO_WAY, course, tree), away, made.reasoning):
                        yield event
                    return
                yield _decided(made.tool, made.reasoning)
                if made.tool == ANSWER:
                    why = ""
                    break
                course.called[made.call] = f"{made.tool} {dict(made.inputs)}"[:300]
                if made.should_end:
                    course.ending = "the last decision was to end"
                async for event in self._execute(course.tools[made.tool], dict(made.inputs), tree, course):
                    yield event
            else:
                why = f"Answering now: {course.ending or f'{most} rounds are over'}."
            async for event in self._answered(tree, course, why):
                yield event
        except root.JervisError as error:
            message, _, remedy = decision_model.failure(error)
            yield _failed(message, recoverable=isinstance(error, root.Operational), suggestion=remedy)
            yield api.AgentEvent(type="complete", outcome="failed", reason=message)

    async def _more(self, tree: TreeData, course: Course) -> AsyncIterator[api.AgentEvent]:
        """Adds the tools of others. One that is away is said, and the search goes on without it."""
        if self._beside is None:
            return
        more, away = await self._beside.tools(tree.viewer)
        course.tools |= {one.name: one for one in more}
        for why in away:
            tree.errors.append(why)
            yield api.AgentEvent(type="status", message=f"A source of tools is left out. {why}")

    async def _available(self, tree: TreeData, course: Course) -> dict[str, Tool]:
        return {
            name: tool
            for name, tool in course.tools.items()
            if name not in course.broken and await tool.is_tool_available(tree)
        }

    async def _automatic(self, tree: TreeData, course: Course) -> AsyncIterator[api.AgentEvent]:
        """Tools that run without being chosen."""
        for tool in course.tools.values():
            if tree.spent or tool.name in course.broken or not await tool.is_tool_available(tree):
                continue
            runs, inputs = await tool.run_if_true(tree)
            if runs:
                yield _decided(tool.name, "It runs by itself.")
                idle = course.idle
                async for event in self._execute(tool, inputs, tree, course):
                    yield event
                course.idle = idle

    async def _decide(
        self,
        tree: TreeData,
        available: dict[str, Tool],
        course: Course,
        chosen: list[decision.Decision],
    ) -> AsyncIterator[api.AgentEvent]:
        """Puts the model's choice into `chosen`, or nothing where it chose the same again or what cannot be done."""
        offered = list(available.values())
        most = self.limits.context_tokens
        first = self._asked(tree, offered, course, most)
        messages, why = list(first), ""
        for attempt in range(decision.ATTEMPTS):
            last = attempt == decision.ATTEMPTS - 1
            if attempt and tree.spent:
                return
            try:
                reply = await self._model.structured(
                    messages,
                    tree,
                    decision.schema(offered),
                    most=decision.TOKENS,
                    temperature=asking.TEMPERATURES[attempt],
                )
            except router_client.TooLong:
                if last:
                    raise
                most //= 2
                first = messages = self._asked(tree, offered, course, most)
                continue
            try:
                made = decision.parse(reply.text, offered, course.called)
            except decision.Repeated as error:
                course.repeats += 1
                self._meters.agent_decisions.labels("repeated").inc()
                tree.errors.append(str(error))
                yield _failed(str(error), recoverable=True, suggestion="Another tool or other inputs.")
                if course.repeats >= REPEATS:
                    return
                # Not once more in this round; where there is nothing else, the gate decides.
                offered = [one for one in offered if one.name != error.decision.tool]
                if not offered:
                    course.repeats = REPEATS
                    return
                why = str(error)
            except ValueError as error:
                self._meters.agent_decisions.labels("invalid").inc()
                why = str(error)
            else:
                self._meters.agent_decisions.labels("chosen" if attempt == 0 else "repaired").inc()
                chosen.append(made)
                return
            messages = asking.corrected(first, reply, why := asking.ended(reply, why))
        self._meters.agent_decisions.labels("unusable").inc()
        course.ending = f"the model made no valid decision in {decision.ATTEMPTS} attempts: {why}"

    def _asked(self, tree: TreeData, offered: Sequence[Tool], course: Course, most: int) -> list[dict[str, Any]]:
        """The prompt of a decision, with `most` tokens of what was found."""
        listed = list(course.called.values())
        beside = decision.prompt(tree, offered, listed, "")
        retrieved = self._model.fitted(tree.environment, beside, most)
        return [dict(one) for one in decision.prompt(tree, offered, listed, retrieved)]

    def _look(
        self, tree: TreeData, available: Mapping[str, Tool], course: Course, *, gives_up: bool
    ) -> decision.Decision | None:
        """The search for the question itself, where the run would end before it has looked. None where it has looked,
        or where no tool that may be used can.

        `gives_up`: the run would end without an answer.
        """
        tool = available.get(LOOK)
        call = None if tool is None else decision.of_question(tool, tree.user_prompt)
        if call is None or call.call in course.called:
            return None
        if gives_up:
            return call if LOOK not in tree.tasks_completed or tree.environment.is_empty() else None
        return None if tree.tasks_completed.keys() - _BESIDE else call

    async def _execute_look(
        self, look: decision.Decision, tree: TreeData, course: Course
    ) -> AsyncIterator[api.AgentEvent]:
        course.called[look.call] = f"{look.tool} {dict(look.inputs)}"[:300]
        yield _decided(look.tool, "The question itself is searched for before the search ends.")
        async for event in self._execute(course.tools[look.tool], dict(look.inputs), tree, course):
            yield event

    async def _execute(
        self, tool: Tool, inputs: dict[str, Any], tree: TreeData, course: Course
    ) -> AsyncIterator[api.AgentEvent]:
        """One call of a tool, whose failures are for the model."""
        if tool.status:
            yield api.AgentEvent(type="status", message=tool.status)
        new, failed, begun = 0, False, self._monotonic()
        try:
            async for one in self._work(tool, inputs, tree):
                if isinstance(one, Result):
                    new += tree.environment.add(tool.name, one)
                if isinstance(one, Error):
                    failed = True
                    tree.errors.append(f"{tool.name}: {one.sentence}")
                    course.away |= one.passing
                    if not one.recoverable:
                        course.broken[tool.name] = one.message
                yield self._event(tool, one)
        finally:
            tree.tasks_completed.setdefault(tool.name, []).append(self._monotonic() - begun)
            # Of a server's tool the server: what its tools are called it may change as it likes.
            named = tool.name.partition(".")[0]
            self._meters.agent_tools.labels(named, "error" if failed else "ok").inc()
        course.idle = 0 if new else course.idle + 1

    async def _work(self, tool: Tool, inputs: dict[str, Any], tree: TreeData) -> AsyncIterator[Given]:
        """What the tool gives, with an error that it raises as the last."""
        try:
            work: Any = tool(tree, inputs)
            async with contextlib.aclosing(work):
                async for one in work:
                    yield one
        except root.JervisError as error:
            yield Error(*decision_model.failure(error), passing=isinstance(error, root.Operational))
        except Exception:
            # The edge of a tool: a mistake in one must not cost what the others find. Its text is for the log alone.
            log.exception("a tool ended with an error that was not foreseen", tool=tool.name)
            yield Error("The tool ended with an error of this service.", recoverable=False, passing=True)

    async def _answered(self, tree: TreeData, course: Course, why: str) -> AsyncIterator[api.AgentEvent]:
        """The end of a run that can be answered, or cannot after all."""
        available = await self._available(tree, course)
        look = self._look(tree, available, course, gives_up=ANSWER not in available)
        if look is not None:
            async for event in self._execute_look(look, tree, course):
                yield event
        if ANSWER not in await self._available(tree, course):
            for event in _unanswered(_cannot(why or "nothing was found", course, tree), course.away):
                yield event
            return
        if why:
            yield _decided(ANSWER, why)
        async for event in self._execute(self._tools[ANSWER], {}, tree, course):
            yield event
        if ANSWER in course.broken or not tree.answer:
            reason = course.broken.get(ANSWER, "the answer is empty")
            yield _ended(reason, course.away)
            return
        cited = citations(tree)
        if self._pages is not None and any(one.page and not one.page_id for one in cited):
            known = {one.chunk_id: one.paged for one in tree.environment.evidence.values()}
            try:
                cited = await self._pages.locate(tree.viewer, cited, known)
            except root.Operational as error:
                # The answer stands without the places of its quotations.
                tree.errors.append(f"places on pages: {error.message}")
        yield api.AgentEvent(type="complete", outcome="answered", citations=cited)

    def _event(self, tool: Tool, one: Given) -> api.AgentEvent:
        if isinstance(one, Result):
            return api.AgentEvent(
                type="result",
                tool=tool.name,
                message=one.message or None,
                objects=one.objects,
                metadata=one.metadata,
                name=one.name,
                payload_type=one.payload_type,
            )
        if isinstance(one, Token):
            return api.AgentEvent(type="token", content=one.content)
        if isinstance(one, Dropped):
            self._meters.agent_quotes.labels(one.judged.verdict.value).inc()
            return api.AgentEvent(
                type="status", message=_dropped(one), content=one.text or None, verdict=one.judged.verdict.value
            )
        if isinstance(one, Retracted):
            return api.AgentEvent(type="status", message=_THOUGHT, verdict=api.THOUGHTS)
        if isinstance(one, Status):
            return api.AgentEvent(type="status", message=one.message)
        return _failed(one.message, recoverable=one.recoverable, suggestion=one.suggestion)


def citations(tree: TreeData) -> list[api.Citation]:
    """The passages that the answer names, in the order of their numbers, with what it quotes of them."""
    evidence = tree.environment.evidence
    texts = tree.environment.quotable()
    numbers = dict.fromkeys(number for part in tree.parts for number in part.marks() if number in evidence)
    quotes: dict[int, list[str]] = {number: [] for number in numbers}
    for part in tree.parts:
        for one in part.quotations():
            judged = quotations.judge(one, texts)
            if judged.found is not None and judged.verdict is quotations.Verdict.SUPPORTED:
                quotes.setdefault(judged.found, []).append(one.text)
    return [
        api.Citation(
            ref=number,
            source_urn=evidence[number].source_urn,
            title=evidence[number].title,
            chunk_id=evidence[number].chunk_id,
            page=evidence[number].page_of(found),
            quotes=found,
            interpreted=evidence[number].interpreted,
            **evidence[number].look,
        )
        for number, found in sorted(quotes.items())
    ]


def _permitted(event: api.AgentEvent, held: enforce_lines.Provisions) -> api.AgentEvent:
    """An event without text of the model that a rule forbids to say. Tokens were checked as a whole, and what a
    passage says is no answer."""

    def forbidden(text: str | None) -> bool:
        return bool(text) and held.objection(text or "", cites=True, final=False) is not None

    changed: dict[str, Any] = {
        name: _KEPT_BACK for name in ("reasoning", "message", "reason", "suggestion") if forbidden(getattr(event, name))
    }
    if event.metadata:
        changed["metadata"] = {name: _KEPT_BACK if forbidden(str(one)) else one for name, one in event.metadata.items()}
    if event.payload_type == "summary" and forbidden(str(event.objects)):
        changed["objects"] = []
    if event.payload_type == "interpretations":
        changed["objects"] = [one for one in event.objects or () if not forbidden(str(one["interpretation"]))]
    return event.model_copy(update=changed) if changed else event


def _decided(tool: str, reasoning: str) -> api.AgentEvent:
    return api.AgentEvent(type="decision", tool=tool, reasoning=reasoning)


def _failed(message: str, *, recoverable: bool, suggestion: str = "") -> api.AgentEvent:
    return api.AgentEvent(type="error", message=message, recoverable=recoverable, suggestion=suggestion or None)


def _unanswered(why: str, away: bool, model: str = "") -> list[api.AgentEvent]:
    """The end without an answer, which is not for ever where a tool was away. `model`: why, in the model's words."""
    suggestion = "Ask again later." if away else "Ask in other words, or make known what is missing."
    return [_failed(why, recoverable=away, suggestion=suggestion), _ended(why, away, model)]


def _ended(why: str, away: bool, model: str = "") -> api.AgentEvent:
    outcome = "failed" if away else "impossible"
    said: dict[str, Any] = {"outcome": outcome, "reason": why, "reasoning": model or None}
    return api.AgentEvent(type="complete", citations=[], **said)


_NO_WAY = "the model sees no way to answer the question with what was found"


def _cannot(why: str, course: Course, tree: TreeData) -> str:
    """Why there is no answer, with what took tools away, and what was searched."""
    lost = "; ".join(f"{name}: {reason}" for name, reason in course.broken.items())
    why = why.removeprefix("Answering now: ").rstrip(".")
    return f"Cannot complete: {why}{f' ({lost})' if lost else ''}. {_searched(tree)}"


def _searched(tree: TreeData) -> str:
    calls = [
        f"{name} ({len(seconds)} {'call' if len(seconds) == 1 else 'calls'})"
        for name, seconds in tree.tasks_completed.items()
        if name not in _BESIDE
    ]
    if not calls:
        return "Nothing was searched."
    found = len(tree.environment.evidence)
    return f"Searched: {', '.join(calls)}; {found} {'result' if found == 1 else 'results'} found."


def _dropped(one: Dropped) -> str:
    why = {
        quotations.Verdict.MISATTRIBUTED: "is in another passage than the one that is named",
        quotations.Verdict.STITCHED: "is put together from several places",
    }.get(one.judged.verdict, "is in none of the passages")
    return f"A sentence was left out: what it quotes {why}."
