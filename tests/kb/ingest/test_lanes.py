"""Bulk writers never block an urgent one."""

from __future__ import annotations

import asyncio

import pytest

from crds.priority import Priority
from kb import errors, metrics
from kb.ingest import lanes


async def test_five_per_lane_and_a_full_wait_queue(meters: metrics.Metrics) -> None:
    writers = lanes.Lanes(meters, width=5, waiting=2)
    release = asyncio.Event()
    inside: list[str] = []

    async def write(name: str, urgency: Priority | None) -> None:
        async with writers.enter(urgency):
            inside.append(name)
            await release.wait()

    bulk = [asyncio.create_task(write("bulk", Priority.P3)) for _ in range(5)]
    unnamed = [asyncio.create_task(write("unnamed", None)) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert inside == ["bulk"] * 5
    with pytest.raises(errors.Crowded, match="2 writers wait in the normal lane"):
        await write("too many", Priority.P3)
    urgent = [asyncio.create_task(write("urgent", urgency)) for urgency in (Priority.P0, Priority.P1, Priority.P2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert inside == ["bulk"] * 5 + ["urgent"] * 3
    release.set()
    await asyncio.gather(*bulk, *unnamed, *urgent)
    assert sorted(inside) == ["bulk"] * 5 + ["unnamed"] * 2 + ["urgent"] * 3


async def test_a_writer_that_gives_up_waiting_leaves_no_trace(meters: metrics.Metrics) -> None:
    writers = lanes.Lanes(meters, width=1, waiting=1)
    async with writers.enter(Priority.P3):
        waiting = asyncio.create_task(writers.enter(Priority.P3).__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with writers.enter(Priority.P3):
        pass
    assert meters.registry.get_sample_value("jervis_kb_lane_writers", {"lane": "normal", "state": "waiting"}) == 0


async def test_one_client_does_not_fill_the_room_for_all(meters: metrics.Metrics) -> None:
    writers = lanes.Lanes(meters, width=1, waiting=4)
    release = asyncio.Event()
    inside: list[str] = []

    async def write(client: str) -> None:
        async with writers.enter(Priority.P3, client):
            inside.append(client)
            await release.wait()

    crowd = [asyncio.create_task(write("acme")) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(errors.Crowded, match="2 writers of client 'acme' wait in the normal lane"):
        await write("acme")
    other = asyncio.create_task(write("other"))
    await asyncio.sleep(0)
    release.set()
    await asyncio.gather(*crowd, other)
    assert inside == ["acme"] * 3 + ["other"]
    await write("acme")
