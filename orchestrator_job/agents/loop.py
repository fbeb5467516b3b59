"""One agent's loop: its prompt to the model, the calls that the model makes, their results as data, its report.

The loop is resumed exactly. Each reply and each result is in the journal before the next step is taken; a resumed loop
goes through them again without asking a model or a tool, and continues where it was. Whether a call is carried out is
decided in `tool_calls`, by code.

However it ends, it hands back what it has: a budget that is used up, or an agent that repeats itself, gives a report
without success, with what was found and what is missing.

Calls that a person decides about are recorded, and the loop goes on. Once nothing else is left it ends with them; the
next process makes those calls again, as they were decided, and gives the model their results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from contracts.rules import time_zones
from crds import domains, pendingtask, scope
from crds.permits import Permit
from crds.priority import Priority
from orchestrator_job import errors
from orchestrator_job.agents import agent_prompt, builtin, loop_state, metrics, protocol, registry, tool_choice
from orchestrator_job.effects import duplicate_effects, journal, ledger, seen_texts, tool_calls
from orchestrator_job.effects.journal import Kind
from orchestrator_job.effects.tools import port
from orchestrator_job.model import budget, model_calls, prompt_budget, repetition, rules_context, telemetry
from orchestrator_job.store import delegation_models, delegation_progress, retry
from router import client as router_client

AFTERWARDS = 3
"""Model calls that an agent has at least, once what it recorded is decided."""
MISTAKES = 5
"""Calls of a tool that does not exist, is forbidden, or has wrong arguments, before the loop ends."""


_OPEN, _DECIDED = "open", "decided"
"""What an entry of the journal says of a call that waits for a person, and of one that did."""


@dataclass(frozen=True, slots=True)
class Means:
    """What all loops of a run work with. `tools` by their names; `window` is that of the model in tokens; `urgency` the
    most urgent priority that a call may have; `now` is in UTC. `specialists`: without them every agent is the
    LegacyAgent. `away` are listed servers without their tools, and why. `permits` are those of the task's spec,
    `absent_tools` are tools of other servers that are not offered, and why: those of the window are added. `internal`
    is what is inside of the client."""

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
    absent_tools: dict[str, str] = field(default_factory=dict)
    internal: domains.Internal = domains.NOTHING
    permits: tuple[Permit, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """The delegation waits for a person; it goes on when it is worked on again after the decision."""

    requests: tuple[tool_calls.Request, ...]


class _Held(Exception):  # noqa: N818 - not an error: the loop waits
    """Calls wait for a person, and nothing else is left to do."""

    def __init__(self, waiting: Waiting) -> None:
        super().__init__()
        self.waiting = waiting


class Parent(Protocol):
    """What carries out the delegations of a round, as the loop of one of them needs it (`executor.Executor`)."""

    desk: tool_calls.Desk

    def opening(
        self,
        agent: registry.Agent,
        message: delegation_models.DelegationMessage,
        began: datetime,
        offered: Collection[str],
        results: builtin.Results,
        done: Sequence[str],
    ) -> list[agent_prompt.Message]:
        """The beginning of an agent's talk."""
        ...

    def known(self, message: delegation_models.DelegationMessage) -> seen_texts.SeenTexts:
        """What the agent has read when it begins."""
        ...

    def taken_over(self, message: delegation_models.DelegationMessage) -> str:
        """The delegation that has given up this one's task, or nothing."""
        ...

    def own(self, agent: registry.Agent, message: delegation_models.DelegationMessage) -> list[port.Tool]:
        """The tools that an agent has besides its own."""
        ...

    async def sub(
        self, message: delegation_models.DelegationMessage, read: seen_texts.SeenTexts
    ) -> delegation_models.AgentOutput | Waiting:
        """A delegation of an agent, which has `read` that, to another. Raises `port.Misused` where there is none that
        could be given it."""
        ...


class _Stopped(Exception):  # noqa: N818 - an end of the loop
    """The agent was stopped, and nothing waits any more."""

    def __init__(self, why: errors.BudgetExhausted | errors.Stuck) -> None:
        super().__init__()
        self.why = why


@dataclass(frozen=True, slots=True)
class Ended:
    """`reported`: by the agent itself; else it was stopped. `escalates`: the LegacyAgent takes it over."""

    output: delegation_models.AgentOutput
    reported: bool
    escalates: bool
    subs: int


class Loop:
    """The loop of one delegation."""

    def __init__(
        self,
        parent: Parent,
        means: Means,
        held: rules_context.Standing,
        agent: registry.Agent,
        message: delegation_models.DelegationMessage,
    ) -> None:
        self._parent = parent
        self._means = means
        self._held = held
        self._agent = agent
        self._message = message
        self._known = parent.known(message)
        self._results = builtin.Results(means.window)
        self._references: dict[int, str] = {}
        self._tools = self._offered()
        self._watch = repetition.Watch()
        self._made = loop_state.Made()
        self._recorded: list[loop_state.Recorded] = []
        self._most = agent.model_calls
        self._effects = 0
        """Those that were done or recorded."""
        self._ordinal = 0
        self._calls = 0
        self._tokens = 0
        self._mistakes = 0
        self._retries = 0
        self._record: journal.Record
        self._began: datetime

    async def run(self) -> Ended | Waiting:
        """To its report, to its end without one, or to the calls that wait."""
        self._record = await self._means.records.open(self._message.delegation_id)
        begun = await self._record.recall(0, Kind.BEGUN)
        if begun is None:
            begun = {"at": self._means.now().isoformat(), "agent": self._agent.capability.name}
            await self._record.keep(0, Kind.BEGUN, begun)
        self._began = datetime.fromisoformat(begun["at"])
        name = self._agent.capability.name
        with self._means.recorder.agent(name, self._message.delegation_id, self._means.model) as tell:
            try:
                output = await self._to_report()
                # Reported by the agent itself; a stopped one is not asked of another agent.
                judged = protocol.verdict(output, tries=protocol.RETRIES)
                escalates = isinstance(judged, protocol.Escalate) and name != registry.LEGACY
                ended = Ended(output, reported=True, escalates=escalates, subs=len(self._made.subs))
            except _Held as held:
                tell("jervis.waiting", True)
                return held.waiting
            except _Stopped as stopped:
                error = stopped.why
                tell("error.type", error.reason.value)
                output = self._made.into(loop_state.stopped(self._message, name, error, self._made))
                ended = Ended(output, reported=False, escalates=False, subs=len(self._made.subs))
            # Whatever it has read may be in its words.
            ended = replace(ended, output=ended.output.model_copy(update={"readers": self._known.readers}))
            tell("jervis.success", ended.output.success)
            tell("jervis.confidence", ended.output.confidence)
        took, went = (self._tokens, self._calls, ended.subs), (ended.reported, ended.escalates, self._retries)
        done = Counter(allowed["by"] for _, allowed in await self._means.book.done(self._message.delegation_id))
        end = metrics.End(name, begun["at"], *took, *went, done)
        await self._means.counts.record(self._message, ended.output, end)
        return ended

    async def _to_report(self) -> delegation_models.AgentOutput:
        """The report. Raises _Held, and _Stopped once what was recorded before is decided and done."""
        try:
            return await self._reported()
        except (errors.BudgetExhausted, errors.Stuck) as error:
            await self._decided()
            raise _Stopped(error) from error

    async def _reported(self) -> delegation_models.AgentOutput:
        """The report."""
        # Effects of this round are there too: an agent that takes a task over must not do them again.
        effects = await self._means.book.effects(delegation_progress.round_of(self._message.delegation_id) + 1)
        done = duplicate_effects.done(effects, self._message.delegation_id)
        # The lines have what other agents' calls gave.
        self._known = self._known.more(seen_texts.Passage(line, "what this task has done") for line in done)
        opening = self._parent.opening
        turns = opening(self._agent, self._message, self._began, self._tools.callable, self._results, done)
        self._offer_results()
        tries, pieces = 0, ""
        while True:
            reply = await self._reply(turns)
            if reply.calls:
                self._made.said.append(reply.text)
                turns.append(agent_prompt.called(reply.text, reply.calls, reply.thinking))
                before = self._effects
                for call in reply.calls:
                    turns.append(self._given(call, await self._result(call), len(turns)))
                # An order for many effects ends where none is left; the calls of the round bound it.
                self._most += self._effects > before
                continue
            pieces += reply.text
            self._made.said.append(pieces)
            turns.append(agent_prompt.called(reply.text, ()))
            if reply.cut and not reply.endless:
                turns.append(agent_prompt.said(agent_prompt.GO_ON))
                continue
            if self._recorded:
                # Not judged: it is about what was still open.
                turns += await self._decided_turns(len(turns))
                tries, pieces = 0, ""
                continue
            output = protocol.parse(
                pieces, delegation_id=self._message.delegation_id, agent_name=self._agent.capability.name
            )
            if reply.endless:
                output = protocol.endless(output)
            judged = protocol.verdict(output, tries=tries)
            last = self._calls >= self._most
            if not isinstance(judged, protocol.Retry) or last:
                return self._made.into(output)
            tries, pieces = tries + 1, ""
            self._retries = tries
            turns.append(agent_prompt.again(judged.why))

    async def _reply(self, turns: list[agent_prompt.Message]) -> loop_state.Reply:
        """The model's next turn, from the journal or from the model."""
        self._calls += 1
        self._ordinal += 1
        most = self._most
        if self._calls > most:
            raise errors.BudgetExhausted(f"{self._agent.capability.name} has used all of its {most} model calls.")
        last = self._calls == most
        if last:
            turns.append(agent_prompt.said(agent_prompt.LAST))
        kept = await self._record.recall(self._ordinal, Kind.REPLY)
        if kept is None:
            tools = [] if last else self._tools.offered()
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
        """What a call gave; a call that cannot be carried out, or that waits for a person, is answered too."""
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
        sub_id = ""
        if name == registry.DELEGATE and not kept["mistaken"]:
            sub_id = self._sub_id()
            self._made.subs.append(sub_id)
        self._tools.called(name, call["arguments"])
        result = loop_state.restored(kept)
        if kept.get("waits"):
            decided = result if kept["waits"] == _DECIDED else None
            self._recorded.append(loop_state.Recorded(self._ordinal, call, sub_id, decided))
            self._effects += 1
            return port.Result(loop_state.WAITS)
        self._take(call, result)
        tool = self._tools.get(name)
        done = tool is not None and port.acts(tool) and not result.failed
        self._effects += done
        self._watch.found(result.text, failed=result.failed, changed=bool(result.changed_files) or done)
        return result

    def _take(self, call: Mapping[str, Any], result: port.Result) -> None:
        self._made.take(str(call["name"]), call["arguments"], result)
        self._known = self._known.more(seen_texts.of_result(str(call["name"]), result))

    def _given(
        self, call: Mapping[str, Any], result: port.Result, place: int, sub_id: str = ""
    ) -> agent_prompt.Message:
        """The turn with what a call gave, at that place of the talk: that of another agent whole, or where to read
        it."""
        if call["name"] == registry.DELEGATE and not result.failed and result.text != loop_state.WAITS:
            about = result.text.partition("\n")[0]
            reference = self._results.keep(sub_id or self._made.subs[-1], result.text, about)
            self._references[place] = reference
            self._offer_results()
            result = result if self._results.fits(result.text) else replace(result, text=reference)
        return agent_prompt.given(call["name"], result, self._means.window)

    async def _decided(self) -> list[loop_state.Recorded]:
        """What was recorded, with its results: approved effects are carried out now, in order, as they were approved.
        Raises _Held where a person has to decide about some; those that are decided are done then. An outage ends the
        run: nothing behind it is done before it."""
        waiting: list[tool_calls.Request] = []
        for one in self._recorded:
            if one.result is not None:
                continue
            done = await self._again(one)
            if isinstance(done, port.Result):
                kept = {**loop_state.stored(done), "mistaken": False, "waits": _DECIDED}
                own = () if one.sub_id else loop_state.contents(kept)
                await self._record.keep(one.ordinal, Kind.RESULT, kept, own)
                one.result = done
            else:
                waiting += done.requests
        if waiting:
            raise _Held(Waiting(tuple(waiting)))
        decided, self._recorded = self._recorded, []
        for one in decided:
            assert one.result is not None
            self._take(one.call, one.result)
        return decided

    async def _decided_turns(self, place: int) -> list[agent_prompt.Message]:
        """The turns that give the model what was decided, as its own calls with their results."""
        decided = await self._decided()
        self._most = max(self._most, self._calls + AFTERWARDS)
        turns = [agent_prompt.said(agent_prompt.DECIDED), agent_prompt.called("", [one.call for one in decided])]
        for one in decided:
            assert one.result is not None
            turns.append(self._given(one.call, one.result, place + len(turns), one.sub_id))
        return turns

    async def _again(self, one: loop_state.Recorded) -> port.Result | Waiting:
        """A recorded call, as a person has decided about it by now. Raises NotBegun where its tool is away, which an
        approval outlasts."""
        name, arguments = str(one.call["name"]), one.call["arguments"]
        tool = self._tools.get(name)
        if tool is None:
            absent = self._means.absent_tools.get(name, f"There is no tool {name[:100]!r} now.")
            why = self._means.away.get(name.partition(".")[0], absent)
            step = tool_calls.approval(self._message.delegation_id)
            decided = await self._means.book.verdict(step, {"tool": name}, one.ordinal)
            if decided is not None and decided.verdict is pendingtask.Verdict.REJECTED:
                return tool_calls.rejected(decided)
            raise errors.NotBegun(f"{why.rstrip('.')}. The call of {name} waits for it.")
        try:
            given = port.parse(tool, arguments)
            if one.sub_id:
                return await self._delegated(given, one.sub_id)
            step = tool_calls.approval(self._message.delegation_id)
            if await self._means.book.decided(step, one.ordinal) is None:
                # Asked about again: there was a span when it was recorded.
                return await self._called(tool, given, one.ordinal)
            return await self._observed(tool, given, one.ordinal, "")
        except port.Misused as error:
            return port.Result(error.message, failed=True)

    def _offer_results(self) -> None:
        if len(self._results):
            self._tools.add(self._results)

    async def _fresh(self, name: str, arguments: object) -> dict[str, Any]:
        """The result of a call that is not in the journal."""
        tool = self._tools.get(name)
        why = self._means.away.get(name.partition(".")[0]) or self._means.absent_tools.get(name)
        if tool is None and why:
            return {**loop_state.stored(tool_calls.absent(why)), "mistaken": False}
        try:
            if tool is None:
                raise port.Misused(f"There is no tool {name[:100]!r}; there are {', '.join(self._tools.names)}.")
            given = port.parse(tool, arguments)
            done = await self._observed(tool, given, self._ordinal, "")
        except port.Misused as error:
            return {**loop_state.stored(port.Result(error.message, failed=True)), "mistaken": True}
        if isinstance(done, Waiting):
            return {**loop_state.stored(port.Result(loop_state.WAITS)), "mistaken": False, "waits": _OPEN}
        return {**loop_state.stored(done), "mistaken": False}

    async def _observed(self, tool: port.Tool, given: Any, ordinal: int, sub_id: str) -> port.Result | Waiting:
        """The result, within a span of the tool's, or what waits for a person."""
        with self._means.recorder.tool(tool.name, self._agent.capability.name) as tell:
            delegates = isinstance(tool, builtin.Delegating)
            done = await (self._delegated(given, sub_id) if delegates else self._called(tool, given, ordinal))
            if isinstance(done, Waiting):
                tell("jervis.waiting", True)
            elif done.failed:
                tell("error.type", "failed")
        return done

    async def _called(self, tool: port.Tool, given: Any, ordinal: int) -> port.Result | Waiting:
        place = port.Place(
            viewer=self._means.viewer,
            delegation_id=self._message.delegation_id,
            ordinal=ordinal,
            round=delegation_progress.round_of(self._message.delegation_id),
            language=self._message.response_language,
        )
        # What only reads ends with the time of delegations; an effect that was begun is carried to its end.
        async with self._means.pool.in_time(final=port.acts(tool)):
            done = await tool_calls.call(
                tool,
                given,
                place,
                self._parent.desk,
                agent=self._agent.capability.name,
                known=self._known.at(self._began.astimezone(time_zones.zone(self._held.zone)).date()),
                taken_over=self._parent.taken_over(self._message),
            )
        return Waiting((done,)) if isinstance(done, tool_calls.Request) else done

    def _sub_id(self) -> str:
        return f"{self._message.delegation_id}.{len(self._made.subs) + 1}"

    async def _delegated(self, given: builtin.Delegate, sub_id: str) -> port.Result | Waiting:
        sub_id = sub_id or self._sub_id()
        message = self._message.model_copy(
            update={
                "delegation_id": sub_id,
                "parent_delegation_id": self._message.delegation_id,
                "depth": self._message.depth + 1,
                "agent_name": given.agent,
                "task_summary": given.task,
                "context": given.context,
                "expected_output": given.expected_output,
                "readers": self._known.readers,
            }
        )
        ended = await self._parent.sub(message, self._known)
        if isinstance(ended, Waiting):
            return ended
        state = "done" if ended.success else "not done, or not whole"
        issues = ended.structured_data.get("issues")
        more = f"\nISSUES: {prompt_budget.plainly(issues)}" if issues else ""
        text = f"{ended.agent_name} ({state}, confidence {ended.confidence:g}):\n{ended.result}{more}"
        return port.Result(
            text,
            parts=(port.Part(f"{ended.agent_name} ({sub_id})", 0, len(text), ended.readers),),
            artifacts=ended.artifacts,
            changed_files=ended.changed_files,
            failed=not ended.success and not ended.result.strip(),
        )

    def _offered(self) -> tool_choice.Choice:
        # Those of listed servers (SERVER.TOOL) are every agent's; a client has them because an operator listed it.
        others = registry.permitted((one for one in self._means.tools if "." in one), self._held.provisions)
        tools = self._means.tools
        own = {name: tools[name] for name in self._agent.capability.tool_names if name in tools}
        own |= {tool.name: tool for tool in self._parent.own(self._agent, self._message)}
        return tool_choice.Choice(
            own, {name: tools[name] for name in others}, self._means.window, self._means.absent_tools
        )
