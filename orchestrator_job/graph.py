"""The graphs and the only place that runs them.

    intake -> evidence -> (plan -> follow ->) respond -> approve -> finalize
              evidence -> (design ->) goals -> select_goal -> plan_steps -> execute_step -> evaluate -> ... -> respond
    intake -> consult -> approve -> finalize
    intake -> evidence -> plan_delegations -> (execute_delegation, ... -> consent ->) synthesize -> approve -> finalize
              plan_delegations -> ask_procedure -> approve -> finalize

LangGraph's exceptions are translated here: this module raises those of `errors` and `drain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import RunControl
from langgraph.types import Send

from orchestrator_job import drain, errors
from orchestrator_job.state import BRANCHED, State


class Node(Protocol):
    """One step: reads the state and returns its changes."""

    async def __call__(self, state: State) -> State: ...


@dataclass(frozen=True, slots=True)
class Fan:
    """What follows a node: a branch of node `to` for each state that `next` gives, or one of the nodes `others`."""

    to: str
    others: tuple[str, ...]
    next: Callable[[State], list[State] | str]


class Program:
    """The compiled graph on one thread. `nodes` are (name, node) in the order in which they run.

    `fans` says what follows a node in place of the next. A node to which it leads in no run stays known, so that a
    thread which stopped there is resumed there. `at_once` bounds the branches that run side by side. `max_steps` bounds
    the steps of one process, `task_steps` those of the task (`State.steps`); None: they are counted only.
    """

    def __init__(
        self,
        nodes: Sequence[tuple[str, Node]],
        saver: BaseCheckpointSaver[int],
        thread_id: str,
        max_steps: int,
        fans: Mapping[str, Fan],
        at_once: int,
        task_steps: int | None = None,
    ) -> None:
        builder = StateGraph(State)
        previous = START
        for name, node in nodes:
            builder.add_node(name, _step(node, task_steps))
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
            "recursion_limit": max_steps,
            "max_concurrency": at_once,
        }
        self._max_steps = max_steps
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
        BudgetExhausted after `max_steps`, and the errors of the nodes.
        """
        try:
            final = await self._compiled.ainvoke(begin, self._config, durability="sync", control=self._control)
        except GraphDrained as error:
            raise drain.Drained(error.reason) from error
        except GraphRecursionError as error:
            raise errors.BudgetExhausted(
                f"The run has used all of the {self._max_steps} steps that one run may take.",
                field="JERVIS_MAX_STEPS",
                remedy="Try again: the next run resumes from the checkpoint. Or raise JERVIS_MAX_STEPS of the runs.",
            ) from error
        return dict(final)


def _branches(fan: Fan) -> Callable[[State], list[Send] | str]:
    def choose(state: State) -> list[Send] | str:
        found = fan.next(state)
        # A branch sees the state that it is given and no other.
        return (
            found if isinstance(found, str) else [Send(fan.to, {**branch, "steps": state["steps"]}) for branch in found]
        )

    return choose


def _step(node: Node, limit: int | None) -> Node:
    """A plain coroutine function of the node, which counts: LangGraph asks a callable object for its name and source.

    The count is part of the checkpoint. So a step that is repeated counts once, and so do branches side by side.
    """

    async def step(state: State) -> State:
        taken = state.get("steps", 0)
        if limit is not None and taken >= limit:
            raise errors.BudgetExhausted(
                f"This task has used all of its {limit} steps.",
                field="spec.budget.maxSteps",
                remedy="Raise spec.budget.maxSteps and try again; the next run resumes from the checkpoint.",
            )
        made: State = {**await node(state), "steps": taken + 1}
        return made

    return step
