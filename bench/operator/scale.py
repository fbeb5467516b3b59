"""What 10,000 live tasks cost: memory, the way back after kill -9, and calls while nothing happens."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import kube
from bench.operator import flow, processes
from bench.operator.report import Report
from bench.operator.site import Site, changes, site, until
from controllers.archive import finished
from controllers.pendingtask.slots import wait_conditions
from tests.operator import process

BUSY = {"IDLE_SECONDS": 3600}
"""A user was there a moment ago, so the background waits."""


async def memory(directory: Path, *, count: int = 10_000) -> Report:
    """MiB that live tasks add to the operator: as they come while it runs, and as it finds them at its start."""
    async with site(directory) as here:
        await here.backend(1)
        await here.listen()
        async with here.running(**BUSY) as operator:
            await flow.warm(here, **flow.QUESTION)
            here.kubelet.hold = True
            empty = await settled(operator)
            await flow.seed(here, count)
            await flow.known(operator, count)
            came = await settled(operator)
        # Of those that it finds one takes the only slot and keeps it.
        async with here.running() as operator:
            await flow.known(operator, count)
            found = await settled(operator)
            peak = processes.peak(operator.process.pid)
    each = 10_000 / count
    figures = {
        "objects": count,
        "mib_empty": round(empty, 1),
        "mib_full": round(came, 1),
        "mib_full_after_start": round(found, 1),
        "mib_peak_resident_at_start": round(peak, 1),
        "mib_per_10000": round((came - empty) * each, 1),
        "mib_per_10000_after_start": round((found - empty) * each, 1),
    }
    return Report(
        figures,
        {
            "MiB per 10,000": (figures["mib_per_10000"], "<=", 40.0),
            "MiB per 10,000 after a start": (figures["mib_per_10000_after_start"], "<=", 40.0),
        },
    )


async def restart(directory: Path, *, count: int = 10_000, rounds: int = 5) -> Report:
    """From the start of a new process after kill -9 to the right first action: the question goes, no mail before it."""
    samples: dict[str, float] = {}
    spent: list[float] = []
    async with site(directory) as here:
        await here.backend(2)
        await here.listen()
        async with here.running(**BUSY):
            await flow.warm(here, **flow.QUESTION)
            await flow.seed(here, count)
        for number in range(rounds):
            name = f"asked-{number}"
            await here.submit(name, **flow.QUESTION)
            begun = time.monotonic()
            operator = here.operator(**BUSY)
            try:
                await until(_created, "the question's Job", 60.0, here, name)
                samples[name] = here.kubelet.created[name] - begun
                spent.append(processes.seconds(operator.process.pid))
                wrong = [one for one in here.kubelet.created if one.startswith("seed")]
                assert not wrong, f"went before the question: {wrong}"
            finally:
                operator.kill()
    ordered = sorted(samples.values())
    figures: dict[str, float] = {
        "objects": count,
        "median_seconds": round(ordered[len(ordered) // 2], 2),
        "max_seconds": round(ordered[-1], 2),
        "cpu_seconds": round(sorted(spent)[len(spent) // 2], 2),
    }
    return Report(figures, {"seconds": (figures["max_seconds"], "<=", 5.0)}, {"restart": samples})


async def idle(directory: Path, *, count: int = 1_000, seconds: float = 60.0) -> Report:
    """Calls of the apiserver while tasks wait, once each of them carries its reason. The Lease is counted apart."""
    async with site(directory) as here:
        await here.backend(1)
        await here.listen()
        async with here.running(**BUSY, WAIT_REASON_SECONDS=wait_conditions.EVERY_SECONDS) as operator:
            await flow.warm(here, **flow.QUESTION)
            await flow.seed(here, count)
            await flow.known(operator, count)
            await until(_archived, "the first tasks are archived", 120.0, here)
            before = await here.requests()
            while True:
                await asyncio.sleep(3 * wait_conditions.EVERY_SECONDS)
                after = await here.requests()
                if not any(key.startswith("PATCH pendingtasks") for key in changes(before, after)):
                    break
                before = after
            before, spent = await here.requests(), processes.seconds(operator.process.pid)
            await asyncio.sleep(seconds)
            asked = changes(before, await here.requests())
            used = processes.seconds(operator.process.pid) - spent
    ours = {key: number for key, number in asked.items() if key.partition(" ")[2].partition("/")[0] in KINDS}
    written = {key: number for key, number in ours.items() if not key.startswith(("GET", "LIST", "WATCH"))}
    figures = {
        "objects": count,
        "seconds": seconds,
        "writes": sum(written.values()),
        "calls": ours,
        "lease_calls": {key: number for key, number in asked.items() if "leases" in key},
        "cpu_percent": round(used / seconds * 100, 2),
    }
    return Report(figures, {"writes": (sum(written.values()), "<=", 0.0)})


KINDS = ("pendingtasks", "jobs", "pods", "gpubackends", "connections", "events")


async def settled(operator: process.Operator) -> float:
    """MiB once it does not change any more."""
    last = processes.resident(operator.process.pid)
    while True:
        await asyncio.sleep(2.0)
        now = processes.resident(operator.process.pid)
        if abs(now - last) < 0.2:
            return now
        last = now


async def _archived(here: Site) -> bool:
    """All that has ended carries the mark: what is written from now on is not for them."""
    marked = f"{finished.ARCHIVED_LABEL}={finished.ARCHIVED}"
    found = [one async for one in here.api.each(kube.TASKS, here.namespace, marked)]
    return len(found) >= len(here.ended)


async def _created(here: Site, name: str) -> bool:
    return name in here.kubelet.created
