"""The graphs of a run on one task, put together: each node with what it works with. Nothing is decided here.

What only some runs need (agents, tools, procedures) is imported when the first node that needs it is reached.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import httpx

from crds import pendingtask
from crds.priority import Priority
from kb import client as kb_client
from orchestrator_job.agents import dag
from orchestrator_job.answer import language, question
from orchestrator_job.context import conversation, rules_loader
from orchestrator_job.effects import ledger, patches
from orchestrator_job.model import rules_context, telemetry
from orchestrator_job.plan import category, goal_paths, run_plan_nodes
from orchestrator_job.run import consult, finalize, node_records, nodes
from orchestrator_job.settings import Settings
from orchestrator_job.store import artifacts, fence, graph_state, mongo, retry, task_memory, task_memory_reader
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


@dataclass(kw_only=True)
class Wiring:
    """What a run has of one process, and its task. `noted` takes the times of nodes, `ends` is the loop's time at which
    the run ends, `now` is in UTC."""

    settings: Settings
    task: task_memory.TaskMemory
    database: mongo.Database
    http: httpx.AsyncClient
    insistence: retry.Patience
    guard: fence.Fence
    store: artifacts.Artifacts
    kb: kb_client.Client
    router: telemetry.Router
    recorder: telemetry.Recorder
    noted: node_records.Steps
    ends: float
    now: Callable[[], datetime]
    delegates: bool = False
    """Whether delegations may be at work: of the delegation graph, or of the other one once it has come to them."""
    book: ledger.Ledger = field(init=False)
    loader: rules_loader.Loader = field(init=False)
    account_of: finalize.Account = field(init=False)
    agent: consult.Consult = field(init=False)

    def __post_init__(self) -> None:
        settings, task = self.settings, self.task
        self.book = ledger.Ledger(self.database, self.guard, self.now, task.approvals)
        self.loader = rules_loader.Loader(
            self.kb,
            task.scope,
            self.store,
            self.insistence,
            context_chars=settings.evidence_chars,
            said=conversation.Conversation(self.database, task, self.now).shown,
            task_uid=task.task_uid,
            restricted=bool(task.on_behalf_of),
        )
        changes = patches.Patches(self.database, self.guard, self.store, self.book)
        self.account_of = finalize.Account(
            task, self.store, self.loader, self.book, changes, model=settings.model, now=self.now
        )
        self.agent = consult.Consult(
            task,
            self.kb,
            self.store,
            self.guard,
            self.insistence,
            self.loader,
            urgency=beside(settings),
            max_calls=smaller(settings.max_llm_calls, task.budget, "max_llm_calls"),
            max_tokens=task.budget.max_tokens if task.budget is not None else None,
            context_chars=settings.evidence_chars,
        )

    def program(self, graph_module: Any, saver: Any, path: str) -> graph.Program:
        """The program of one of the two graphs, on the task's thread."""
        settings = self.settings
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
            self.task.task_uid,
            graph_module.Bound.of(settings.max_steps, self.task.budget.max_steps if self.task.budget else None),
            fans,
            settings.delegations_at_once,
            self.guard.steps,
        )
        return program

    def _consulting(self, graph_module: Any) -> dict[str, graph.Fan]:
        """The way by the decision agent, which is the same in both graphs."""

        def after_intake(state: State) -> str:
            wanted = self.settings.use_decision_agent
            return consult.NAME if consult.consults(state, self.task, wanted=wanted) else "evidence"

        return {
            "intake": graph_module.Fan("evidence", (consult.NAME,), after_intake),
            consult.NAME: graph_module.Fan("approve", (), lambda state: "approve"),
        }

    def _observed(self, name: str, node: graph_state.Node) -> graph_state.Node:
        """`node` within its own span, and with its times noted."""

        async def step(state: State) -> State:
            number = state["round"]
            with (
                self.recorder.node(name, number, state.get("active_delegation_id")) as used,
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
            return legacy.nodes(self._parts(), beside(self.settings), self._opener())

        def later(name: str) -> graph_state.Node:
            async def step(state: State) -> State:
                return await built()[name](state)

            return step

        async def respond(state: State) -> State:
            return await (later(goal_paths.RESPOND) if goal_paths.worked(state) else own[goal_paths.RESPOND])(state)

        return [
            *((name, own[name]) for name in ("intake", consult.NAME, "evidence")),
            *((name, later(name)) for name in goal_paths.NAMES),
            *((name, own[name]) for name in ("plan", "follow")),
            (goal_paths.RESPOND, respond),
            *((name, own[name]) for name in ("approve", "finalize")),
        ]

    def _recognized(self, document: str) -> Mapping[str, str]:
        """Category and action of the task's text; a task without delegations has an answer alone."""
        settings, task = self.settings, self.task
        if not (
            smaller(settings.max_delegations, task.budget, "max_delegations")
            and smaller(settings.max_depth, task.budget, "max_depth")
        ):
            return {"category": "", "action": category.Action.RESPOND}
        spoken = language.of([document])
        kind, action = category.path(task, document, spoken, outside=bool(settings.sources_url))
        return {"category": kind.value, "action": action.value}

    def _delegating(self) -> list[tuple[str, graph_state.Node]]:
        """The nodes of the delegation graph; those at its ends are the ones of the other graph."""
        legacy = dict(self._nodes())
        parts, urgency = self._parts(), beside(self.settings)
        return [
            *((name, legacy[name]) for name in ("intake", consult.NAME, "evidence")),
            (dag.PLAN, parts.plan(urgency)),
            (dag.ASK, parts.ask()),
            (dag.EXECUTE, parts.execute(self._opener())),
            (dag.CONSENT, parts.consent()),
            (dag.SYNTHESIZE, parts.synthesize(urgency)),
            *((name, legacy[name]) for name in ("approve", "finalize")),
        ]

    def _parts(self) -> delegation.Parts:
        """What delegations work with."""
        # A run that does not delegate starts without them.
        from orchestrator_job.run import delegation_wiring as delegation

        loop = asyncio.get_running_loop()
        late = self.ends - self.settings.working_seconds * (1 - _IN_TIME)
        return delegation.Parts(
            settings=self.settings,
            task=self.task,
            database=self.database,
            guard=self.guard,
            store=self.store,
            book=self.book,
            loader=self.loader,
            kb=self.kb,
            router=self.router,
            insistence=self.insistence,
            account_of=self.account_of,
            left=lambda: late - loop.time(),
            recorder=self.recorder,
            now=self.now,
        )

    def _opener(self) -> execution.Opener:
        """Builds the tools of agents when the first delegation begins."""
        from orchestrator_job.effects.tools import settings as tool_settings
        from orchestrator_job.effects.tools import toolbox
        from sources import client as sources_client

        async def open_box(held: rules_context.Standing) -> toolbox.Toolbox:
            means = toolbox.Means(
                settings=tool_settings.Settings(),
                viewer=self.task.scope,
                rules=held.provisions,
                namespace=self.settings.task_namespace,
                urgency=beside(self.settings),
                kb=self.kb,
                http=self.http,
                token=sources_client.token_file(self.settings.run_token_file),
                database=self.database,
                guard=self.guard,
                now=self.now,
            )
            return await toolbox.Toolbox.open(means)

        return open_box

    def _nodes(self) -> list[tuple[str, graph_state.Node]]:
        """The nodes that read, answer and end."""
        settings, task, store, guard, loader = self.settings, self.task, self.store, self.guard, self.loader
        max_calls = smaller(settings.max_llm_calls, task.budget, "max_llm_calls")
        max_tokens = task.budget.max_tokens if task.budget is not None else None
        room = question.Room.of(settings.evidence_chars, settings.num_ctx)
        return [
            ("intake", self._settling()),
            (consult.NAME, self.agent),
            (
                "evidence",
                nodes.Evidence(
                    task,
                    self.kb,
                    store,
                    self.insistence,
                    loader,
                    urgency=beside(settings),
                    max_results=_PASSAGES,
                    context_chars=int(settings.evidence_chars * (_FIRST_SEARCH if settings.plans else 1)),
                    room=room,
                ),
            ),
            (
                "plan",
                run_plan_nodes.MakePlan(
                    task,
                    self.kb,
                    self.router,
                    store,
                    guard,
                    retry.Patience(min(settings.unavailable_seconds, run_plan_nodes.UNAVAILABLE_SECONDS)),
                    loader,
                    model=settings.planner_model,
                    urgency=beside(settings),
                    num_ctx=settings.planner_num_ctx,
                    seconds=settings.plan_seconds,
                    # The calls and the tokens of the answer are not the plan's.
                    max_llm_calls=max(0, max_calls - 1 - (asking.ATTEMPTS - 1)),
                    max_tokens=max_tokens and max_tokens // 2,
                    now=self.now,
                ),
            ),
            (
                "follow",
                run_plan_nodes.FollowPlan(
                    task,
                    self.kb,
                    store,
                    self.insistence,
                    loader,
                    urgency=beside(settings),
                    context_chars=settings.evidence_chars,
                    room=room,
                ),
            ),
            (
                "respond",
                nodes.Respond(
                    self.router,
                    store,
                    guard,
                    self.insistence,
                    loader,
                    model=settings.model,
                    urgency=settings.priority,
                    num_ctx=settings.num_ctx,
                    max_llm_calls=max_calls,
                    max_tokens=max_tokens,
                    room=room,
                    now=self.now,
                ),
            ),
            ("approve", finalize.Approval(self.account_of, self.database, guard, self.book)),
            (
                "finalize",
                finalize.Finalize(
                    task,
                    self.account_of,
                    self.database,
                    guard,
                    self.book,
                    conversation.Conversation(self.database, task, self.now),
                    functools.partial(task_memory_reader.load, self.database, task.task_uid),
                    self._learn,
                    now=self.now,
                ),
            ),
        ]

    async def _learn(self, state: State, answered: bool) -> None:
        if state.get("lesson"):
            # A run that teaches nothing starts without it.
            from orchestrator_job.plan import procedure_store

            await procedure_store.Learning(self.kb, self.task.scope, self.store, self.book).after(
                state, answered=answered
            )

    def _settling(self) -> graph_state.Node:
        """Intake, which first of all in a round settles the effects that earlier rounds have begun. Raises
        NeedsApproval where a person has to decide about one."""
        read = nodes.Intake(self.task, self.kb, self.store, self.insistence, self.loader, self._recognized)

        async def intake(state: State) -> State:
            changed = await read(state)
            number = state["round"]
            if number > 1 and await self.book.started(number):
                parts = self._parts()
                known: State = {**state, **changed}
                request = await parts.unsettled(self._opener()).settle(number, await self.loader.of(known))
                if request is not None:
                    raise await parts.consent().refusal(known, request)
            return changed

        return intake


def beside(settings: Settings) -> Priority:
    """Priority of the run's queries to the knowledge base, which passes it to the router for embeddings.

    A Background run uses P1 at most: the router would count a P0 of the knowledge base as a user's request.
    """
    return max(settings.priority, Priority.P1) if settings.mode is pendingtask.Mode.BACKGROUND else settings.priority


def smaller(setting: int, budget: pendingtask.Budget | None, name: str) -> int:
    """The smaller one of the setting of runs and the field `name` of a task's budget, where it has that."""
    own = getattr(budget, name) if budget is not None else None
    return min(setting, own) if own is not None else setting
