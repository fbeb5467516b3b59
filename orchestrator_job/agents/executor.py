"""Carries out the delegations of one round: each by its agent's loop, and what an agent gives up by another one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from orchestrator_job import errors
from orchestrator_job.agents import agent_prompt, builtin, loop, loop_state, protocol, registry, tool_choice
from orchestrator_job.effects import allowance, seen_texts, tool_calls
from orchestrator_job.effects.tools import port
from orchestrator_job.model import rules_context
from orchestrator_job.store import delegation_models, delegation_progress


class Executor:
    """Carries out delegations of one round. `known` are the texts of the task, `held` its rules, `earlier` what was
    handed back before, and `opens` a tool for what is not whole in it. `whole` is what the user wants, where the
    context of a delegation has not all of it: its agent reads it in parts."""

    def __init__(
        self,
        means: loop.Means,
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
        told = {
            "who the user is": held.context,
            "what was done lately": held.session,
            "what was said before": held.conversation,
        }
        self._known = known.more(seen_texts.Passage(text, source) for source, text in told.items() if text)
        self._known = self._known.more(_passages(earlier))
        self._earlier = earlier
        self._first: dict[str, delegation_models.AgentOutput] = {}
        """What was reported before an escalation, by the delegation that goes on with it."""
        self._above: dict[str, tuple[seen_texts.Passage, ...]] = {}
        """What the agent has read that worded a delegation, by the delegation."""
        self._agents = means.agents.visible(held.provisions)
        grants = allowance.Grants(
            (*allowance.of_task(means.permits), *allowance.standing(held)), held.provisions.needs_approval
        )
        self.desk = tool_calls.Desk(means.book, grants, means.retries, means.now)

    async def work(self, message: delegation_models.DelegationMessage) -> delegation_models.AgentOutput | loop.Waiting:
        """What the agent hands back, a report without success included. Raises Fenced, and what the clients raise when
        their services stay away: the delegation is resumed then."""
        agent = self._agent(message.agent_name)
        try:
            round_number = delegation_progress.round_of(message.delegation_id)
            await self._means.pool.delegate(round_number, message.delegation_id, message.depth)
        except errors.BudgetExhausted as error:
            return loop_state.stopped(message, agent.capability.name, error, loop_state.Made())
        ended = await loop.Loop(self, self._means, self._held, agent, message).run()
        if isinstance(ended, loop.Waiting):
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
                *tool_choice.lacking(self._means.absent_tools, self._means.away),
            ],
            context_tokens=agent.context_tokens,
        )

    def known(self, message: delegation_models.DelegationMessage) -> seen_texts.SeenTexts:
        """The texts that count as read. A model worded its task, which may have copies of all that model has read."""
        readers = seen_texts.joint([message.readers, self._known.readers])
        given = [seen_texts.Passage(message.context, "another agent", readers)] if message.context else []
        above = self._above.get(message.delegation_id, ())
        return self._known.more([*above, *given, *_passages(self._before(message))])

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

    async def sub(
        self, message: delegation_models.DelegationMessage, read: seen_texts.SeenTexts
    ) -> delegation_models.AgentOutput | loop.Waiting:
        """A delegation of an agent, which has `read` that, to another. Raises `port.Misused` where there is none that
        could be given it."""
        try:
            agent = self._agents.agent(message.agent_name)
        except KeyError as error:
            names = ", ".join(one.capability.name for one in self._agents.specialists)
            raise port.Misused(f"There is no agent {message.agent_name!r}; there are {names}.") from error
        if message.depth > agent.capability.max_depth:
            raise port.Misused(f"{agent.capability.name} is not given work at depth {message.depth}.")
        self._above[message.delegation_id] = read.passages
        return await self.work(message)

    def _agent(self, name: str) -> registry.Agent:
        if not self._means.specialists:
            return self._agents.legacy
        try:
            return self._agents.agent(name)
        except KeyError:
            return self._agents.legacy

    async def _escalated(
        self, message: delegation_models.DelegationMessage, ended: loop.Ended
    ) -> delegation_models.AgentOutput | loop.Waiting:
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
        self._above[sub.delegation_id] = self._above.get(message.delegation_id, ())
        second = await self.work(sub)
        if isinstance(second, loop.Waiting):
            return second
        subs = (*first.sub_delegations, sub.delegation_id)
        if isinstance(protocol.verdict(second, tries=protocol.RETRIES), protocol.Accept):
            return second.model_copy(
                update={"delegation_id": message.delegation_id, "sub_delegations": (*subs, *second.sub_delegations)}
            )
        return first.model_copy(update={"sub_delegations": subs, "success": False, "needs_verification": True})


def _passages(outputs: Sequence[delegation_models.AgentOutput]) -> list[seen_texts.Passage]:
    """What agents handed back, which has texts of others in it."""
    return [seen_texts.Passage(one.result, f"{one.agent_name} ({one.delegation_id})", one.readers) for one in outputs]
