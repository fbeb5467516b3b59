"""What a step costs beside its work: a megabyte of evidence behind references, beside the plain saver with it in the
state.

Both graphs have the same nodes, which do nothing but change a number, on the same MongoDB. A step's overhead is the
time from the end of a node to the beginning of the next one: with durability "sync" all of it is written by then.
`reading` is what a node adds that reads the evidence by its reference.
"""

from __future__ import annotations

import asyncio
import operator
import sys
import time
import uuid
from typing import Annotated, Any, TypedDict

import pymongo
from langgraph.checkpoint.mongodb import MongoDBSaver
from langgraph.graph import END, START, StateGraph

from bench.agents import trees
from bench.agents.report import Report, spread
from orchestrator_job.run import checkpoints, graph
from orchestrator_job.store import artifacts, fence, mongo
from orchestrator_job.store.graph_state import State

EVIDENCE_BYTES = 1 << 20
STEPS = 20
_ITEMS = 10


class Moments:
    """When nodes began and ended, in seconds."""

    def __init__(self) -> None:
        self.began: list[float] = []
        self.ended: list[float] = []

    def between(self) -> list[float]:
        """From the end of each node to the beginning of the next."""
        return [after - before for before, after in zip(self.ended, self.began[1:], strict=False)]


def evidence() -> list[Any]:
    """A megabyte of it, in ten items."""
    return [{"source": f"wiki::{number}", "content": "x" * (EVIDENCE_BYTES // _ITEMS)} for number in range(_ITEMS)]


async def ours(database: mongo.Database, *, read: bool) -> Moments:
    """The program's graph, its fence, saver and artifacts."""
    moments = Moments()
    uid = uuid.uuid4().hex
    guard = fence.Fence(database, uid, 1, "bench")
    await guard.claim(trees.NOW)
    store = artifacts.Artifacts(database, guard, lambda: trees.NOW)
    key = await store.put(evidence(), 1)

    async def node(state: State) -> State:
        moments.began.append(time.perf_counter())
        if read:
            await artifacts.Artifacts(database, guard, lambda: trees.NOW).get(state["pack"])
        made: State = {"round": state["round"] + 1}
        moments.ended.append(time.perf_counter())
        return made

    saver = await checkpoints.open_saver(database, guard)
    nodes = [(f"step{number}", node) for number in range(STEPS)]
    await graph.Program(nodes, saver, uid, graph.Bound.of(500, None), {}, 4).go({"round": 1, "pack": key})
    return moments


class _Whole(TypedDict, total=False):
    round: Annotated[int, operator.add]
    evidence: list[dict[str, Any]]


async def plainly(client: pymongo.MongoClient[dict[str, Any]], name: str, *, large: bool) -> Moments:
    """The plain graph, with the evidence in its state or without it."""
    moments = Moments()

    async def node(state: _Whole) -> _Whole:
        moments.began.append(time.perf_counter())
        made: _Whole = {"round": 1}
        moments.ended.append(time.perf_counter())
        return made

    builder = StateGraph(_Whole)
    previous = START
    for number in range(STEPS):
        builder.add_node(f"step{number}", node)
        builder.add_edge(previous, f"step{number}")
        previous = f"step{number}"
    builder.add_edge(previous, END)
    saver = await asyncio.to_thread(MongoDBSaver, client, name)
    compiled = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}, "recursion_limit": 500}
    begin: _Whole = {"round": 1, "evidence": evidence() if large else []}
    await compiled.ainvoke(begin, config, durability="sync")
    return moments


async def run(runs: int) -> Report:
    """In turns, so that all of them meet the same machine."""
    found: dict[str, list[float]] = {name: [] for name in ("references", "withReading", "plainInState", "plainEmpty")}
    reading: list[float] = []
    with trees.stored() as database:
        for number in range(runs):
            found["references"] += (await ours(database, read=False)).between()
            read = await ours(database, read=True)
            found["withReading"] += read.between()
            reading += [after - before for before, after in zip(read.began, read.ended, strict=True)]
            found["plainInState"] += (await plainly(database.client, database.name, large=True)).between()
            found["plainEmpty"] += (await plainly(database.client, database.name, large=False)).between()
            for name in ("checkpoints", "checkpoint_writes"):
                database.client[database.name][name].delete_many({})
            print(f"{number + 1} of {runs}: {spread(found['references'])}", file=sys.stderr, flush=True)
    report = Report({name: spread(values) for name, values in found.items()} | {"reading": spread(reading)})
    report.checks["a step's overhead, p50 in ms"] = (report.figures["references"]["p50_ms"], 5)
    return report
