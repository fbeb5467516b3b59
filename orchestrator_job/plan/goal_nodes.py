"""The nodes of the legacy graph that plan: a design, goals, which goal is next, and its steps.

They only read and store content under its own hash; `SelectGoal` settles one repeatable effect, the epic's entry in the
context. A design or goals that a model cannot make leave the task its answer, as a question has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import structlog

from contracts.rules import enforce_lines
from crds import priority
from orchestrator_job import errors
from orchestrator_job.agents import registry
from orchestrator_job.answer import evidence_pack, question_store
from orchestrator_job.context import entries, retention, rules_loader, summarizer
from orchestrator_job.context.retention import Level
from orchestrator_job.model import excerpt, intent, model_calls, prompt_escape
from orchestrator_job.plan import execution_plan, goal_paths, goals, planner_prompt
from orchestrator_job.plan.plan_delegations import spoken_language
from orchestrator_job.store import artifacts, delegation_models, delegation_progress, task_memory
from orchestrator_job.store.graph_state import State
from router import client as router_client
from router.client import reading, schema

_log = structlog.get_logger("orchestrator_job.plan.goal_nodes")

S = TypeVar("S", bound=schema.Shape)
T = TypeVar("T")

NUM_CTX = 16_384
"""Window of the planning model where none is set, in tokens."""
_NOTES = 10
_NEAREST = 3
_TRACKER = ("Do the part of the task that concerns issues and comments. Its part in code is done before.",)
_REMEMBER = (
    "Store with store_knowledge what the user wants to be remembered, in the user's own words.",
    "Say plainly where it was not stored.",
)
_CODE = ("Do the part of the task that changes code. Its part in issues and comments is done afterwards.",)


@dataclass(frozen=True, slots=True)
class Means:
    """What the nodes work with. `model` designs and plans, `num_ctx` is its window; `specialists`: the flag
    use_specialist_agents; `room` is how many characters of the context a step is shown; `now` is in UTC."""

    task: task_memory.TaskMemory
    store: artifacts.Artifacts
    loader: rules_loader.Loader
    asks: model_calls.Asking
    agents: registry.Registry
    context: entries.Context
    summaries: summarizer.Summarizer
    model: str
    urgency: priority.Priority
    num_ctx: int | None
    specialists: bool
    room: int
    now: Callable[[], datetime]


class _Unplanned(Exception):  # noqa: N818 - the run goes on without it
    """The model made nothing that can be used; the text says why."""


class _Asking:
    """What the nodes that ask have in common."""

    def __init__(self, means: Means) -> None:
        self._means = means

    async def _made(
        self,
        name: str,
        state: State,
        shape: type[S],
        judge: Callable[[S, enforce_lines.Provisions], T],
        blocks: Mapping[str, str],
        agents: tuple[registry.Agent, ...] = (),
    ) -> T:
        """What the model answers to that prompt. Raises _Unplanned; Fenced, what a refused token raises, and
        Unavailable while no model can be asked."""
        means = self._means
        held = await means.loader.of(state)
        items = evidence_pack.load(await means.store.get(state["pack"]))
        asked = await question_store.load(state, means.store)

        def messages(few: bool) -> list[dict[str, str]]:
            # The last try is about what is nearest to the task alone.
            return goals.messages(
                name,
                asked,
                items[:_NEAREST] if few else items,
                means.now(),
                held,
                means.num_ctx or NUM_CTX,
                blocks=blocks,
                agents=agents,
            )

        try:
            return await means.asks.shaped(
                name,
                f"r{state['round']}.{name}",
                messages(few=False),
                shape,
                lambda answer: judge(prompt_escape.restored(answer), held.provisions),
                wire=execution_plan.wire(agents) if agents else schema.wire(shape),
                priority=means.urgency,
                model=means.model,
                num_ctx=means.num_ctx,
                num_predict=planner_prompt.ANSWER_TOKENS,
                smaller=lambda: messages(few=True),
            )
        except router_client.Unauthorized:
            raise
        except (errors.BudgetExhausted, errors.InvalidOutput, reading.Unusable, router_client.Rejected) as error:
            raise _Unplanned(error.message) from error

    async def _earlier(self, state: State) -> str:
        """What earlier rounds of the task came to."""
        found = await self._means.context.before(state["round"])
        return entries.shown(found, 0, self._means.room).text


class Design(_Asking):
    """A design for something new, before its goals."""

    async def __call__(self, state: State) -> State:
        """Writes work."""
        here = goal_paths.work(state)
        try:
            made = await self._made(
                goals.DESIGN, state, goals.Design, goals.designed, {"work": await self._earlier(state)}
            )
        except _Unplanned as error:
            return {"work": here.but(notes=_noted(here, f"There is no design: {error}"))}
        return {"work": here.but(design=await self._means.store.put(made, state["round"]))}


class Goals(_Asking):
    """The goals of a large task. Without any the task gets an answer, as a question does."""

    async def __call__(self, state: State) -> State:
        """Writes work and response_language."""
        means, here = self._means, goal_paths.work(state)
        document = str(await means.store.get(state["document"]))
        spoken = spoken_language(means.task, document)
        design = str(await means.store.get(here.design)) if here.design else ""
        blocks = {"design": design, "work": await self._earlier(state)}
        try:
            made = await self._made(goals.GOALS, state, goals.Goals, goals.ordered, blocks)
        except _Unplanned as error:
            return {"work": here.but(notes=_noted(here, f"There are no goals: {error}")), "response_language": spoken}
        _log.info("goals", count=len(made), designed=bool(design))
        key = await means.store.put(goals.dump(made), state["round"])
        return {"work": here.but(goals=key, count=len(made)), "response_language": spoken}


class SelectGoal:
    """The next goal whose dependencies are done; no model is asked."""

    def __init__(self, means: Means) -> None:
        self._means = means

    async def __call__(self, state: State) -> State:
        """Writes work; before the first goal the context gets its epic. Raises Fenced."""
        here = goal_paths.work(state)
        found = goals.load(await self._means.store.get(here.goals))
        if not here.goal:
            # Not where the goals are made: that may be repeated, with others.
            await self._keep(state, here, goals.listed(found))
        number, ended = goals.following(found, here.ended)
        return {"work": here.but(goal=number, ended=ended)}

    async def _keep(self, state: State, here: goal_paths.Work, listed: str) -> None:
        design = str(await self._means.store.get(here.design)) if here.design else ""
        epic = entries.Entry(
            round=state["round"],
            level=Level.EPIC,
            path=f"r{state['round']}.epic",
            title=" ".join(state["question"].split())[:200],
            done=True,
            text="\n\n".join(part for part in (design, listed) if part),
            summary=listed if design else None,
        )
        await self._means.context.keep(epic, retention.decide(retention.Made(Level.EPIC, done=True)))


class PlanSteps(_Asking):
    """The steps of a goal, by the model; those of a single task follow from what it is, without one."""

    async def __call__(self, state: State) -> State:
        """Writes execution_plan, domain, response_language and work."""
        means, here, number = self._means, goal_paths.work(state), state["round"]
        held = await means.loader.of(state)
        document = str(await means.store.get(state["document"]))
        spoken = spoken_language(means.task, document)
        agents = means.agents.visible(held.provisions)
        if here.count:
            try:
                drafts = await self._of_goal(state, here, agents)
            except _Unplanned as error:
                note = f"Goal {here.goal} has no steps: {error}"
                over = str(error) if isinstance(error.__cause__, errors.BudgetExhausted) else ""
                ended = {**here.ended, here.goal: goal_paths.FAILED}
                return {"work": here.but(ended=ended, notes=_noted(here, note), over=over)}
        else:
            drafts = _single(state["question"], intent.of(state).kind, specialists=means.specialists)
        before = await self._plan(state)
        items = evidence_pack.load(await means.store.get(state["pack"]))
        asked = await question_store.load(state, means.store)
        made = execution_plan.plan(
            [one.model_copy(update={"depends_on": ()}) for one in drafts],
            delegation_models.DomainType.CODE
            if intent.of(state).kind is intent.Kind.CODE
            else delegation_models.DomainType.RESEARCH,
            number,
            viewer=means.task.scope,
            language=spoken,
            contexts=[planner_prompt.context(asked, items, _agent(agents, one).context_tokens) for one in drafts],
            side_by_side=False,
        )
        whole = _appended(before, made, number)
        ids = tuple(one.delegation_id for one in whole.delegations[-len(drafts) :])
        key = await means.store.put(delegation_models.dump(whole), number)
        _log.info("steps planned", goal=here.goal, steps=len(drafts))
        return {
            "execution_plan": {
                **delegation_progress.planned(whole, key),
                "way": "steps",
                "note": "",
                "procedure": None,
            },
            "domain": whole.domain.value,
            "response_language": spoken,
            "work": here.but(steps={**here.steps, here.goal: ids}),
        }

    async def _of_goal(
        self, state: State, here: goal_paths.Work, agents: registry.Registry
    ) -> tuple[execution_plan.Draft, ...]:
        means = self._means
        found = goals.load(await means.store.get(here.goals))
        offered = agents.specialists if means.specialists else (agents.legacy,)
        blocks = {
            "goal": found[here.goal - 1].text(),
            "work": entries.shown(await means.context.of_round(state["round"]), here.goal, means.room).text,
        }
        return await self._made(
            goals.STEPS,
            state,
            execution_plan.Answer,
            lambda answer, held: goals.stepped(answer, offered, held),
            blocks,
            offered,
        )

    async def _plan(self, state: State) -> delegation_models.ExecutionPlan | None:
        """The round's plan so far."""
        if not goal_paths.work(state).steps:
            return None
        return delegation_models.ExecutionPlan.model_validate(
            await self._means.store.get(state["execution_plan"]["key"])
        )


def _single(asked: str, kind: intent.Kind, *, specialists: bool) -> tuple[execution_plan.Draft, ...]:
    """The steps of one thing to do: one agent where one suffices."""
    task = excerpt.ends(asked, execution_plan.WORDS)
    code = execution_plan.Draft(agent="Coding", task=task, constraints=_CODE)
    tracker = execution_plan.Draft(agent="IssueTracker", task=task, constraints=_TRACKER)
    if kind is intent.Kind.REMEMBER:
        agent = "Personal" if specialists else registry.LEGACY
        return (execution_plan.Draft(agent=agent, task=task, constraints=_REMEMBER),)
    if not specialists:
        return (execution_plan.Draft(agent=registry.LEGACY, task=task),)
    if kind is intent.Kind.MIXED:
        return code, tracker
    return ((code if kind is intent.Kind.CODE else tracker).model_copy(update={"constraints": ()}),)


def _appended(
    before: delegation_models.ExecutionPlan | None, made: delegation_models.ExecutionPlan, number: int
) -> delegation_models.ExecutionPlan:
    """The plan with the steps of one more goal; its delegations are numbered on."""
    if before is None:
        return made
    first = len(before.delegations) + 1
    more = tuple(
        one.model_copy(update={"delegation_id": delegation_progress.delegation_id(number, first + place)})
        for place, one in enumerate(made.delegations)
    )
    return delegation_models.ExecutionPlan(
        delegations=(*before.delegations, *more),
        parallel_groups=(*before.parallel_groups, *((one.delegation_id,) for one in more)),
        domain=before.domain,
    )


def _agent(agents: registry.Registry, draft: execution_plan.Draft) -> registry.Agent:
    try:
        return agents.agent(draft.agent)
    except KeyError:  # a rule has taken all its tools
        return agents.legacy


def _noted(here: goal_paths.Work, note: str) -> tuple[str, ...]:
    _log.warning("legacy", note=note)
    return (*here.notes, note[:500])[-_NOTES:]
