"""The node `plan_delegations`: which agents do what, in which order, with which context.

In this order: a procedure that the user defined is followed as it stands, and one that is missing is asked for; else
the model says what is wanted and chooses agents. Where it chooses none one looks into what the team knows, and a plan
that it cannot make after two corrections becomes one delegation to the LegacyAgent. How the plan came about is recorded
in the state and in the session memory. The node only reads, stores content under its own hash, and settles repeatable
effects: a process that dies in it repeats it. In a round in which the user is asked it has none.

Source: seed 000 "Delegation Graph Flow", seed 001 "Procedural Memory" and "Session Memory".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import structlog
from pydantic import JsonValue

from crds import priority
from kb import api
from kb import client as kb_client
from orchestrator_job import errors, outcome
from orchestrator_job.agents import registry
from orchestrator_job.answer import evidence_pack, question_store
from orchestrator_job.context import rules_loader
from orchestrator_job.effects import ledger, results
from orchestrator_job.model import excerpt, intent, model_calls, prompt_escape, rules_context
from orchestrator_job.plan import (
    execution_plan,
    planner_prompt,
    procedure_question,
    procedure_store,
    procedures,
)
from orchestrator_job.store import artifacts, delegation_models, delegation_progress, mongo, task_memory
from orchestrator_job.store.graph_state import State
from router import client as router_client
from router.client import reading
from text import language

_log = structlog.get_logger("orchestrator_job.plan.plan_delegations")

NUM_CTX = 16_384
"""Window of the planning model where none is set, in tokens: the least that the workflow's role is meant to have."""
_SESSION_SECONDS = 5.0
_LOOKS = "Research"
"""The agent that looks into what the team knows."""


class Way(StrEnum):
    """How a plan came about."""

    ONE_LOOK = "one_look"
    PROCEDURE = "procedure"
    ASK = "ask"
    MODEL = "model"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True)
class Means:
    """What the node works with. `model` plans; `num_ctx` is its window; `now` is in UTC."""

    task: task_memory.TaskMemory
    kb: kb_client.Client
    store: artifacts.Artifacts
    loader: rules_loader.Loader
    asks: model_calls.Asking
    database: mongo.Database
    book: ledger.Ledger
    agents: registry.Registry
    model: str
    urgency: priority.Priority
    num_ctx: int | None
    now: Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class _Planned:
    way: Way
    domain: delegation_models.DomainType
    drafts: tuple[execution_plan.Wanted, ...]
    note: str = ""
    procedure: str | None = None
    declined: bool = False
    wanted: intent.Intent | None = None


@dataclass(frozen=True, slots=True)
class _Missing:
    """The user is asked for this procedure."""

    pattern: str


class PlanDelegations:
    """`specialists`: the flag use_specialist_agents; `side_by_side`: use_dag_execution; `by_procedure`:
    use_procedural_memory."""

    def __init__(self, means: Means, *, specialists: bool, side_by_side: bool, by_procedure: bool) -> None:
        self._means = means
        self._specialists = specialists
        self._side_by_side = side_by_side
        self._by_procedure = by_procedure

    async def __call__(self, state: State) -> State:
        """Writes execution_plan, domain, response_language and session_memory, and asked_procedure where one is
        missing. Raises Fenced, StoreUnavailable, what a refused token raises, and Unavailable while no model can be
        asked."""
        means, number = self._means, state["round"]
        held = await means.loader.of(state)
        items = evidence_pack.load(await means.store.get(state["pack"]))
        document = str(await means.store.get(state["document"]))
        # Not that of the state, which an earlier round has written.
        spoken = spoken_language(means.task, document)
        session = await self._session(state)
        agents = means.agents.visible(held.provisions)
        asked = await question_store.load(state, means.store)
        planned = await self._planned(state, asked, held, items, document, spoken, session, agents)
        listed: JsonValue = [one.model_dump(mode="json", by_alias=True) for one in session]
        lately = state.get("session_memory") or await means.store.put(listed, number)
        if isinstance(planned, _Missing):
            _log.info("a procedure is missing", pattern=planned.pattern)
            return {
                "execution_plan": {"key": "", "groups": [], "agents": {}, "way": Way.ASK.value},
                "asked_procedure": {"round": number, procedure_question.PATTERN: planned.pattern},
                "response_language": spoken,
                "session_memory": lately,
            }
        if not self._specialists:
            legacy = agents.legacy.name
            drafts = tuple(one.model_copy(update={"agent": legacy}) for one in planned.drafts)
        else:
            drafts = planned.drafts
        made = execution_plan.plan(
            drafts,
            planned.domain,
            number,
            viewer=means.task.scope,
            language=spoken,
            contexts=[planner_prompt.context(asked, items, agents.agent(one.agent).context_tokens) for one in drafts],
            side_by_side=self._side_by_side,
        )
        key = await means.store.put(delegation_models.dump(made), number)
        how = {"way": planned.way.value, "note": planned.note, "procedure": planned.procedure}
        more: dict[str, Any] = {}
        if self._by_procedure:
            more[procedure_question.PATTERN] = procedures.trigger(means.task, document)
            more |= {procedure_question.DECLINED: True} if planned.declined else {}
        await self._remember(number, made, {**how, **more})
        _log.info("delegations planned", way=planned.way.value, delegations=len(drafts), note=planned.note)
        return {
            "execution_plan": {**delegation_progress.planned(made, key), **how},
            "domain": made.domain.value,
            "response_language": spoken,
            "session_memory": lately,
            **({"intent": planned.wanted.dump()} if planned.wanted is not None else {}),
        }

    async def _planned(
        self,
        state: State,
        asked: excerpt.Parts,
        held: rules_context.Standing,
        items: Sequence[evidence_pack.Item],
        document: str,
        spoken: str,
        session: Sequence[api.SessionEntry],
        agents: registry.Registry,
    ) -> _Planned | _Missing:
        means, short = self._means, excerpt.ends(state["question"], execution_plan.WORDS)
        found = procedures.Found()
        if self._by_procedure:
            found = await procedure_store.look_up(means.kb, means.task.scope, means.task, document)
        if found.own is not None:
            return _followed(found.own, agents, short)
        asked_before = state.get("asked_procedure")
        given = procedure_question.answered(state, means.task) if self._by_procedure else None
        declined = False
        if given is not None:
            pattern, said = given
            steps = procedure_question.lines(said, agents)
            verdict = await self._verdict(state, steps, agents)
            if verdict is not None and verdict.procedure:
                return _followed(await self._taught(state, pattern, steps, verdict.agents), agents, short)
            # Without a verdict it may have been a procedure: a later task of this kind may ask again.
            declined = verdict is not None
        if not asked_before and (missing := self._missing(found, held, document, spoken, session)) is not None:
            return _Missing(missing)
        wanted = planner_prompt.Asked(
            question=asked,
            now=means.now(),
            rules=held,
            items=tuple(items),
            session=tuple(session),
            learned=found.learned,
            agents=agents.specialists if self._specialists else (agents.legacy,),
        )
        every = found.every if self._asks_for(found, held) and not asked_before else None
        planned = await self._by_model(state, replace(wanted, by_procedure=every is not None), agents, every or ())
        return replace(planned, declined=declined) if isinstance(planned, _Planned) else planned

    def _missing(
        self,
        found: procedures.Found,
        held: rules_context.Standing,
        document: str,
        spoken: str,
        session: Sequence[api.SessionEntry],
    ) -> str | None:
        """The procedure that the user is asked for, in one round of a task."""
        if found.every is None or not self._asks_for(found, held):
            return None
        pattern = procedure_question.missing(self._means.task, document, found.every, session)
        return pattern if pattern is not None and _may_ask(pattern, spoken, held) else None

    def _asks_for(self, found: procedures.Found, held: rules_context.Standing) -> bool:
        """Whether the user may be asked for a procedure. A run for some readers alone asks for none: a procedure is of
        the whole client."""
        known = found.every is not None
        return known and not self._means.task.on_behalf_of and held.provisions.permits_tool("ask")

    async def _taught(
        self, state: State, pattern: str, steps: Sequence[procedure_question.Line], names: Sequence[str]
    ) -> api.Procedure:
        """The procedure that the user's answer defines, saved. Where it cannot be saved, this task is done by it all
        the same."""
        means = self._means
        draft = procedure_question.draft(means.task.scope.client_id, pattern, steps, names)
        saved: dict[str, Any] = {}
        try:
            lesson = procedure_store.Lesson(means.kb, means.task.scope, draft)
            saved = await means.book.settle(f"r{state['round']}.plan_delegations", 1, lesson)
        except (kb_client.Unavailable, kb_client.Rejected) as error:
            outcome.recheck(error)
            _log.warning("the user's procedure was not saved", reason=error.message)
        return api.Procedure(
            id=str(saved.get("id") or ""),
            client_id=draft.client_id,
            trigger_pattern=pattern,
            procedure_steps=[step.model_dump(mode="json", by_alias=True) for step in draft.procedure_steps],
            success_rate=0,
            usage_count=0,
            source=draft.source,
            score=0,
        )

    async def _verdict(
        self, state: State, steps: Sequence[procedure_question.Line], agents: registry.Registry
    ) -> procedure_question.Chosen | None:
        """Whether the lines of the user's answer are steps, and the agent of each; None: no model could say. A line
        that names its agent is one."""
        means, listed = self._means, (*agents.specialists, agents.legacy)
        if all(one.agent for one in steps):
            return procedure_question.Chosen(procedure=bool(steps), agents=tuple(one.agent for one in steps))
        try:
            return await means.asks.shaped(
                "verdict on steps",
                f"r{state['round']}.plan",
                procedure_question.messages(steps, listed),
                procedure_question.Chosen,
                lambda chosen: procedure_question.judged(chosen, steps, listed),
                wire=procedure_question.wire(steps, listed),
                priority=means.urgency,
                model=means.model,
                num_ctx=means.num_ctx,
                num_predict=planner_prompt.ANSWER_TOKENS,
            )
        except router_client.Unauthorized:
            raise
        except (errors.BudgetExhausted, errors.InvalidOutput, router_client.Rejected) as error:
            _log.warning("whether the user's answer is a procedure is not known", reason=error.message)
        return None

    async def _by_model(
        self,
        state: State,
        asked: planner_prompt.Asked,
        agents: registry.Registry,
        every: Sequence[api.Procedure],
    ) -> _Planned | _Missing:
        means = self._means
        shape = execution_plan.ByProcedure if asked.by_procedure else execution_plan.Planned
        window, rules = means.num_ctx or NUM_CTX, asked.rules.provisions
        whole = (await question_store.load(state, means.store)).text

        def judge(answer: execution_plan.Planned) -> tuple[intent.Intent | None, execution_plan.Planned]:
            made = prompt_escape.restored(answer)
            try:
                wanted = intent.read(made, whole, state["round"])
            except reading.Unusable:
                # Nothing rests on it but what the answer says of it: the plan counts.
                wanted = None
            execution_plan.judged(made, asked.agents, rules)
            return wanted, made

        try:
            wanted, made = await means.asks.shaped(
                "plan",
                f"r{state['round']}.plan",
                planner_prompt.messages(asked, window),
                shape,
                judge,
                wire=execution_plan.wire(asked.agents, shape),
                priority=means.urgency,
                model=means.model,
                num_ctx=means.num_ctx,
                num_predict=planner_prompt.ANSWER_TOKENS,
                smaller=lambda: planner_prompt.messages(planner_prompt.nearest(asked), window),
            )
            if isinstance(made, execution_plan.ByProcedure):
                missing = procedure_question.named(made.procedure, means.task, whole, every)
                spoken = spoken_language(means.task, whole)
                if missing is not None and _may_ask(missing, spoken, asked.rules):
                    return _Missing(missing)
            if made.delegations:
                return _Planned(Way.MODEL, made.domain, made.delegations, wanted=wanted)
            names = [one.name for one in asked.agents]
            draft = execution_plan.Draft(
                agent=_LOOKS if _LOOKS in names else names[0],
                task=excerpt.ends(state["question"], execution_plan.WORDS),
                expected_output="The answer with its sources.",
            )
            return _Planned(Way.ONE_LOOK, made.domain, (draft,), wanted=wanted)
        except router_client.Unauthorized:
            raise
        except (errors.BudgetExhausted, errors.InvalidOutput, reading.Unusable, router_client.Rejected) as error:
            note = error.message
        draft = execution_plan.Draft(
            agent=agents.legacy.name, task=excerpt.ends(state["question"], execution_plan.WORDS)
        )
        return _Planned(Way.FALLBACK, delegation_models.DomainType.RESEARCH, (draft,), note[:500])

    async def _session(self, state: State) -> list[api.SessionEntry]:
        """What happened lately in this scope, newest first; none while the knowledge base is away."""
        means = self._means
        if (stored := state.get("session_memory")) is not None:
            listed = await means.store.get(stored)
            entries = listed if isinstance(listed, list) else []
            return [api.SessionEntry.model_validate(one) for one in entries]
        if means.task.scope.is_global or means.task.on_behalf_of:
            return []
        try:
            async with asyncio.timeout(_SESSION_SECONDS):
                return await means.kb.memory.session(means.task.scope, limit=rules_loader.SESSION_ENTRIES)
        except (kb_client.Unavailable, kb_client.Rejected, TimeoutError) as error:
            outcome.recheck(error)
            _log.warning("planning without the session memory", reason=str(error))
            return []

    async def _remember(self, number: int, made: delegation_models.ExecutionPlan, how: dict[str, Any]) -> None:
        means = self._means
        entry = results.RememberSession(
            means.database,
            means.task.scope,
            means.task.task_uid,
            delegation_models.SessionSource.ORCHESTRATOR_DECISION.value,
            summary(made),
            means.now(),
            {"round": number, "domain": made.domain.value, **how},
        )
        await means.book.settle(f"r{number}.plan_delegations", 0, entry)


def _may_ask(pattern: str, spoken: str, held: rules_context.Standing) -> bool:
    """Whether no rule forbids the words of the question."""
    asked = procedure_question.question(pattern, spoken)
    return held.provisions.objection(asked, cites=True, final=False) is None


def _followed(procedure: api.Procedure, agents: registry.Registry, question: str) -> _Planned:
    drafts = procedures.drafts(procedure, agents, question)
    first = agents.agent(drafts[0].agent).capability.domains[0]
    note = f"By the procedure {procedure.trigger_pattern!r}."
    return _Planned(Way.PROCEDURE, first, tuple(drafts), note, procedure.id or None)


def spoken_language(task: task_memory.TaskMemory, document: str) -> str:
    """In which a person is answered: that of what they said last, else that of the task's text."""
    said = [one.text for one in reversed(task.messages)] + [one.text for one in reversed(task.answers)]
    return language.of([*said, document])


def summary(made: delegation_models.ExecutionPlan) -> str:
    """A plan in at most 200 characters: the agents, group by group."""
    names = {one.delegation_id: one.agent_name for one in made.delegations}
    groups = [" and ".join(names[one] for one in group) for group in made.parallel_groups]
    said = f"Delegated to {', then '.join(groups)}: {made.delegations[0].task_summary}"
    line = " ".join(said.split())
    return line if len(line) <= results.SESSION_SUMMARY_CHARS else f"{line[: results.SESSION_SUMMARY_CHARS - 1]}…"
