"""The order of the phases as a LangGraph: first, then the extraction of the type, then last.

Imported by processes that write documents alone: LangGraph takes some 35 MiB of memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from kb.extract.qualifier import state

Node = Callable[[state.QualifierPipelineState, Any], Awaitable[state.QualifierPipelineState]]
"""A phase: the state and the run's own context to the state after it. It raises nothing that is foreseen."""


class Carried(TypedDict):
    """What goes from node to node."""

    state: state.QualifierPipelineState


class Flow:
    """The compiled graph. `first` and `last` are (name, node) in their order, `types` one node per content type."""

    def __init__(
        self, first: Sequence[tuple[str, Node]], types: Mapping[str, Node], last: Sequence[tuple[str, Node]]
    ) -> None:
        # Its type parameters are those of the values that it carries; the context is any.
        builder: Any = StateGraph(Carried)
        for name, node in (*first, *types.items(), *last):
            builder.add_node(name, _step(node))
        _chain(builder, START, first)
        builder.add_conditional_edges(first[-1][0], _branch, list(types))
        for name in types:
            builder.add_edge(name, last[0][0])
        _chain(builder, last[0][0], last[1:])
        builder.add_edge(last[-1][0], END)
        self._compiled = builder.compile()

    async def go(self, begun: state.QualifierPipelineState, context: object) -> state.QualifierPipelineState:
        """The state at the end."""
        final: Carried = await self._compiled.ainvoke({"state": begun}, context=context)
        return final["state"]


def _chain(builder: Any, previous: str, nodes: Sequence[tuple[str, Node]]) -> None:
    for name, _ in nodes:
        builder.add_edge(previous, name)
        previous = name


def _branch(carried: Carried) -> str:
    return carried["state"].content_type.value


def _step(node: Node) -> Callable[[Carried, Runtime[Any]], Awaitable[Carried]]:
    async def step(carried: Carried, runtime: Runtime[Any]) -> Carried:
        return {"state": await node(carried["state"], runtime.context)}

    return step
