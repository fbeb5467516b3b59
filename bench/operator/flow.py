"""How many tasks per second go through, and how long one waits: whole lives, qualification alone, dispatch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kube
from bench.operator import load, processes
from bench.operator.report import Report, Samples, spread
from bench.operator.site import Site, changes, names, site, until, within
from tests.operator import process

SLOTS = 10_000
DRAIN_SECONDS = 300.0
"""For what was sent to end; what has not by then is listed in the report."""
QUESTION = {"type": "UserInputProcessing", "mode": "Foreground", "content": "Who pays for the GPU nodes?"}
MAIL: dict[str, Any] = {}
WRITES = ("PATCH pendingtasks/status", "POST jobs", "PATCH jobs", "DELETE jobs")
"""What only the operator writes during a life; pods and the status of Jobs are the kubelet's."""
HOUSEKEEPING = ("PATCH pendingtasks", "DELETE pendingtasks", "DELETECOLLECTION jobs")
"""What the archivist writes afterwards."""


async def lifecycle(directory: Path, *, rate: float = 60.0, count: int = 900) -> Report:
    """From apply to Completed, through the knowledge base and a Job."""
    async with site(directory) as here:
        await here.backend(SLOTS)
        await here.listen()
        async with here.running() as operator:
            await warm(here)
            report = await through(here, operator, rate, count, MAIL)
    report.checks["tasks per second"] = (report.figures["tasks_per_second"], ">=", 45.0)
    report.checks["writes per task"] = (report.figures["writes_per_task"]["sum"], "<=", 5.0)
    return report


async def qualification(directory: Path, *, rate: float = 330.0, count: int = 4000) -> Report:
    """From apply to Done: information that needs no Job."""
    async with site(directory) as here:
        await here.listen()
        async with here.running() as operator:
            await warm(here, content="INFO")
            report = await through(here, operator, rate, count, {"content": "INFO"})
    report.checks["tasks per second"] = (report.figures["tasks_per_second"], ">=", 300.0)
    return report


async def dispatch(directory: Path, *, rate: float = 20.0, count: int = 600) -> Report:
    """From apply to the Job that is there, at a moderate pace: questions in the foreground, then mails."""
    report = Report()
    async with site(directory) as here:
        await here.backend(SLOTS)
        await here.listen()
        async with here.running():
            await warm(here)
            for kind, spec in (("question", QUESTION), ("mail", MAIL)):
                figures = await dispatched(here, report, kind, rate, count, spec)
                report.checks[f"{kind} p50 ms"] = (figures["p50_ms"], "<=", 40.0)
                report.checks[f"{kind} p99 ms"] = (figures["p99_ms"], "<=", 250.0)
    return report


async def burst(directory: Path, *, rate: float = 75.0, count: int = 750) -> Report:
    """More mails for ten seconds than can be served: their Jobs come before every write that can wait."""
    report = Report()
    async with site(directory) as here:
        await here.backend(SLOTS)
        await here.listen()
        async with here.running():
            await warm(here)
            figures = await dispatched(here, report, "burst", rate, count, MAIL)
    report.checks["p99 ms"] = (figures["p99_ms"], "<=", 1500.0)
    return report


async def crowd(directory: Path, *, rate: float = 20.0, count: int = 400, behind: int = 10_000) -> Report:
    """The same for questions while 10,000 mails wait for the GPU, and while 10,000 are being qualified."""
    report = Report()
    async with site(directory / "waiting") as here:
        await here.backend(SLOTS)
        await here.listen()
        # A user was there a moment ago, so the background waits for the GPU.
        async with here.running(IDLE_SECONDS=3600) as operator:
            await warm(here, **QUESTION)
            await seed(here, behind)
            await known(operator, behind)
            figures = await dispatched(here, report, "waiting", rate, count, QUESTION)
            assert not any(name.startswith("seed") for name in here.kubelet.created)
    report.checks["waiting p99 ms"] = (figures["p99_ms"], "<=", 500.0)
    async with site(directory / "draining") as here:
        await here.backend(SLOTS)
        await load.crowd(names("seed", behind), 50, lambda name: here.submit(name, content="INFO"))
        await here.listen()
        async with here.running():
            figures = await dispatched(here, report, "draining", rate, count, QUESTION)
            figures["still behind"] = behind - sum(name.startswith("seed") for name in here.ended)
    report.checks["draining p99 ms"] = (figures["p99_ms"], "<=", 500.0)
    return report


async def preemption(directory: Path, *, count: int = 40) -> Report:
    """From apply of a question, with every slot taken by a background run, to the suspended Job of a victim."""
    report, samples = Report(), Samples()
    async with site(directory, hold=True) as here:
        await here.backend(count)
        await here.listen()
        async with here.running():
            await load.crowd(names("background", count), 8, here.submit)
            await until(lambda: here.kubelet.running(count), "all slots are taken")
            for number, name in enumerate(names("question", count)):
                begun = time.monotonic()
                await here.submit(name, **QUESTION)
                await until(here.kubelet.gave_way, "a run gives way", 20.0, number + 1)
                samples[name] = max(here.kubelet.suspended.values()) - begun
                await until(here.kubelet.running, "the question runs", 20.0, count + number + 1)
    report.samples["preemption"] = samples
    report.figures = spread(samples)
    report.checks["p99 ms"] = (report.figures["p99_ms"], "<=", 500.0)
    return report


async def warm(here: Site, **spec: Any) -> None:
    """Let a few through first: imports, connections, caches."""
    some = list(names("warm", 20))
    await load.crowd(some, 4, lambda name: here.submit(name, **spec))
    await until(lambda: _ended(here, some), "the first tasks end")


async def through(here: Site, operator: process.Operator, rate: float, count: int, spec: dict[str, Any]) -> Report:
    """Tasks per second from the first's moment to the last one's end, what was written, what it cost."""
    tasks, pids = list(names("task", count)), here.pids(operator)
    before, spent = await here.requests(), {name: processes.seconds(pid) for name, pid in pids.items()}
    sent = await load.paced(tasks, rate, lambda name: here.submit(name, **spec))
    whole = await within(lambda: _over(here, operator, sent.planned), DRAIN_SECONDS)
    if operator.process.poll() is not None:
        raise RuntimeError(f"the operator has ended ({operator.process.poll()}):\n{operator.log.read_text()[-2000:]}")
    ended = {name: here.ended[name] for name in sent.planned if name in here.ended}
    count = max(1, len(ended))
    elapsed = max(ended.values(), default=time.monotonic()) - min(sent.planned.values())
    used = {name: round((processes.seconds(pid) - spent[name]) / count * 1000, 2) for name, pid in pids.items()}
    await within(lambda: _posted(operator), 60.0)
    asked = changes(before, await here.requests())
    samples = {name: at - sent.planned[name] for name, at in ended.items()}
    report = Report(samples={"end": samples})
    report.figures = {
        "offered_per_second": rate,
        **sent.figures(),
        **({} if whole else {"not_ended": len(sent.planned) - len(ended)}),
        "tasks_per_second": round(len(ended) / elapsed, 1),
        "apply_to_end": spread(samples),
        "cpu_ms_per_task": used,
        "writes_per_task": writes(asked, count),
        "housekeeping_per_task": {key: round(asked[key] / count, 3) for key in HOUSEKEEPING if key in asked},
        "events_per_task": round(asked.get("POST events", 0.0) / count, 2),
        "events_dropped": await asyncio.to_thread(operator.metric, "jervis_operator_events_dropped_total"),
        "reads_per_task": round(sum(n for key, n in asked.items() if key.startswith("GET ")) / count, 2),
        "duplicate_jobs": sum(number > 1 for number in here.kubelet.jobs.values()),
        "kubelet_failures": here.kubelet.failures[:3],
    }
    return report


def writes(asked: dict[str, float], count: int) -> dict[str, float]:
    """The operator's writes per task by kind, and their sum."""
    found = {key: round(asked[key] / count, 3) for key in WRITES if key in asked}
    return {**found, "sum": round(sum(found.values()), 3)}


async def dispatched(
    here: Site, report: Report, kind: str, rate: float, count: int, spec: dict[str, Any]
) -> dict[str, float]:
    """Seconds from each task's moment to its Job; into the report as well."""
    tasks = list(names(kind, count))
    sent = await load.paced(tasks, rate, lambda name: here.submit(name, **spec))
    await until(lambda: _created(here, sent.planned), "all Jobs are created", 300.0)
    samples = {name: here.kubelet.created[name] - moment for name, moment in sent.planned.items()}
    report.samples[kind] = samples
    report.figures[kind] = figures = {"sent_per_second": round(len(samples) / sent.seconds, 1), **spread(samples)}
    return figures


async def seed(here: Site, count: int, phase: str = "ReadyForGpu") -> float:
    """Mails that have been qualified already; the seconds that this took."""
    route = {"decision": "Execute", "reason": "by rule", "hints": {"hasActionableContent": True, "urgency": "normal"}}
    # Not longer ago: a task that has aged would get a slot although users are active.
    stamp = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    condition = {
        "type": "Qualified",
        "status": "True",
        "reason": "Execute",
        "message": "by rule",
        "lastTransitionTime": stamp,
        "observedGeneration": 1,
    }
    passed = dict.fromkeys(("ReadyForQualification", "Qualifying", phase), stamp)
    status = {"phase": phase, "route": route, "conditions": [condition], "phaseTimes": passed, "observedGeneration": 1}

    async def one(name: str) -> None:
        await here.submit(name, mode="Background")
        await here.api.merge(kube.TASKS, here.namespace, name, {"status": status}, "status")

    return await load.crowd(names("seed", count), 50, one)


async def known(operator: process.Operator, count: int) -> None:
    """Return once the operator knows of so many live tasks and nothing is left to look at."""

    async def enough() -> bool:
        seen = await asyncio.to_thread(operator.metric, "jervis_operator_tasks")
        return seen >= count and await asyncio.to_thread(operator.metric, "jervis_operator_queue_depth") == 0

    await until(enough, f"the operator knows {count} tasks", 300.0)


async def _over(here: Site, operator: process.Operator, some: Iterable[str]) -> bool:
    """All have ended, or the operator that could end them is gone."""
    return operator.process.poll() is not None or await _ended(here, some)


async def _ended(here: Site, some: Iterable[str]) -> bool:
    return all(name in here.ended for name in some)


async def _created(here: Site, some: Iterable[str]) -> bool:
    return all(name in here.kubelet.created for name in some)


async def _posted(operator: process.Operator) -> bool:
    """No Event of the last second is under way any more."""

    async def count() -> float:
        return await asyncio.to_thread(operator.metric, 'jervis_operator_api_requests_total{code="201",verb="POST"}')

    first = await count()
    await asyncio.sleep(0.5)
    return await count() == first
