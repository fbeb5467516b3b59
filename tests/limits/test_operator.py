"""The operator's costs, counted by the apiserver itself on a small run, against the limits in operator.yaml."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

import kube
from bench.operator import flow, load, scale
from bench.operator.site import Counts, Site, changes, names, site, until
from controllers.pendingtask import task_index
from crds.phases import Phase
from tests.controllers import build

LIMITS = yaml.safe_load(Path(__file__).with_name("operator.yaml").read_text())
SPECS: dict[str, dict[str, Any]] = {
    "mail": flow.MAIL,
    "question": flow.QUESTION,
    "information": {"content": "INFO"},
}
TASKS = 12


async def one_after_the_other(here: Site, kind: str) -> list[str]:
    """Three at a time, each to its end, so that none waits for a place."""
    some = [f"{kind}-{number}" for number in range(TASKS)]

    async def ended(name: str) -> bool:
        return name in here.ended

    async def one(name: str) -> None:
        await here.submit(name, **SPECS[kind])
        await until(ended, f"{name} ends", 60.0, name)

    await load.crowd(some, 3, one)
    return some


async def size(here: Site, name: str) -> int:
    return len(orjson.dumps(await here.api.get(kube.TASKS, here.namespace, name)))


def per_task(asked: dict[str, float]) -> dict[str, float]:
    ours = (*flow.WRITES, *flow.HOUSEKEEPING, "POST events", "GET pendingtasks", "GET jobs", "LIST jobs", "LIST pods")
    return {key: asked[key] / TASKS for key in ours if key in asked}


@pytest.mark.apiserver
@pytest.mark.services
async def test_what_a_task_costs(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        await here.backend(flow.SLOTS)
        await here.listen()
        async with here.running(ARCHIVE_SECONDS=3600) as operator:
            await here.submit("warm", **flow.QUESTION)
            for kind, limit in LIMITS["lives"].items():
                before = await settled(here)
                some = await one_after_the_other(here, kind)
                asked = changes(before, await settled(here))
                found = per_task(asked)
                assert {key: found[key] for key in found if found[key] > limit.get(key, 0)} == {}, kind
            small = len(orjson.dumps(await here.create("plain", suspend=True)))
            assert await size(here, "mail-0") - small <= LIMITS["bytes_added"]
            assert not [pair for pair, number in here.kubelet.jobs.items() if number > 1]
            assert await asyncio.to_thread(operator.stop) == 0
        before = ours(await here.requests())
        async with here.running(ARCHIVE_SECONDS=0.5, JOB_TTL_SECONDS=0):
            await until(archived, "all are archived and their Jobs are gone", 60.0, here)
            asked = changes(before, ours(await here.requests()))
        ended, ran = 3 * TASKS + 1, 2 * TASKS + 1
        assert asked["PATCH pendingtasks"] / ended == LIMITS["housekeeping"]["PATCH pendingtasks"]
        removals = sum(number for key, number in asked.items() if key in ("DELETE jobs", "DELETECOLLECTION jobs"))
        assert ran / removals >= LIMITS["housekeeping"]["jobs_removed_per_request"], asked
        assert "PATCH jobs" not in asked, "no Job is given a time to live by a write of its own"
        assert some


@pytest.mark.apiserver
@pytest.mark.services
async def test_what_a_quiet_minute_costs(tmp_path: Path) -> None:
    """A whole minute, the longest round of periodic work: a shorter look meets such a round, or it does not."""
    async with site(tmp_path) as here:
        await here.backend(1)
        await here.listen()
        # The one write that says why a task waits is none of a quiet minute's.
        async with here.running(IDLE_SECONDS=3600, WAIT_REASON_SECONDS=3600) as operator:
            await flow.warm(here, **flow.QUESTION)
            await until(marked, "the first tasks are archived: that is no part of a quiet minute", 120.0, here)
            # Nor is the question after the tasks of ended Jobs, each of which is asked in turn.
            await here.api.delete_all(kube.JOBS, here.namespace, "")
            await flow.seed(here, 200)
            await flow.known(operator, 200)
            before = await settled(here)
            await asyncio.sleep(60)
            asked = changes(before, ours(await here.requests()))
    reads = sum(number for key, number in asked.items() if key.startswith(("GET", "LIST")))
    written = {key: number for key, number in asked.items() if not key.startswith(("GET", "LIST", "WATCH"))}
    assert sum(written.values()) == LIMITS["idle"]["writes"], written
    assert 0 < reads <= LIMITS["idle"]["reads_per_minute"], asked


async def settled(here: Site) -> Counts:
    """The counts once nothing is under way any more (Events are posted beside the work)."""
    last = ours(await here.requests())
    while True:
        await asyncio.sleep(1.0)
        now = ours(await here.requests())
        if now == last:
            return now
        last = now


def ours(counts: Counts) -> Counts:
    """Without what the apiserver asks itself, and the Lease."""
    return {key: number for key, number in counts.items() if key[1].partition("/")[0] in scale.KINDS}


async def archived(here: Site) -> bool:
    left = [raw async for raw in here.api.each(kube.JOBS, here.namespace)]
    return not left and await marked(here)


async def marked(here: Site) -> bool:
    tasks = [raw async for raw in here.api.each(kube.TASKS, here.namespace)]
    done = [raw for raw in tasks if (raw.get("status") or {}).get("completedAt")]
    return all("jervis.dev/archived" in raw["metadata"].get("labels", {}) for raw in done)


def test_what_is_remembered_of_a_task() -> None:
    """With a mail's usual conditions; content and what kubectl keeps of it in an annotation are not remembered."""
    raw = build.routed(Phase.READY_FOR_GPU).wire()
    raw["spec"]["content"] = "x" * 30_000
    raw["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 30_000}
    raw["status"]["phaseTimes"] = dict.fromkeys(("ReadyForQualification", "Qualifying", "ReadyForGpu"), STAMP)
    raw["status"]["conditions"] = [
        {
            "type": "Qualified",
            "status": "True",
            "reason": "Execute",
            "message": "Somebody is asked to renew a certificate.",
            "lastTransitionTime": STAMP,
            "observedGeneration": 1,
        }
    ]
    tasks = task_index.Tasks(lambda: datetime.now(UTC))
    tasks.observe(raw)
    gc.collect()
    tracemalloc.start()
    try:
        count = 2_000
        for name in names("mail", count):
            meta = {**raw["metadata"], "name": name, "uid": f"{name}-5b7d-4e21-9a55-3c2f6d8b1e00"}
            tasks.observe({**raw, "metadata": meta})
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / count <= LIMITS["bytes_remembered"]


STAMP = "2027-03-01T11:00:00Z"
