"""The graphs and the only place that runs them.

    intake -> evidence -> (plan -> follow ->) respond -> approve -> finalize
              plan | respond -> (design ->) goals -> select_goal -> plan_steps -> execute_step -> evaluate ... respond
    intake -> consult -> approve -> finalize
    intake -> evidence -> plan_delegations -> (execute_delegation, ... -> consent ->) synthesize -> approve -> finalize
              plan_delegations -> ask_procedure -> approve -> finalize

LangGraph's exceptions are translated here: this module raises those of `errors` and `drain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphDrained
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import RunControl
from langgraph.types import Send

from crds import pendingtask
from orchestrator_job import errors
from orchestrator_job.run import drain
from orchestrator_job.store.graph_state import BRANCHED, Node, State

_OWN, _SETTING = "spec.budget.maxSteps", "JERVIS_MAX_STEPS"


@dataclass(frozen=True, slots=True)
class Fan:
    """What follows a node: a branch of node `to` for each state that `next` gives, or one of the nodes `others`."""

    to: str
    others: tuple[str, ...]
    next: Callable[[State], list[State] | str]


@dataclass(frozen=True, slots=True)
class Bound:
    """The most steps that a task may take, all of its rounds and runs together (`State.steps`). `field` names what sets
    it, `remedy` says how the task gets on."""

    most: int
    field: str
    remedy: str

    @classmethod
    def of(cls, setting: int, own: int | None) -> Bound:
        """The smaller one of the setting of runs and the task's own `spec.budget.maxSteps`; None: it has none."""
        most = setting if own is None else min(setting, own)
        names = ([_OWN] if own == most else []) + ([_SETTING] if setting == most else [])
        if most == pendingtask.MOST_STEPS:
            return cls(most, names[-1], f"Create a new task for what is left: no task may take more than {most} steps.")
        raised = " and ".join(f"{one} of the runs (job.environment)" if one == _SETTING else one for one in names)
        remedy = f"Raise {raised} and try again; the next run resumes from the checkpoint. Or create a new task."
        return cls(most, names[0], remedy)

    def check(self, taken: int) -> None:
        """Raises BudgetExhausted where no step is left after `taken` ones."""
        if taken >= self.most:
            raise errors.BudgetExhausted(
                f"This task has used all of its {self.most} steps.", field=self.field, remedy=self.remedy
            )


class Program:
    """The compiled graph on one thread. `nodes` are (name, node) in the order in which they run.

    `fans` says what follows a node in place of the next. A node to which it leads in no run stays known, so that a
    thread which stopped there is resumed there. `at_once` bounds the branches that run side by side.
    """

    def __init__(
        self,
        nodes: Sequence[tuple[str, Node]],
        saver: BaseCheckpointSaver[int],
        thread_id: str,
        bound: Bound,
        fans: Mapping[str, Fan],
        at_once: int,
    ) -> None:
        builder = StateGraph(State)
        previous = START
        for name, node in nodes:
            builder.add_node(name, _step(node, bound))
            if previous in fans:
                fan = fans[previous]
                builder.add_conditional_edges(previous, _branches(fan), [fan.to, *fan.others])
            else:
                builder.add_edge(previous, name)
            previous = name
        builder.add_edge(previous, END)
        self._compiled = builder.compile(checkpointer=saver)
        self._config: RunnableConfig = {
            "configurable": {"thread_id": thread_id},
            # LangGraph's own count is of one process. The step too many has to begin, so that `Bound` refuses it.
            "recursion_limit": bound.most + 1,
            "max_concurrency": at_once,
        }
        self._control = RunControl()

    def request_drain(self, reason: str) -> None:
        """Stop after the node that is running; safe from any thread and before `go`."""
        self._control.request_drain(reason)

    async def found(self) -> dict[str, Any]:
        """The thread's last state, including written results of nodes; empty for a new thread."""
        snapshot = await self._compiled.aget_state(self._config)
        # Keys that put branches together have a value before anything was written.
        return dict(snapshot.values) if snapshot.values.keys() - BRANCHED else {}

    async def go(self, begin: State | None) -> dict[str, Any]:
        """Run from the start with `begin`, or resume after the last finished node with None; the final state.

        Every super-step is durable before the next one starts. Raises drain.Drained after `request_drain`,
        BudgetExhausted where the task has no step left, and the errors of the nodes.
        """
        try:
            final = await self._compiled.ainvoke(begin, self._config, durability="sync", control=self._control)
        except GraphDrained as error:
            raise drain.Drained(error.reason) from error
        return dict(final)


def _branches(fan: Fan) -> Callable[[State], list[Send] | str]:
    def choose(state: State) -> list[Send] | str:
        found = fan.next(state)
        # A branch sees the state that it is given and no other.
        return (
            found if isinstance(found, str) else [Send(fan.to, {**branch, "steps": state["steps"]}) for branch in found]
        )

    return choose


def _step(node: Node, bound: Bound) -> Node:
    """A plain coroutine function of the node, which counts: LangGraph asks a callable object for its name and source.

    The count is part of the checkpoint. So a step that is repeated counts once, and so do branches side by side.
    """

    async def step(state: State) -> State:
        taken = state.get("steps", 0)
        bound.check(taken)
        made: State = {**await node(state), "steps": taken + 1}
        return made

    return step
