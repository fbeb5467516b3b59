"""The short way: what a question that one look answers costs without flags, and with all flags of delegation on.

The two take turns, each question in a run of its own: a process that has its imports, as one that waits for its task,
and one that starts from nothing. Times are from the start of a process to its end, with a model that answers at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from dataclasses import dataclass

from bench.agents import times
from bench.agents.report import Report, spread
from bench.agents.site import Site, Task, opened
from tests.orchestrator_job import job, workbench

QUESTION = "When is the release of the router?"
_FLAGS = ("DELEGATION_GRAPH", "SPECIALIST_AGENTS", "DAG_EXECUTION", "PROCEDURAL_MEMORY")
WAYS = {"withoutFlags": "false", "allFlags": "true"}
_LOOK_SECONDS = 0.005
_SAID = "It is on Friday [email::<plan@example.org>]."


def script() -> dict[str, list[object]]:
    """One answer of each way, to every run."""
    return {
        job.TAG: [{"when": "<question>", "answer": job.reply(answer="It is on Friday [1].")}],
        "job.agent.Research/v1": [{"when": "<question>", "answer": workbench.report(_SAID)}],
    }


def _task(site: Site, way: str, number: int) -> Task:
    flags = {f"JERVIS_USE_{name}": WAYS[way] for name in _FLAGS}
    made = site.task(QUESTION, f"short-{number}")
    made.environment.update(flags)
    return made


@dataclass(frozen=True)
class _Took:
    """Of one run: `seconds` to its end, those of CPU of its process, and requests to models and to the knowledge
    base."""

    seconds: float
    cpu: float
    calls: int
    reads: int


async def _answered(site: Site, way: str, number: int, *, forked: bool) -> _Took:
    """Raises RuntimeError where it is not answered."""
    task, known = _task(site, way, number), site.known
    site.fake.forget()
    before = len(known.asked) + len(known.loaded)
    began = time.monotonic()
    running = task.start() if forked else task.start_from_nothing()
    used = 0.0
    while running.process.poll() is None:
        with contextlib.suppress(OSError):  # it has just ended
            used = times.cpu(running.process.pid)
        await asyncio.sleep(_LOOK_SECONDS)
    took = time.monotonic() - began
    ended = await task.end(running)
    if ended.message.get("exitReason") != "Answered":
        raise RuntimeError(f"{way}: the run ended with {ended.message}")
    return _Took(took, used, site.fake.count(path="/api/chat"), len(known.asked) + len(known.loaded) - before)


async def run(runs: int) -> Report:
    """`runs` of each way and each kind of process."""
    report = Report()
    calls: dict[str, set[int]] = {way: set() for way in WAYS}
    reads: dict[str, set[int]] = {way: set() for way in WAYS}
    async with opened() as site:
        site.fake.set_script(script())
        for kind in ("forked", "fromNothing"):
            took: dict[str, list[_Took]] = {way: [] for way in WAYS}
            for number in range(-1, runs):  # the first one of each is not counted: it reads files for the first time
                for way in WAYS:
                    one = await _answered(site, way, number, forked=kind == "forked")
                    if number >= 0:
                        took[way].append(one)
                        calls[way].add(one.calls)
                        reads[way].add(one.reads)
                said = ", ".join(f"{way} {found[-1].seconds:.3f} s" for way, found in took.items() if found)
                print(f"{kind} {number + 1} of {runs}: {said}", file=sys.stderr, flush=True)
            report.figures[kind] = {
                way: spread([one.seconds for one in found]) | {"cpu": spread([one.cpu for one in found])}
                for way, found in took.items()
            }
    report.figures["modelCalls"] = {way: sorted(found) for way, found in calls.items()}
    report.figures["knowledgeBaseRequests"] = {way: sorted(found) for way, found in reads.items()}
    # No word decides whether a question is one: the planner's reply says it.
    report.checks["model calls with all flags"] = (max(calls["allFlags"]), max(calls["withoutFlags"]) + 1)
    report.checks["model calls without flags"] = (max(calls["withoutFlags"]), 1)
    return report
