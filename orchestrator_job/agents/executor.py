"""One agent's loop: its prompt to the model, the calls that the model makes, their results as data, its report.

The loop is resumed exactly. Each reply and each result is in the journal before the next step is taken; a resumed loop
goes through them again without asking a model or a tool, and continues where it was. Whether a call is carried out is
decided in `tool_calls`, by code.

However it ends, it hands back what it has: a budget that is used up, or an agent that repeats itself, gives a report
without success, with what was found and what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from contracts.rules import time_zones
from crds import scope
from crds.priority import Priority
from orchestrator_job import errors
from orchestrator_job.agents import agent_prompt, builtin, loop_state, metrics, protocol, registry
from orchestrator_job.effects import duplicate_effects, journal, ledger, tool_calls
from orchestrator_job.effects.journal import Kind
from orchestrator_job.effects.permits import seen_texts
from orchestrator_job.effects.tools import port
from orchestrator_job.model import budget, model_calls, prompt_budget, repetition, rules_context, telemetry
from orchestrator_job.store import delegation_models, delegation_progress, retry
from router import client as router_client

MISTAKES = 5
"""Calls of a tool that does not exist, is forbidden, or has wrong arguments, before the loop ends."""


@dataclass(frozen=True, slots=True)
class Means:
    """What all loops of a run work with. `tools` by their names; `window` is that of the model in tokens; `urgency` the
    most urgent priority that a call may have; `now` is in UTC. `specialists`: without them every agent is the
    LegacyAgent. `away` are listed servers without their tools, and why."""

    agents: registry.Registry
    tools: Mapping[str, port.Tool]
    asks: model_calls.Asking
    pool: budget.Budget
    records: journal.Journal
    book: ledger.Ledger
    counts: metrics.Metrics
    retries: retry.Retry
    recorder: telemetry.Recorder
    viewer: scope.Scope
    model: str
    urgency: Priority
    window: int
    now: Callable[[], datetime]
    specialists: bool = True
    away: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The delegation waits for a person; it goes on when it is worked on again after the decision."""

    requests: tuple[tool_calls.Request, ...]


class _Held(Exception):  # noqa: N818 - not an error: the loop waits
    """A call waits for a person."""

    def __init__(self, waiting: Waiting) -> None:
        super().__init__()
        self.waiting = waiting


class Executor:
    """Carries out delegations of one round. `known` are the texts of the task, `held` its rules, `earlier` what was
    handed back before, and `opens` a tool for what is not whole in it. `whole` is what the user wants, where the
    context of a delegation has not all of it: its agent reads it in parts."""

    def __init__(
        self,
        means: Means,
        held: rules_context.Standing,
        known: seen_texts.SeenTexts,
        earlier: Sequence[delegation_models.AgentOutput] = (),
        opens: port.Tool | None = None,
        whole: str = "",
    ) -> None:
        self._means = means
        self._whole = whole
        self._held = held
        self._opens = opens
        self._known = known.more(one.result for one in earlier)
        self._earlier = earlier
        self._first: dict[str, delegation_models.AgentOutput] = {}
        """What was reported before an escalation, by the delegation that goes on with it."""
        self._agents = means.agents.visible(held.provisions)

    async def work(self, message: delegation_models.DelegationMessage) -> delegation_models.AgentOutput | Waiting:
        """What the agent hands back, a report without success included. Raises Fenced, and what the clients raise when
        their services stay away: the delegation is resumed then."""
        agent = self._agent(message.agent_name)
        try:
            round_number = delegation_progress.round_of(message.delegation_id)
            await self._means.pool.delegate(round_number, message.delegation_id, message.depth)
        except errors.BudgetExhausted as error:
            return loop_state.stopped(message, agent.capability.name, error, loop_state.Made())
        ended = await _Loop(self, self._means, self._held, agent, message).run()
        if isinstance(ended, Waiting):
            return ended
        return await self._escalated(message, ended) if ended.escalates else ended.output

    def opening(
        self,
        agent: registry.Agent,
        message: delegation_models.DelegationMessage,
        began: datetime,
        offered: Collection[str],
        results: builtin.Results,
        done: Sequence[str],
    ) -> list[agent_prompt.Message]:
        """The beginning of an agent's talk; `began` is when it did first, `offered` are the tools that it has in this
        run, `results` takes what does not fit, `done` is what the task has done already."""
        top = message.depth == 1
        ordered = []
        if self._whole and top:
            about = "The context has the beginning and the end of the whole task."
            ordered = [(builtin.TASK, results.keep(builtin.TASK, self._whole, about))]
        return agent_prompt.opening(
            agent.prompt,
            message,
            began,
            self._held,
            earlier=[*ordered, *results.earlier([*(self._earlier if top else ()), *self._before(message)])],
            done=done,
            lacking=[
                *(name for name in agent.capability.tool_names if name not in offered),
                *(f"{server}.* (the server is away)" for server in self._means.away),
            ],
            context_tokens=agent.context_tokens,
        )

    def known(self, message: delegation_models.DelegationMessage) -> seen_texts.SeenTexts:
        """The texts that count when an agent names an aim; its task was worded by a model."""
        return self._known.more([message.context, *(one.result for one in self._before(message))])

    def taken_over(self, message: delegation_models.DelegationMessage) -> str:
        """The delegation that has given up this one's task, or nothing."""
        first = self._first.get(message.delegation_id)
        return "" if first is None else first.delegation_id

    def _before(self, message: delegation_models.DelegationMessage) -> list[delegation_models.AgentOutput]:
        first = self._first.get(message.delegation_id)
        return [] if first is None else [first]

    def delegating(
        self, agent: registry.Agent, message: delegation_models.DelegationMessage
    ) -> builtin.Delegating | None:
        """The built-in tool, for an agent that may delegate at its depth."""
        deeper = message.depth + 1
        if not agent.capability.can_sub_delegate or deeper > delegation_models.MAX_DEPTH:
            return None
        others = [one.capability for one in self._agents.specialists if one.capability.max_depth >= deeper]
        lines = [f"{one.name}: {one.description}" for one in others if one.name != agent.capability.name]
        return builtin.Delegating("Give a part of your task to another agent.\n" + "\n".join(lines)) if lines else None

    def own(self, agent: registry.Agent, message: delegation_models.DelegationMessage) -> list[port.Tool]:
        """The tools that an agent has besides its own: to delegate, and to open what was handed back before."""
        # What was handed back before is shown to the delegations of the plan alone.
        opens = self._opens if message.depth == 1 else None
        return [one for one in (self.delegating(agent, message), opens) if one is not None]

    async def sub(self, message: delegation_models.DelegationMessage) -> delegation_models.AgentOutput | Waiting:
        """A delegation of an agent to another. Raises `port.Misused` where there is none that could be given it."""
        try:
            agent = self._agents.agent(message.agent_name)
        except KeyError as error:
            names = ", ".join(one.capability.name for one in self._agents.specialists)
            raise port.Misused(f"There is no agent {message.agent_name!r}; there are {names}.") from error
        if message.depth > agent.capability.max_depth:
            raise port.Misused(f"{agent.capability.name} is not given work at depth {message.depth}.")
        return await self.work(message)

    def _agent(self, name: str) -> registry.Agent:
        if not self._means.specialists:
            return self._agents.legacy
        try:
            return self._agents.agent(name)
        except KeyError:
            return self._agents.legacy

    async def _escalated(
        self, message: delegation_models.DelegationMessage, ended: _Ended
    ) -> delegation_models.AgentOutput | Waiting:
        """The LegacyAgent, with what the first one reported; of the two reports the one that can be used."""
        first = ended.output
        sub = message.model_copy(
            update={
                "delegation_id": f"{message.delegation_id}.{ended.subs + 1}",
                "parent_delegation_id": message.delegation_id,
                "agent_name": registry.LEGACY,
            }
        )
        self._first[sub.delegation_id] = first
        second = await self.work(sub)
        if isinstance(second, Waiting):
            return second
        subs = (*first.sub_delegations, sub.delegation_id)
        if isinstance(protocol.verdict(second, tries=protocol.RETRIES), protocol.Accept):
            return second.model_copy(
                update={"delegation_id": message.delegation_id, "sub_delegations": (*subs, *second.sub_delegations)}
            )
        return first.model_copy(update={"sub_delegations": subs, "success": False, "needs_verification": True})


@dataclass(frozen=True, slots=True)
class _Ended:
    """`reported`: by the agent itself; else it was stopped. `escalates`: the LegacyAgent takes it over."""

    output: delegation_models.AgentOutput
    reported: bool
    escalates: bool
    subs: int


class _Loop:
    """The loop of one delegation."""

    def __init__(
        self,
        executor: Executor,
        means: Means,
        held: rules_context.Standing,
        agent: registry.Agent,
        message: delegation_models.DelegationMessage,
    ) -> None:
        self._executor = executor
        self._means = means
        self._held = held
        self._agent = agent
        self._message = message
        self._known = executor.known(message)
        self._results = builtin.Results(means.window)
        self._references: dict[int, str] = {}
        self._tools = self._offered()
        self._watch = repetition.Watch()
        self._made = loop_state.Made()
        self._ordinal = 0
        self._calls = 0
        self._tokens = 0
        self._mistakes = 0
        self._retries = 0
        self._record: journal.Record
        self._began: datetime

    async def run(self) -> _Ended | Waiting:
        """To its report, to its end without one, or to a call that waits."""
        self._record = await self._means.records.open(self._message.delegation_id)
        begun = await self._record.recall(0, Kind.BEGUN)
        if begun is None:
            begun = {"at": self._means.now().isoformat(), "agent": self._agent.capability.name}
            await self._record.keep(0, Kind.BEGUN, begun)
        self._began = datetime.fromisoformat(begun["at"])
        name = self._agent.capability.name
        with self._means.recorder.agent(name, self._message.delegation_id, self._means.model) as tell:
            try:
                output = await self._reported()
                # Reported by the agent itself; a stopped one is not asked of another agent.
                judged = protocol.verdict(output, tries=protocol.RETRIES)
                escalates = isinstance(judged, protocol.Escalate) and name != registry.LEGACY
                ended = _Ended(output, reported=True, escalates=escalates, subs=len(self._made.subs))
            except _Held as held:
                tell("jervis.waiting", True)
                return held.waiting
            except (errors.BudgetExhausted, errors.Stuck) as error:
                tell("error.type", error.reason.value)
                output = self._made.into(loop_state.stopped(self._message, name, error, self._made))
                ended = _Ended(output, reported=False, escalates=False, subs=len(self._made.subs))
            tell("jervis.success", ended.output.success)
            tell("jervis.confidence", ended.output.confidence)
        took, went = (self._tokens, self._calls, ended.subs), (ended.reported, ended.escalates, self._retries)
        await self._means.counts.record(self._message, ended.output, metrics.End(name, begun["at"], *took, *went))
        return ended

    async def _reported(self) -> delegation_models.AgentOutput:
        """The report."""
        # Effects of this round are there too: an agent that takes a task over must not do them again.
        effects = await self._means.book.effects(delegation_progress.round_of(self._message.delegation_id) + 1)
        done = duplicate_effects.done(effects, self._message.delegation_id)
        turns = self._executor.opening(self._agent, self._message, self._began, self._tools, self._results, done)
        self._offer_results()
        tries, pieces = 0, ""
        while True:
            reply = await self._reply(turns)
            if reply.calls:
                self._made.said.append(reply.text)
                turns.append(agent_prompt.called(reply.text, reply.calls, reply.thinking))
                for call in reply.calls:
                    result = await self._result(call)
                    turns.append(
                        agent_prompt.given(call["name"], self._handed(call, result, len(turns)), self._means.window)
                    )
                continue
            pieces += reply.text
            self._made.said.append(pieces)
            turns.append(agent_prompt.called(reply.text, ()))
            if reply.cut and not reply.endless:
                turns.append(agent_prompt.said(agent_prompt.GO_ON))
                continue
            output = protocol.parse(
                pieces, delegation_id=self._message.delegation_id, agent_name=self._agent.capability.name
            )
            if reply.endless:
                output = protocol.endless(output)
            judged = protocol.verdict(output, tries=tries)
            last = self._calls >= self._agent.model_calls
            if not isinstance(judged, protocol.Retry) or last:
                return self._made.into(output)
            tries, pieces = tries + 1, ""
            self._retries = tries
            turns.append(agent_prompt.again(judged.why))

    async def _reply(self, turns: list[agent_prompt.Message]) -> loop_state.Reply:
        """The model's next turn, from the journal or from the model."""
        self._calls += 1
        self._ordinal += 1
        most = self._agent.model_calls
        if self._calls > most:
            raise errors.BudgetExhausted(f"{self._agent.capability.name} has used all of its {most} model calls.")
        last = self._calls == most
        if last:
            turns.append(agent_prompt.said(agent_prompt.LAST))
        kept = await self._record.recall(self._ordinal, Kind.REPLY)
        if kept is None:
            tools = [] if last else [port.offered(one) for one in self._tools.values()]
            reply = await self._turn(turns, tools)
            kept = model_calls.dumped(reply)
            await self._record.keep(self._ordinal, Kind.REPLY, kept)
        found = loop_state.Reply(**kept)
        self._tokens += found.prompt_tokens + found.answer_tokens
        return found

    async def _turn(self, turns: list[agent_prompt.Message], tools: list[dict[str, Any]]) -> router_client.Reply:
        """The model's answer to the turns as far as they fit; tokens are estimated, so a backend may find them too
        many: then older results make room."""
        for room in (self._means.window * 3 // 4, self._means.window // 3):
            try:
                return await self._means.asks.ask(
                    self._message.delegation_id,
                    agent_prompt.fitted(turns, tools, room, self._references),
                    tools=tools,
                    priority=max(self._agent.priority, self._means.urgency),
                    model=self._means.model,
                    num_predict=max(self._means.window // 4, agent_prompt.LEAST_TOKENS),
                )
            except router_client.TooLong as error:
                too_long = error
        raise too_long

    async def _result(self, call: Mapping[str, Any]) -> port.Result:
        """What a call gave; a call that cannot be carried out is answered too."""
        self._ordinal += 1
        name = str(call["name"])
        self._watch.call(name, call["arguments"])
        kept = await self._record.recall(self._ordinal, Kind.RESULT)
        if kept is None:
            kept = await self._fresh(name, call["arguments"])
            # What another agent hands back names what it says that it made.
            own = () if name == registry.DELEGATE else loop_state.contents(kept)
            await self._record.keep(self._ordinal, Kind.RESULT, kept, own)
        if kept["mistaken"]:
            self._mistakes += 1
            if self._mistakes > MISTAKES:
                raise errors.Stuck(f"More than {MISTAKES} calls were wrong; the last: {kept['text']}")
        elif name == registry.DELEGATE:
            self._made.subs.append(self._sub_id())
        result = loop_state.restored(kept)
        self._made.take(name, call["arguments"], result)
        self._known = self._known.more([result.text])
        self._watch.found(result.text, failed=result.failed, changed=bool(result.changed_files))
        return result

    def _handed(self, call: Mapping[str, Any], result: port.Result, place: int) -> port.Result:
        """What of a result stands in the talk, at that place: that of another agent whole, or where it is read."""
        if call["name"] != registry.DELEGATE or result.failed:
            return result
        reference = self._results.keep(self._made.subs[-1], result.text, result.text.partition("\n")[0])
        self._references[place] = reference
        self._offer_results()
        return result if self._results.fits(result.text) else replace(result, text=reference)

    def _offer_results(self) -> None:
        if len(self._results):
            self._tools = {**self._tools, self._results.name: self._results}

    async def _fresh(self, name: str, arguments: object) -> dict[str, Any]:
        """The result of a call that is not in the journal."""
        tool = self._tools.get(name)
        if tool is None and (why := self._means.away.get(name.partition(".")[0])):
            return {**loop_state.stored(tool_calls.absent(why)), "mistaken": False}
        try:
            if tool is None:
                raise port.Misused(f"There is no tool {name[:100]!r}; there are {', '.join(self._tools)}.")
            given = port.parse(tool, arguments)
            done = await self._observed(tool, given)
        except port.Misused as error:
            return {**loop_state.stored(port.Result(error.message, failed=True)), "mistaken": True}
        return {**loop_state.stored(done), "mistaken": False}

    async def _observed(self, tool: port.Tool, given: Any) -> port.Result:
        """The result, within a span of the tool's."""
        with self._means.recorder.tool(tool.name, self._agent.capability.name) as tell:
            try:
                done = await (
                    self._delegated(given) if isinstance(tool, builtin.Delegating) else self._called(tool, given)
                )
            except _Held as error:
                tell("jervis.waiting", True)
                held = error
            else:
                if done.failed:
                    tell("error.type", "failed")
                return done
        raise held

    async def _called(self, tool: port.Tool, given: Any) -> port.Result:
        place = port.Place(
            viewer=self._means.viewer,
            delegation_id=self._message.delegation_id,
            ordinal=self._ordinal,
            round=delegation_progress.round_of(self._message.delegation_id),
            language=self._message.response_language,
        )
        means = self._means
        known = self._known.at(self._began.astimezone(time_zones.zone(self._held.zone)).date())
        if isinstance(tool, port.Orderable) and tool.wanted(given).stored:
            known = known.having(seen_texts.Content(*one) for one in await means.records.stored())
        # What only reads ends with the time of delegations; an effect that was begun is carried to its end.
        async with means.pool.in_time(final=isinstance(tool, port.Acting)):
            done = await tool_calls.call(
                tool,
                given,
                place,
                agent=self._agent.capability.name,
                known=known,
                held=self._held.provisions,
                book=means.book,
                retries=means.retries,
                taken_over=self._executor.taken_over(self._message),
            )
        if isinstance(done, tool_calls.Request):
            raise _Held(Waiting((done,)))
        return done

    def _sub_id(self) -> str:
        return f"{self._message.delegation_id}.{len(self._made.subs) + 1}"

    async def _delegated(self, given: builtin.Delegate) -> port.Result:
        sub_id = self._sub_id()
        message = self._message.model_copy(
            update={
                "delegation_id": sub_id,
                "parent_delegation_id": self._message.delegation_id,
                "depth": self._message.depth + 1,
                "agent_name": given.agent,
                "task_summary": given.task,
                "context": given.context,
                "expected_output": given.expected_output,
            }
        )
        ended = await self._executor.sub(message)
        if isinstance(ended, Waiting):
            raise _Held(ended)
        state = "done" if ended.success else "not done, or not whole"
        issues = ended.structured_data.get("issues")
        more = f"\nISSUES: {prompt_budget.plainly(issues)}" if issues else ""
        return port.Result(
            f"{ended.agent_name} ({state}, confidence {ended.confidence:g}):\n{ended.result}{more}",
            artifacts=ended.artifacts,
            changed_files=ended.changed_files,
            failed=not ended.success and not ended.result.strip(),
        )

    def _offered(self) -> dict[str, port.Tool]:
        # Those of listed servers (SERVER.TOOL) are every agent's; a client has them because an operator listed it.
        others = registry.permitted((one for one in self._means.tools if "." in one), self._held.provisions)
        names = (*self._agent.capability.tool_names, *others)
        tools = {name: self._means.tools[name] for name in names if name in self._means.tools}
        return {**tools, **{one.name: one for one in self._executor.own(self._agent, self._message)}}
