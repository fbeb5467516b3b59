"""How fast finished tasks are archived and deleted: while live work goes on for ever, and a pile of them at a start."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import kube
from bench.operator import flow, load, processes
from bench.operator.report import Report
from bench.operator.site import changes, names, site, within
from tests.operator import process

KEPT = 200
"""Finished objects of the one client that may stay, so that as many go as come."""
EVERY = 10.0
"""Seconds between two sweeps, so that a minute has several of them."""
ARCHIVED, DELETED = "jervis_operator_archived_total", "jervis_operator_deleted_total"
OURS = ("GET pendingtasks", "LIST pendingtasks", "PATCH pendingtasks", "DELETE pendingtasks")


async def archive(directory: Path, *, rate: float = 45.0, seconds: float = 120.0, pile: int = 5000) -> Report:
    """Both, one after the other, each on a site of its own."""
    report = Report()
    report.figures["endless"] = endless = await _endless(directory / "endless", rate, seconds)
    report.figures["pile"] = await _pile(directory / "pile", pile)
    # A sweep more or less falls into the half that is counted.
    for what in ("archived", "deleted"):
        report.checks[f"{what} of those that ended"] = (
            round(endless[f"{what}_per_second"] / max(1.0, endless["ended_per_second"]), 2),
            ">=",
            0.8,
        )
    return report


async def _endless(directory: Path, rate: float, seconds: float) -> dict[str, Any]:
    """Mails that are mere information, read and ended by the operator; rates of the second half of the time."""
    async with site(directory) as here:
        await here.listen()
        async with here.running(FINISHED_PER_CLIENT=KEPT, ARCHIVE_SECONDS=EVERY) as operator:
            await flow.warm(here, content="INFO")
            before = await here.requests()
            sending = asyncio.create_task(
                load.paced(
                    list(names("task", int(rate * seconds))), rate, lambda name: here.submit(name, content="INFO")
                )
            )
            most, half_at, ended = 0, 0.0, 0
            half: dict[str, float] = {}
            begun = time.monotonic()
            while not sending.done():
                await asyncio.sleep(1.0)
                most = max(most, len(here.phases))
                if not half and time.monotonic() - begun >= seconds / 2:
                    half, half_at, ended = await _counted(operator), time.monotonic(), len(here.ended)
            sent = await sending
            found, took = await _counted(operator), time.monotonic() - half_at
            done = max(1.0, found[ARCHIVED])
            asked = changes(before, await here.requests())
    return {
        **sent.figures(),
        "ended_per_second": round((len(here.ended) - ended) / took, 1),
        "archived_per_second": round((found[ARCHIVED] - half[ARCHIVED]) / took, 1),
        "deleted_per_second": round((found[DELETED] - half[DELETED]) / took, 1),
        "most_objects": most,
        "not_ended": sum(name not in here.ended for name in sent.planned),
        "objects_at_the_end": len(here.phases),
        "requests_per_archived_task": {key: round(asked[key] / done, 3) for key in OURS if key in asked},
    }


async def _pile(directory: Path, count: int) -> dict[str, Any]:
    """Finished tasks of 4 KiB that an operator finds at its start, all of them due."""
    async with site(directory) as here:
        stamp = "2026-01-01T00:00:00Z"
        status = {"phase": "Completed", "completedAt": stamp, "phaseTimes": {"Completed": stamp}}

        async def one(name: str) -> None:
            await here.submit(name, content="x" * 4096, ttlSecondsAfterFinished=0)
            await here.api.merge(kube.TASKS, here.namespace, name, {"status": status}, "status")

        await load.crowd(list(names("old", count)), 50, one)
        before, begun = await here.requests(), time.monotonic()
        async with here.running() as operator:
            pids = here.pids(operator)

            async def gone() -> bool:
                return (await _counted(operator))[DELETED] >= count

            whole = await within(gone, 300.0)
            took = time.monotonic() - begun
            done = await _counted(operator)
            asked = changes(before, await here.requests())
            used = {name: round(processes.seconds(pid), 1) for name, pid in pids.items() if name == "operator"}
    number = max(1.0, done[DELETED])
    return {
        "tasks": count,
        **({} if whole else {"left": count - done[DELETED]}),
        "seconds": round(took, 1),
        "archived_per_second": round(done[ARCHIVED] / took, 1),
        "deleted_per_second": round(done[DELETED] / took, 1),
        "requests_per_deleted_task": {key: round(asked[key] / number, 3) for key in OURS if key in asked},
        "operator_cpu_seconds": used["operator"],
    }


async def _counted(operator: process.Operator) -> dict[str, float]:
    return {name: await asyncio.to_thread(operator.metric, name) for name in (ARCHIVED, DELETED)}
