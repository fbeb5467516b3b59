"""How long a run takes to stop and to go on: SIGTERM with eight calls of sixty seconds in flight, and kill -9.

Each round has a process of its own, an interpreter that starts from nothing and imports what it needs, unless `forked`:
then it has its imports. Pages of files are in memory. The image, the node and the kubelet are not measured here: the
time of a pod is that of `hack/cluster`.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.agents import plain
from bench.agents.report import Report, spread
from bench.agents.site import Site, Task, opened, stop
from tests.nursery import children
from tests.orchestrator_job import job, mongowire, workbench

BRANCHES = 8
CALL_SECONDS = 60.0
ORDER = "Order: Find out what is open, check the contracts, and then write down what to do about each of them."
_ROOT = Path(__file__).resolve().parents[2]
_RESEARCH, _PLAN, _PLAIN = "job.agent.Research/v1", "job.plan_delegations/v1", "plain.agent.Research/v1"


def _plan(parts: int) -> dict[str, Any]:
    drafts = [
        {
            "agent": "Research",
            "task": f"Find out part{number}.",
            "expectedOutput": "",
            "constraints": [],
            "dependsOn": [],
        }
        for number in range(parts)
    ]
    return {"domain": "RESEARCH", "delegations": drafts}


def script(*, slow: bool) -> dict[str, list[Any]]:
    """A plan of eight delegations side by side; each calls a tool and then asks for its report, which takes sixty
    seconds where it is `slow`."""
    looks = workbench.calls(("search_knowledge", {"query": "what is open"}))
    waits = {"fault": {"stall": {"afterBytes": 0, "seconds": CALL_SECONDS}}}
    answer = {"when": "Order:", "answer": job.reply(answer="All is open [1].")}
    return {
        _PLAN: [{"when": "Order:", "answer": _plan(BRANCHES)}],
        _RESEARCH: [
            {"when": '<document source="search_knowledge"', "answer": waits if slow else workbench.report("It is.")},
            {"when": "Find out part", "answer": looks},
        ],
        "job.synthesize/v1": [answer],
        "plain.plan/v1": [{"when": "Order:", "answer": _plan(BRANCHES)}],
        _PLAIN: [
            {"when": '"items"', "answer": waits if slow else "It is."},
            {"when": "Find out part", "answer": looks},
        ],
        "plain.synthesize/v1": [answer],
    }


class Plain:
    """A process of the plain graph; the same thread at each start."""

    def __init__(self, site: Site, name: str) -> None:
        self._site, self._name, self._starts = site, name, 0

    def start(self, *, forked: bool, uri: str = "") -> children.Process:
        """From nothing, or with its imports."""
        self._starts += 1
        site, log = self._site, self._site.folder / f"log-{self._name}-{self._starts}"
        given = {
            "uri": uri or site.uri, "database": site.store.name, "thread": self._name, "content": ORDER,
            "model": site.fake.url, "kb": site.known.url, "sources": site.outside.url, "token": self._name,
            "at_once": str(BRANCHES),
        }  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), "BENCH_PLAIN": json.dumps(given)}
        if forked:
            return children.of(str(Path(plain.__file__))).start(environment, log)
        return children.interpreted(["bench.agents.plain"], environment, log, _ROOT)


def _delegating(site: Site, name: str, **environment: str) -> Task:
    return site.task(ORDER, name, JERVIS_DELEGATIONS_AT_ONCE=str(BRANCHES), **environment)


async def _asked(site: Site, tag: str, count: int, running: children.Process) -> None:
    """Return once the simulator has so many requests with this tag."""
    while await asyncio.to_thread(site.fake.count, tag=tag) < count:
        if running.poll() is not None:
            raise RuntimeError(f"the process has ended with status {running.poll()}")
        await asyncio.sleep(0.005)


async def preempt(runs: int, *, grace: str | None = None) -> Report:
    """From SIGTERM to the last write of the run, and to its end; and what the next process asks for again."""
    to_end: list[float] = []
    to_durable: list[float] = []
    plain_end: list[float] = []
    again: list[int] = []
    statuses: list[int] = []
    environment = {"JERVIS_DRAIN_GRACE_SECONDS": grace} if grace else {}
    async with opened() as site:
        for number in range(runs):
            site.fake.forget()
            site.fake.set_script(script(slow=True))
            task = _delegating(site, f"preempt-{number}", **environment)
            async with mongowire.proxying(site.uri) as proxy:
                last = [0.0]

                def seen(collection: str, count: int, last: list[float] = last) -> bool:
                    last[0] = time.monotonic()
                    return False

                proxy.after = seen
                running = task.start(JERVIS_MONGODB_URI=proxy.url)
                await _asked(site, _RESEARCH, 2 * BRANCHES, running.process)
                await asyncio.sleep(0.2)
                began = time.monotonic()
                stop(running.process)
                ended = await task.end(running)
                to_end.append(time.monotonic() - began)
                to_durable.append(max(0.0, last[0] - began))
                statuses.append(ended.status)
            site.fake.set_script(script(slow=False))
            site.fake.forget()
            finished = await task.run()
            if finished.message.get("exitReason") != "Answered":
                raise RuntimeError(f"the resumed run ended with {finished.message}")
            again.append(site.fake.count(tag=_RESEARCH))
            site.fake.forget()
            site.fake.set_script(script(slow=True))
            reference = Plain(site, f"plain-{number}").start(forked=True)
            await _asked(site, _PLAIN, 2 * BRANCHES, reference)
            await asyncio.sleep(0.2)
            began = time.monotonic()
            stop(reference)
            await asyncio.to_thread(reference.wait, CALL_SECONDS)
            plain_end.append(time.monotonic() - began)
            print(f"{number + 1} of {runs}: {to_end[-1]:.3f} s", file=sys.stderr, flush=True)
    report = Report(
        {
            "graceSeconds": grace or "of the settings",
            "sigtermToLastWrite": spread(to_durable),
            "sigtermToExit": spread(to_end),
            "statuses": sorted(set(statuses)),
            "callsAskedAgainMost": max(again),
            "plainLangGraphDiesAtOnceWithoutACheckpoint": spread(plain_end),
        }
    )
    report.checks["SIGTERM to exit, p95 in ms"] = (report.figures["sigtermToExit"]["p95_ms"], 1500)
    report.checks["statuses other than 42"] = (sum(one != 42 for one in statuses), 0)
    report.checks["calls asked again"] = (max(again), BRANCHES)
    return report


async def resume(runs: int, *, forked: bool = False) -> Report:
    """From kill -9 in the middle of eight calls to the first call of the next process, beside the plain graph."""
    ours: list[float] = []
    plains: list[float] = []
    imports: list[float] = []
    cpu: dict[str, list[float]] = {"ours": [], "plain": []}
    async with opened() as site:
        site.fake.set_script(script(slow=True))
        if not forked:
            await _with_bytecode(site)
        for number in range(runs):
            site.fake.forget()
            task = _delegating(site, f"resume-{number}")
            first: children.Process = task.start().process
            await _asked(site, _RESEARCH, 2 * BRANCHES, first)
            following = (lambda one: one.start().process) if forked else (lambda one: one.start_from_nothing().process)
            took, used = await _next(site, _RESEARCH, first, functools.partial(following, task))
            ours.append(took)
            cpu["ours"].append(used)
            site.fake.forget()
            reference = Plain(site, f"plain-{number}")
            first = reference.start(forked=True)
            await _asked(site, _PLAIN, 2 * BRANCHES, first)
            took, used = await _next(site, _PLAIN, first, functools.partial(reference.start, forked=forked))
            plains.append(took)
            cpu["plain"].append(used)
            imports.append(await _importing())
            print(f"{number + 1} of {runs}: {ours[-1]:.3f} s, plain {plains[-1]:.3f} s", file=sys.stderr, flush=True)
    report = Report(
        {
            "interpreter": "forked, with its imports" if forked else "from nothing",
            "killToNextCall": spread(ours),
            "killToNextCallCpu": spread(cpu["ours"]),
            "plainLangGraph": spread(plains),
            "plainLangGraphCpu": spread(cpu["plain"]),
            "pythonThatImportsLangGraphAlone": spread(imports),
        }
    )
    report.checks["kill to next node, p50 in ms"] = (report.figures["killToNextCall"]["p50_ms"], 2000)
    report.checks["kill to next node, p95 in ms"] = (report.figures["killToNextCall"]["p95_ms"], 5000)
    return report


async def _with_bytecode(site: Site) -> None:
    """What is imported has its bytecode in files afterwards, as in the image."""
    site.fake.forget()
    warming = _delegating(site, "warming").start_from_nothing().process
    await _asked(site, _RESEARCH, 1, warming)
    warming.kill()
    site.fake.forget()
    reference = Plain(site, "plain-warming").start(forked=False)
    await _asked(site, _PLAIN, 1, reference)
    reference.kill()


async def _importing() -> float:
    """Seconds of a Python that imports what both need and does nothing."""
    began = time.monotonic()
    empty = [sys.executable, "-c", "import pydantic, pymongo, httpx, langgraph.graph, langgraph.checkpoint.mongodb"]
    await (await asyncio.create_subprocess_exec(*empty)).wait()
    return time.monotonic() - began


async def _next(
    site: Site, tag: str, running: children.Process, start: Callable[[], children.Process]
) -> tuple[float, float]:
    """Kill it, start the next one, and wait for its first call: seconds, and those of CPU that the process had by then.
    It is killed as well."""
    before = site.fake.count(tag=tag)
    began = time.monotonic()
    running.kill()
    following = start()
    try:
        await _asked(site, tag, before + 1, following)
        took = time.monotonic() - began
        return took, cpu(following.pid)
    finally:
        following.kill()
        await asyncio.to_thread(following.wait, CALL_SECONDS)


def cpu(pid: int) -> float:
    """Seconds of CPU of a process: proc(5), stat, utime and stime, the 12th and the 13th field behind the name."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
