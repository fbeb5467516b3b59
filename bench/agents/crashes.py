"""Runs that are killed at a point of their own, beside the same runs undisturbed, and both as a plain LangGraph graph.

Every process is a process, and dies by SIGKILL. The point is chosen by the seed among those that the undisturbed run of
the seed had: kinds take turns, so that each boundary and each window of an effect has its share; within a kind chance
decides. A quarter of the resumed processes are killed once more. Each answer to a change of MongoDB, and each answer to
an effect, is lost with the chance `lost` on the way back, in the killed runs and in those that resume them.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.agents import plain, shapes
from bench.agents.report import Report
from bench.agents.site import Losses, Point, Site, Watch, opened
from orchestrator_job import outcome
from tests.nursery import children
from tests.orchestrator_job import knowledge

LOST = 0.1
WINDOWS = ("intent", "started", "sent", "performed", "acknowledged", "done")
"""Points around one effect, in their order: its intent is written, it is marked as started, the request has come, the
effect has happened and the answer is on its way, the answer has come and is not written yet, it is written."""
KINDS = (*WINDOWS, "checkpoint", "node result", "journal", "prepared", "result", "other")
_PLAIN_KINDS = ("sent", "performed", "checkpoint", "node result")
_AGAIN = 0.25
_MOST_PROCESSES = 12
_WAVE = 24
_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Ended:
    """What one run of a task came to. `said` is compared: the answer, and what the delegations handed back."""

    answered: bool
    said: Any
    happened: Counter[tuple[str, str]]
    counts: Counter[str]
    points: list[str] = field(default_factory=list)
    processes: int = 1
    lost: int = 0
    unsettled: int = 0


@dataclass
class Pair:
    """A killed run beside the undisturbed one."""

    wanted: Counter[tuple[str, str]]
    undisturbed: Ended
    killed: Ended

    def figures(self) -> Counter[str]:
        """What went wrong, and what happened."""
        clean, killed = self.undisturbed, self.killed
        return Counter(
            runs=1,
            effects=self.wanted.total(),
            effectsTwice=(killed.happened - self.wanted).total(),
            effectsLost=(self.wanted - killed.happened).total(),
            undisturbedEffectsWrong=(clean.happened - self.wanted).total() + (self.wanted - clean.happened).total(),
            otherAnswers=int(killed.said != clean.said),
            unanswered=int(not killed.answered) + int(not clean.answered),
            unsettled=killed.unsettled + clean.unsettled,
            processes=killed.processes,
            kills=len(killed.points),
            lostAcknowledgements=killed.lost,
            withoutPoint=int(not killed.points),
        )

    def good(self) -> bool:
        """Equal answers, every effect once, nothing lost."""
        found = self.figures()
        wrong = ("effectsTwice", "effectsLost", "undisturbedEffectsWrong", "otherAnswers", "unanswered", "unsettled")
        return not any(found[name] for name in wrong)


Starter = Callable[[str, int], children.Process]
"""Starts a process of a task, with the address of its database and the number of the process."""


async def run_enumerated(runs: int, seed: int, lost: float = LOST, at_once: int = 2) -> Report:
    """Every point of the shapes of these seeds, until there are so many runs; the figures of the delegating run."""
    found: list[tuple[shapes.Shape, Pair]] = []
    began, slots = time.monotonic(), asyncio.Semaphore(at_once)
    async with opened() as site:
        while len(found) < runs:
            shape = shapes.shape(seed)
            prepare(site, [shape])
            found += await enumerated(site, shape, lost, slots, runs - len(found))
            seed += 1
            spent = round(time.monotonic() - began)
            print(f"{len(found)} of {runs} runs, {spent} s", file=sys.stderr, flush=True)
    report = summed(found, [], time.monotonic() - began)
    report.figures["shapes"] = len({shape.seed for shape, _ in found})
    return report


async def run(
    runs: int, seed: int, lost: float = LOST, at_once: int = 2, reference: bool = True, minutes: float = 24 * 60
) -> Report:
    """Figures of both sides; the checks are those of the delegating run alone. No run is begun after `minutes`."""
    ours: list[tuple[shapes.Shape, Pair]] = []
    plains: list[Pair] = []
    began = time.monotonic()
    slots = asyncio.Semaphore(at_once)
    async with opened() as site:

        async def one(number: int) -> None:
            async with slots:
                shape = shapes.shape(seed + number)
                ours.append((shape, await delegating(site, shape, KINDS[number % len(KINDS)], lost)))
                if reference:
                    kind = _PLAIN_KINDS[number % len(_PLAIN_KINDS)]
                    plains.append(await plainly(site, shape, kind, lost))

        for first in range(0, runs, _WAVE):
            if time.monotonic() - began > minutes * 60:
                break
            wave = range(first, min(runs, first + _WAVE))
            prepare(site, [shapes.shape(seed + number) for number in wave])
            async with asyncio.TaskGroup() as group:
                for number in wave:
                    group.create_task(one(number))
            # All of the wave are over. The server for tests reads whole collections where MongoDB has an index, and the
            # plain graph, which keeps every checkpoint, finds the latest one among those of all threads.
            for name in site.store.database.list_collection_names():
                site.store.database[name].delete_many({})
            bad = [shape.seed for shape, pair in ours if not pair.good()]
            spent = round(time.monotonic() - began)
            print(f"{len(ours)} of {runs} runs, {spent} s, wrong: {bad}", file=sys.stderr, flush=True)
    return summed(ours, plains, time.monotonic() - began)


def summed(ours: Sequence[tuple[shapes.Shape, Pair]], plains: Sequence[Pair], seconds: float) -> Report:
    """The report."""
    report = Report({"seconds": round(seconds, 1)})
    total = _total([pair for _, pair in ours])
    report.figures["delegating"] = total
    report.figures["wrongSeeds"] = {
        str(shape.seed): {"points": pair.killed.points, **{k: v for k, v in pair.figures().items() if v}}
        for shape, pair in ours
        if not pair.good()
    }
    if plains:
        report.figures["plainLangGraph"] = _total(plains)
    for name in ("effectsTwice", "effectsLost", "otherAnswers", "unanswered", "unsettled", "undisturbedEffectsWrong"):
        report.checks[name] = (total[name], 0)
    return report


def _total(pairs: Sequence[Pair]) -> dict[str, Any]:
    total: Counter[str] = sum((pair.figures() for pair in pairs), Counter())
    names = Pair(Counter(), *(Ended(True, None, Counter(), Counter()) for _ in range(2))).figures()
    points = Counter(name for pair in pairs for name in pair.killed.points)
    return {**{name: total[name] for name in names}, "points": dict(sorted(points.items()))}


def prepare(site: Site, some: Sequence[shapes.Shape]) -> None:
    """Give the simulator and the knowledge base what these runs ask."""
    script: dict[str, list[Any]] = {}
    for shape in some:
        for tag, answers in shape.script().items():
            script.setdefault(tag, []).extend(answers)
        site.known.found |= {query: [knowledge.hit(text, f"wiki::{query}")] for query, text in shape.found.items()}
    site.fake.forget()
    site.fake.set_script(script)


def chosen(kind: str, counts: Counter[str], chance: random.Random) -> Point | None:
    """A point of this kind, or of another one that the run has, among those that its undisturbed run had."""
    own = "done" if kind == "acknowledged" else kind
    if not counts[own]:
        there = sorted(name for name in counts if counts[name])
        if not there:
            return None
        kind = own = chance.choice(there)
    reached = {"sent": False, "performed": True, "acknowledged": False, "intent": True, "done": True}
    return Point(own, chance.randint(1, counts[own]), reached.get(kind, chance.random() < 0.5))


async def delegating(site: Site, shape: shapes.Shape, kind: str, lost: float) -> Pair:
    """The run of a shape that `prepare` was given, undisturbed and killed at a point of this kind."""
    clean = await _run_of(site, shape, "clean", lambda _: None, 0.0)
    points = _points(kind, clean.counts, random.Random(f"point {shape.seed}"))
    killed = await _run_of(site, shape, "killed", points, lost)
    await _compare_prompts(site, shape, killed)
    return Pair(Counter(shape.wanted()), clean, killed)


async def enumerated(
    site: Site, shape: shapes.Shape, lost: float, slots: asyncio.Semaphore, most: int
) -> list[tuple[shapes.Shape, Pair]]:
    """The same, killed at each point of the undisturbed run, each in a run of its own; at `most` so many."""
    clean = await _run_of(site, shape, "clean", lambda _: None, 0.0)

    async def one(point: Point) -> Pair:
        async with slots:
            name = f"{point.name} {point.number} {point.reached}"
            killed = await _run_of(site, shape, name, lambda number: None if number else point, lost)
            return Pair(Counter(shape.wanted()), clean, killed)

    pairs = await asyncio.gather(*(one(point) for point in every(clean.counts)[:most]))
    for pair in pairs[-1:]:
        await _compare_prompts(site, shape, pair.killed)
    return [(shape, pair) for pair in pairs]


def every(counts: Counter[str]) -> list[Point]:
    """All points of a run with these events: before and after each change, at each request of an effect and behind
    it."""
    found = []
    for kind in sorted(counts):
        sides = {"sent": (False,), "performed": (True,)}.get(kind, (False, True))
        found += [Point(kind, number, side) for number in range(1, counts[kind] + 1) for side in sides]
    return found


async def _run_of(
    site: Site, shape: shapes.Shape, name: str, points: Callable[[int], Point | None], lost: float
) -> Ended:
    task = site.task(shape.content, f"{shape.name}-{name.replace(' ', '-')}")

    def start(url: str, number: int) -> children.Process:
        return task.start(JERVIS_MONGODB_URI=url, JERVIS_LOG_LEVEL="error").process

    came = await _to_end(site, task.uid, start, points, Losses(f"{shape.seed} {name}", lost, lost))
    results = site.store.all(outcome.RESULTS, _id=task.uid)
    entries = site.store.all("orchestrator_ledger", taskUid=task.uid)
    came.unsettled = sum(one["state"] != "done" for one in entries)
    if came.answered and results:
        [result] = results
        sessions = len(site.store.all("session_memory", taskId=task.uid))
        came.said = (result["exitReason"], result["answer"], result["delegations"], sessions)
        came.answered = result["exitReason"] == "Answered"
    else:
        came.answered = False
    return came


async def _compare_prompts(site: Site, shape: shapes.Shape, killed: Ended) -> None:
    """What the answers were written from must be the same texts, however often they were asked for."""
    asked = await asyncio.to_thread(site.fake.requests, tag=shapes.SYNTHESIS)
    prompts = {one["body"]["messages"][1]["content"] for one in asked}
    own = sorted(one for one in prompts if f"{shape.name}x" in one)
    if len(own) > 1:
        killed.said = (killed.said, own)


async def plainly(site: Site, shape: shapes.Shape, kind: str, lost: float) -> Pair:
    """The same as a plain graph."""

    async def ended(name: str, points: Callable[[int], Point | None], share: float) -> Ended:
        # The driver of a plain graph would hide lost answers of MongoDB by retryable writes, which the server under
        # test may not have.
        losses = Losses(f"{shape.seed} {name}", share)
        thread = f"plain-{shape.seed}-{name}"
        given = {
            "database": site.store.name, "thread": thread, "content": shape.content, "model": site.fake.url,
            "kb": site.known.url, "sources": site.outside.url, "token": thread,
        }  # fmt: skip
        nursery = children.of(str(Path(plain.__file__)))

        def start(url: str, number: int) -> children.Process:
            environment = {**os.environ, "PYTHONPATH": str(_ROOT), "BENCH_PLAIN": json.dumps({**given, "uri": url})}
            return nursery.start(environment, site.folder / f"log-{thread}-{number}")

        came = await _to_end(site, thread, start, points, losses)
        results = site.store.all(plain.RESULTS, _id=thread)
        came.answered = came.answered and bool(results)
        came.said = [(one["answer"], one["results"]) for one in results]
        return came

    clean = await ended("clean", lambda _: None, 0.0)
    points = _points(kind, clean.counts, random.Random(f"point {shape.seed}"))
    return Pair(Counter(shape.wanted()), clean, await ended("killed", points, lost))


def _points(kind: str, counts: Counter[str], chance: random.Random) -> Callable[[int], Point | None]:
    """Where the first process dies, and perhaps the second."""
    some = [chosen(kind, counts, chance)]
    if chance.random() < _AGAIN:
        some.append(chosen(chance.choice(KINDS), counts, chance))
    return lambda number: some[number] if number < len(some) else None


async def _to_end(
    site: Site, token: str, start: Starter, points: Callable[[int], Point | None], losses: Losses
) -> Ended:
    """Processes one after another, until one has ended by itself with status 0."""
    came = Ended(False, None, Counter(), Counter(), processes=0)
    for number in range(_MOST_PROCESSES):
        point = points(number)

        def begin(url: str, number: int = number) -> children.Process:
            return start(url, number)

        own = replace(losses, seed=f"{losses.seed} {number}")
        async with site.watched(token, begin, point, own) as watch:
            _count(came, watch, point)
            assert watch.running is not None
            if watch.running.poll() == 0:
                came.answered = True
                break
    came.happened = site.outside.happened.get(token, Counter())
    return came


def _count(came: Ended, watch: Watch, point: Point | None) -> None:
    came.processes += 1
    came.lost += watch.lost
    came.counts += watch.counts
    if watch.died and point is not None:
        came.points.append(point.name)
