"""The graphs of a run on one task, put together: each node with what it works with. Nothing is decided here.

What only some runs need (agents, tools, procedures) is imported when the first node that needs it is reached.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crds import pendingtask
from orchestrator_job.agents import dag
from orchestrator_job.answer import question
from orchestrator_job.model import budget, intent, model_calls, rules_context
from orchestrator_job.plan import goal_paths, run_plan_nodes
from orchestrator_job.run import consult, finalize, node_records, nodes, run_context, undone
from orchestrator_job.store import graph_state, retry
from orchestrator_job.store.graph_state import State
from router.client import asking

if TYPE_CHECKING:
    from orchestrator_job.agents import execution
    from orchestrator_job.run import delegation_wiring as delegation
    from orchestrator_job.run import graph

_IN_TIME = 0.8
"""Share of the run's time for delegations; the synthesis has the rest."""
_FIRST_SEARCH = 0.75
"""Share of the evidence's characters for the first search of a run that makes a plan; its steps fill the rest."""
_PASSAGES = 10
"""Passages of the search before the answer, as many as a caller of `/retrieve` gets who names no number."""


@dataclass
class Wiring:
    """The graphs of a run on its task. `noted` takes the times of nodes."""

    run: run_context.RunContext
    noted: node_records.Steps
    delegates: bool = False
    """Whether delegations may be at work: of the delegation graph, or of the other one once it has come to them."""
    agent: consult.Consult = field(init=False)

    def __post_init__(self) -> None:
        self.agent = consult.Consult(self.run)

    def program(self, graph_module: Any, saver: Any, path: str) -> graph.Program:
        """The program of one of the two graphs, on the task's thread."""
        settings = self.run.settings
        delegates = self.delegates = path == graph_state.DELEGATION
        found = self._delegating() if delegates else self._legacy()
        observed = [(name, self._observed(name, node)) for name, node in found]
        if delegates:
            order = dag.Dag(side_by_side=settings.use_dag_execution)
            fan = graph_module.Fan(dag.EXECUTE, (dag.ASK, dag.CONSENT, dag.SYNTHESIZE), order.next)
            ends = graph_module.Fan("approve", (), lambda state: "approve")
            fans = {dag.PLAN: fan, dag.ASK: ends, dag.CONSENT: fan, **self._consulting(graph_module)}
        else:
            follows = goal_paths.follows(plans=settings.plans)
            fans = {name: graph_module.Fan(to[0], to[1:], choose) for name, (to, choose) in follows.items()}
            fans |= self._consulting(graph_module)
        program: graph.Program = graph_module.Program(
            observed,
            saver,
            self.run.task.task_uid,
            graph_module.Bound.of(settings.max_steps, self.run.task.budget.max_steps if self.run.task.budget else None),
            fans,
            settings.delegations_at_once,
        )
        return program

    def _consulting(self, graph_module: Any) -> dict[str, graph.Fan]:
        """The way by the decision agent, which is the same in both graphs."""

        def after_intake(state: State) -> str:
            consulted = self._may_consult and consult.consults(state, delegates=self.run.settings.use_delegation_graph)
            return consult.NAME if consulted else "evidence"

        return {
            "intake": graph_module.Fan("evidence", (consult.NAME,), after_intake),
            consult.NAME: graph_module.Fan("approve", (), lambda state: "approve"),
        }

    @property
    def _may_consult(self) -> bool:
        return self.run.settings.use_decision_agent and self.run.task.type is pendingtask.Type.USER_INPUT

    def _observed(self, name: str, node: graph_state.Node) -> graph_state.Node:
        """`node` within its own span, and with its times noted."""

        async def step(state: State) -> State:
            number = state["round"]
            with (
                self.run.recorder.node(name, number, state.get("active_delegation_id")) as used,
                self.noted.around(name, number, used),
            ):
                return await node(state)

        return step

    def _legacy(self) -> list[tuple[str, graph_state.Node]]:
        """The nodes of the legacy graph, in an order in which one without a choice is followed by the next."""
        own = dict(self._nodes())

        @functools.cache
        def built() -> Mapping[str, graph_state.Node]:
            # A run that only answers starts without them.
            from orchestrator_job.run import goal_wiring as legacy

            self.delegates = True
            return legacy.nodes(self._parts(), self._opener())

        def later(name: str) -> graph_state.Node:
            async def step(state: State) -> State:
                return await built()[name](state)

            return step

        async def answered(state: State) -> State:
            return await (later(goal_paths.RESPOND) if goal_paths.worked(state) else own[goal_paths.RESPOND])(state)

        respond = self._concluded(answered)

        return [
            *((name, own[name]) for name in ("intake", consult.NAME, "evidence")),
            *((name, later(name)) for name in goal_paths.NAMES),
            *((name, own[name]) for name in ("plan", "follow")),
            (goal_paths.RESPOND, respond),
            *((name, own[name]) for name in ("approve", "finalize")),
        ]

    def _delegating(self) -> list[tuple[str, graph_state.Node]]:
        """The nodes of the delegation graph; those at its ends are the ones of the other graph."""
        legacy = dict(self._nodes())
        parts = self._parts()
        return [
            *((name, legacy[name]) for name in ("intake", consult.NAME, "evidence")),
            (dag.PLAN, parts.plan()),
            (dag.ASK, parts.ask()),
            (dag.EXECUTE, parts.execute(self._opener())),
            (dag.CONSENT, parts.consent()),
            (dag.SYNTHESIZE, self._concluded(parts.synthesize())),
            *((name, legacy[name]) for name in ("approve", "finalize")),
        ]

    def _parts(self) -> delegation.Parts:
        """What delegations work with."""
        # A run that does not delegate starts without them.
        from orchestrator_job.run import delegation_wiring as delegation

        loop = asyncio.get_running_loop()
        late = self.run.ends - self.run.settings.working_seconds * (1 - _IN_TIME)
        return delegation.Parts(self.run, left=lambda: late - loop.time())

    def _opener(self) -> execution.Opener:
        """Builds the tools of agents when the first delegation begins."""
        from orchestrator_job.effects.tools import settings as tool_settings
        from orchestrator_job.effects.tools import toolbox
        from sources import client as sources_client

        async def open_box(held: rules_context.Standing) -> toolbox.Toolbox:
            means = toolbox.Means(
                settings=tool_settings.Settings(),
                viewer=self.run.task.scope,
                rules=held.provisions,
                namespace=self.run.settings.task_namespace,
                urgency=self.run.beside,
                kb=self.run.kb,
                http=self.run.http,
                token=sources_client.token_file(self.run.settings.run_token_file),
                database=self.run.database,
                guard=self.run.guard,
                now=self.run.now,
            )
            return await toolbox.Toolbox.open(means)

        return open_box

    def _nodes(self) -> list[tuple[str, graph_state.Node]]:
        """The nodes that read, answer and end."""
        context, settings = self.run, self.run.settings
        room = question.Room.of(settings.evidence_chars, settings.num_ctx)
        first_chars = int(settings.evidence_chars * (_FIRST_SEARCH if settings.plans else 1))
        return [
            ("intake", self._settling()),
            (consult.NAME, self._concluded(self.agent)),
            ("evidence", nodes.Evidence(context, max_results=_PASSAGES, context_chars=first_chars, room=room)),
            (
                "plan",
                run_plan_nodes.MakePlan(
                    context.task,
                    context.kb,
                    context.store,
                    self._planning(),
                    context.loader,
                    model=settings.planner_model,
                    urgency=context.beside,
                    num_ctx=settings.planner_num_ctx,
                    seconds=settings.plan_seconds,
                    now=context.now,
                    kinds=context.kinds,
                ),
            ),
            (
                "follow",
                run_plan_nodes.FollowPlan(
                    context.task,
                    context.kb,
                    context.store,
                    context.retries,
                    context.loader,
                    urgency=context.beside,
                    context_chars=settings.evidence_chars,
                    room=room,
                ),
            ),
            ("respond", nodes.Respond(context, self._asking(context.limits, context.retries), room)),
            ("approve", finalize.Approval(context)),
            ("finalize", finalize.Finalize(context, self._learn)),
        ]

    def _concluded(self, node: graph_state.Node) -> graph_state.Node:
        """The node, whose answer ends with what was not done."""
        return undone.Concluded(self.run, node, self._asking(self.run.limits, retry.Retry(undone.UNAVAILABLE_SECONDS)))

    def _asking(self, limits: budget.Limits, retries: retry.Retry) -> model_calls.Asking:
        return model_calls.Asking(self.run.router, budget.Budget(self.run.guard, limits), retries)

    def _planning(self) -> model_calls.Asking:
        """How a plan is asked for: the calls and the tokens of the answer are not the plan's."""
        limits, seconds = self.run.limits, self.run.settings.unavailable_seconds
        calls = max(0, limits.llm_calls - 1 - (asking.ATTEMPTS - 1))
        tokens = limits.tokens and limits.tokens // 2
        retries = retry.Retry(min(seconds, run_plan_nodes.UNAVAILABLE_SECONDS))
        return self._asking(budget.Limits(calls, tokens), retries)

    async def _learn(self, state: State, answered: bool) -> None:
        if state.get("lesson"):
            # A run that teaches nothing starts without it.
            from orchestrator_job.plan import procedure_store

            await procedure_store.Learning(self.run.kb, self.run.task.scope, self.run.store, self.run.book).after(
                state, answered=answered
            )

    def _settling(self) -> graph_state.Node:
        """Intake, which first of all in a round settles the effects that earlier rounds have begun. Raises
        NeedsApproval where a person has to decide about one."""
        read = nodes.Intake(self.run)
        kinds = (
            tuple(intent.MEANS)[len(intent.ANSWERED) :] if self.run.settings.use_delegation_graph else self.run.kinds
        )
        asks = self._asking(self.run.limits, self.run.retries)
        wanted = consult.AskIntent(self.run, asks, kinds) if self._may_consult else None

        async def intake(state: State) -> State:
            changed = await read(state)
            number = state["round"]
            if wanted is not None:
                changed |= await wanted({**state, **changed})
            book = self.run.book
            if number > 1 and (await book.started(number) or await book.approved(number)):
                parts = self._parts()
                known: State = {**state, **changed}
                requests = await parts.unsettled(self._opener()).settle(number, await self.run.loader.of(known))
                if requests:
                    raise await parts.consent().refusal(known, requests)
            return changed

        return intake
