"""The nodes of the legacy graph that work: a step, what becomes of it, and the answer.

Steps are delegations of `agents.execution`, one at a time: their loops, their tools, the journal and the ledger are
those of the delegation graph, and without `use_specialist_agents` the LegacyAgent has them all. `Evaluate` settles
repeatable effects, the entries of the context. Only `consent` ends a run for a person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from crds import exit_reasons
from orchestrator_job.agents import execution
from orchestrator_job.context import entries, reading, retention, significance
from orchestrator_job.context.retention import Level
from orchestrator_job.plan import goal_paths, goals
from orchestrator_job.plan.goal_nodes import Means
from orchestrator_job.store import artifacts, delegation_models, delegation_progress
from orchestrator_job.store.delegation_models import DelegationStatus
from orchestrator_job.store.graph_state import Node, State

_ACTION_CHARS = 500


class ExecuteStep:
    """Carries out the next step: one delegation, as a branch of the delegation graph does."""

    def __init__(self, execute: execution.Execute) -> None:
        self._execute = execute

    async def __call__(self, state: State) -> State:
        """Writes what `Execute` writes."""
        return await self._execute({**state, "active_delegation_id": goal_paths.open_steps(state)[0]})


class Evaluate:
    """Keeps what the step handed back, and says how the goal stands. A step that failed ends its goal: what would
    build on it is not tried."""

    def __init__(self, means: Means) -> None:
        self._means = means

    async def __call__(self, state: State) -> State:
        """Writes work and delegation_states; the context gets the step, and its goal once that has ended."""
        here, states = goal_paths.work(state), state["delegation_states"]
        name = state["completed_delegations"][-1]
        output = await self._output(state, name)
        failed = states[name]["status"] == DelegationStatus.FAILED.value
        left = goal_paths.open_steps(state)
        dropped = {
            one: delegation_progress.entry(DelegationStatus.FAILED, _planned_agent(state, one))
            for one in left
            if failed
        }
        over = ""
        if output.structured_data.get("stopped") == exit_reasons.ExitReason.BUDGET_EXHAUSTED.value:
            over = "; ".join(map(str, output.structured_data.get("issues") or ())) or "The budget is used up."  # type: ignore[arg-type]
        changed: dict[str, Any] = {"over": over}
        if here.count:
            ends = failed or not left
            more = not over and (not ends or self._goes_on(here))
            await self._keep_step(state, here, output, failed=failed, more=more)
            if ends:
                await self._keep_goal(state, here, done=not failed, more=more)
                changed["ended"] = {**here.ended, here.goal: goal_paths.FAILED if failed else goal_paths.DONE}
        result: State = {"work": here.but(**changed)}
        if dropped:
            result["delegation_states"] = dropped
        return result

    def _goes_on(self, here: goal_paths.Work) -> bool:
        """Whether other goals may follow."""
        return len(here.ended) + 1 < here.count

    async def _output(self, state: State, name: str) -> delegation_models.AgentOutput:
        return delegation_models.AgentOutput.model_validate(
            await self._means.store.get(state["delegation_results"][name])
        )

    async def _keep_step(
        self, state: State, here: goal_paths.Work, output: delegation_models.AgentOutput, *, failed: bool, more: bool
    ) -> None:
        means, path = self._means, output.delegation_id
        if await means.context.kept(path):
            return
        plan = delegation_models.ExecutionPlan.model_validate(await means.store.get(state["execution_plan"]["key"]))
        title = " ".join(plan.message(path).task_summary.split())[:200]
        text = _reported(output)
        made = retention.Made(Level.STEP, done=not failed, doubted=_doubted(state, path), private=self._private())
        entry = entries.Entry(
            round=state["round"],
            level=Level.STEP,
            path=path,
            goal=here.goal,
            title=title,
            done=not failed,
            text=text,
            # What no later step sees needs no summary.
            summary=await means.summaries.summary(state["round"], title, text) if more else None,
        )
        await means.context.keep(entry, retention.decide(made))

    async def _keep_goal(self, state: State, here: goal_paths.Work, *, done: bool, more: bool) -> None:
        means, path = self._means, f"r{state['round']}.g{here.goal}"
        if await means.context.kept(path):
            return
        steps = here.steps[here.goal]
        kept = [one for one in await means.context.of_round(state["round"]) if one.path in steps]
        goal = goals.load(await means.store.get(here.goals))[here.goal - 1]
        # From the summaries of its steps, where there are any: they are made already.
        text = "\n\n".join(f"{one.title}\n{one.summary or one.text}" for one in kept)
        doubted = any(_doubted(state, one) for one in steps)
        made = retention.Made(Level.GOAL, done=done, doubted=doubted, private=self._private())
        entry = entries.Entry(
            round=state["round"],
            level=Level.GOAL,
            path=path,
            goal=here.goal,
            title=goal.title,
            done=done,
            summary=await means.summaries.summary(state["round"], goal.title, text) if more else None,
            steps=tuple(one.path for one in kept),
        )
        await means.context.keep(entry, retention.decide(made))

    def _private(self) -> bool:
        return bool(self._means.task.on_behalf_of)


class Answer:
    """What the node `respond` does after steps: one answer from what they handed back."""

    def __init__(self, means: Means, synthesize: Node) -> None:
        self._means = means
        self._synthesize = synthesize

    async def __call__(self, state: State) -> State:
        """Writes what `Synthesize` writes, and work."""
        here, means = goal_paths.work(state), self._means
        changed = await self._synthesize(state)
        ids = [one for one in state["completed_delegations"] if delegation_progress.round_of(one) == state["round"]]
        outputs = [
            delegation_models.AgentOutput.model_validate(await means.store.get(state["delegation_results"][one]))
            for one in ids
        ]
        learned = await means.store.put(await self._learned(state, here, outputs), state["round"])
        return {**changed, "work": here.but(learned=learned)}

    async def _learned(self, state: State, here: goal_paths.Work, outputs: list[delegation_models.AgentOutput]) -> Any:
        """The steps that the result names for the knowledge base: what the retention of the context lets through."""
        if here.count:
            found = await self._means.context.of_round(state["round"])
            texts = {one.path: one.text for one in found}
            return [
                {"action": one.title, "result": one.summary or "\n\n".join(texts.get(each, "") for each in one.steps)}
                for one in found
                if one.knowledge
            ]
        private = bool(self._means.task.on_behalf_of)
        states = state["delegation_states"]
        return [
            {"action": f"{one.agent_name}: {' '.join(state['question'].split())}"[:_ACTION_CHARS], "result": one.result}
            for one in outputs
            if significance.taught(states[one.delegation_id], private=private)
        ]


def unreached(store: artifacts.Artifacts) -> Callable[[State], Awaitable[Sequence[str]]]:
    """What the answer says of goals of which no step handed anything back, a line each."""

    async def missing(state: State) -> list[str]:
        here = goal_paths.work(state)
        lines = []
        for number, one in enumerate(goals.load(await store.get(here.goals)) if here.goals else (), start=1):
            ended = here.ended.get(number)
            if ended == goal_paths.LEFT_OUT:
                lines.append(f"Goal {number} needs one that was not reached, and was left out: {one.title}")
            elif ended == goal_paths.FAILED and number not in here.steps:
                lines.append(f"Goal {number} could not be planned: {one.title}")
            elif ended is None:
                lines.append(f"Goal {number} was not begun: {one.title}" + (f" ({here.over})" if here.over else ""))
        return lines

    return missing


def earlier(context: entries.Context, room: int) -> execution.Earlier:
    """What a step of a goal is given of the work before it: the context, within `room` characters, and the tool that
    opens what is not shown whole. Steps of a task without goals get the whole results of those before them."""

    async def given(
        state: State, name: str, default: Callable[[], Awaitable[Sequence[delegation_models.AgentOutput]]]
    ) -> execution.Given:
        here = goal_paths.work(state)
        if not here.count:
            return execution.Given(await default())
        found = entries.shown(await context.of_round(state["round"]), here.goal, room, reading.READ_STEP)
        if not found.text:
            return execution.Given(())
        output = delegation_models.AgentOutput(
            delegation_id=f"r{state['round']}.context",
            agent_name="earlier work",
            success=True,
            result=found.text,
            confidence=1,
            needs_verification=False,
        )
        return execution.Given((output,), None if found.whole else reading.Steps(context, room))

    return given


def _reported(output: delegation_models.AgentOutput) -> str:
    """All that a later step may need of a report."""
    made = [*(f"changed: {each}" for each in output.changed_files), *(f"made: {each}" for each in output.artifacts)]
    issues = output.structured_data.get("issues")
    open_ones = [f"open: {each}" for each in issues] if isinstance(issues, list) else []
    return "\n".join(part for part in (output.result, *made, *open_ones) if part)


def _doubted(state: State, name: str) -> bool:
    return bool((state["delegation_states"].get(name) or {}).get("verify"))


def _planned_agent(state: State, name: str) -> str:
    """The agent that the plan has for that step."""
    return str(state["execution_plan"]["agents"][name])
