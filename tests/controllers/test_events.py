"""Events: their names, and that none is lost while the work or the apiserver holds them back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from controllers import events
from tests import waiting
from tests.controllers.build import NOW, UID
from tests.kube import apiserver

META = {"name": "mail-1", "namespace": "ns", "uid": UID, "resourceVersion": "41"}
ABOUT: dict[str, Any] = {"apiVersion": "jervis.dev/v1alpha1", "kind": "PendingTask", "metadata": META}


def note(reason: str = "Accepted", step: int = 0, *, warning: bool = False, version: str = "41") -> events.Note:
    return events.Note(reason, f"{reason} it is.", warning, version, step, NOW)


def about(uid: str, version: str = "41") -> dict[str, Any]:
    return {**ABOUT, "metadata": {**META, "uid": uid, "resourceVersion": version}}


def test_each_step_of_a_write_has_an_event_of_its_own() -> None:
    made = [events.manifest(ABOUT, [note(step=step)]) for step in range(3)]
    assert [one["metadata"]["name"] for one in made] == [
        "mail-1.0f9a1c2e.0000000000000029",
        "mail-1.0f9a1c2e.0000000000000029.1",
        "mail-1.0f9a1c2e.0000000000000029.2",
    ]
    assert {one["involvedObject"]["resourceVersion"] for one in made} == {"41"}
    assert made[0] == events.manifest(ABOUT, [note()]), "a repeated post is the same Event"
    assert made[0]["message"] == "Accepted it is."


def test_names_are_in_the_order_of_the_writes() -> None:
    told = [("9999", 0), ("9999", 1), ("10000", 0), ("10000", 1), ("65536", 0), (str(2**63 - 1), 0)]
    names = [events.manifest(ABOUT, [note(step=step, version=one)])["metadata"]["name"] for one, step in told]
    assert names == sorted(names)


def test_several_transitions_in_one_event() -> None:
    made = events.manifest(ABOUT, [note("Accepted"), note("Failed", 1, warning=True), note("Retried", 2)])
    assert made["metadata"]["name"] == "mail-1.0f9a1c2e.0000000000000029.2"
    assert (made["reason"], made["type"]) == ("Failed", "Warning")
    assert made["message"] == "Accepted: Accepted it is. Failed: Failed it is. Retried: Retried it is."


class Place:
    """A recorder, its clock, and an apiserver that answers `codes` first and then takes everything."""

    def __init__(self) -> None:
        self.now, self.codes = 0.0, list[int]()
        self.taken: list[dict[str, Any]] = []
        self.dropped = self.merged = self.slept = 0
        self.recorder: events.Recorder
        self._changed = asyncio.Event()

    async def serve(self, request: web.Request) -> web.Response:
        if self.codes:
            return web.json_response({"message": "no"}, status=self.codes.pop(0))
        self.taken.append(await request.json())
        self._changed.set()
        return web.json_response(self.taken[-1], status=201)

    def drop(self, number: int) -> None:
        self.dropped += number
        self._changed.set()

    def merge(self, number: int) -> None:
        self.merged += number

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += 1
        self._changed.set()
        await asyncio.sleep(0)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(waiting.PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    @property
    def reasons(self) -> list[str]:
        return [one["reason"] for one in self.taken]


@asynccontextmanager
async def opened(capacity: int = 100, *, runs: bool = True) -> AsyncIterator[Place]:
    place = Place()
    async with apiserver.serving(place.serve, "POST") as api:
        place.recorder = events.Recorder(
            api,
            clock=lambda: NOW,
            monotonic=lambda: place.now,
            dropped=place.drop,
            merged=place.merge,
            sleep=place.sleep,
            capacity=capacity,
        )
        running = asyncio.create_task(place.recorder.run() if runs else asyncio.sleep(0))
        try:
            yield place
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_one_event_per_transition() -> None:
    async with opened() as place:
        for step, reason in enumerate(("Accepted", "Qualifying", "Queued")):
            place.recorder.post(ABOUT, reason, "So it is.", step=step)
        await place.until(lambda: len(place.taken) == 3)
        assert place.reasons == ["Accepted", "Qualifying", "Queued"]
        assert (place.merged, place.dropped, len(place.recorder)) == (0, 0, 0)


async def test_more_than_a_person_reads_come_together_without_any_work() -> None:
    """A burst goes one by one, then those of an object come together, and after a quiet time they go one by one."""
    told = ("Accepted", "Qualifying", "Queued", "Dispatched")
    async with opened(capacity=1000) as place:

        def post(name: str) -> None:
            for step, reason in enumerate(told):
                place.recorder.post(about(name), reason, "So it is.", step=step)

        singly, objects = int(events.BURST / len(told)), 400
        for number in range(objects):
            post(f"one-{number}")
        await place.until(lambda: len(place.recorder) == 0)
        most = singly + events.PATIENCE_SECONDS * events.RATE / len(told)
        one_by_one = {one["involvedObject"]["uid"] for one in place.taken if ": " not in one["message"]}
        assert singly <= len(one_by_one) <= most
        assert place.dropped == 0
        assert len(place.taken) == len(one_by_one) * len(told) + objects - len(one_by_one)
        assert place.merged == (objects - len(one_by_one)) * (len(told) - 1)
        place.now += events.BURST / events.RATE
        place.taken.clear()
        post("later")
        await place.until(lambda: len(place.taken) == len(told))
        assert place.reasons == list(told)


async def test_an_apiserver_that_is_away_loses_nothing() -> None:
    async with opened() as place:
        place.codes = [503, 500, 429, 503]
        place.recorder.post(ABOUT, "Accepted", "So it is.")
        place.recorder.post(about("other"), "Done", "So it is.")
        await place.until(lambda: len(place.taken) == 2)
        assert place.reasons == ["Accepted", "Done"]
        assert place.dropped == 0


async def test_what_is_refused_is_counted_and_holds_up_no_other() -> None:
    async with opened() as place:
        place.codes = [422, 403]
        for name in ("a", "b", "c"):
            place.recorder.post(about(name), "Done", "So it is.")
        await place.until(lambda: len(place.taken) == 1)
        assert place.taken[0]["involvedObject"]["uid"] == "c"
        assert place.dropped == 2


async def test_the_last_ones_go_with_the_process() -> None:
    async with opened(runs=False) as place:
        for uid, reason in (("a", "Accepted"), ("a", "Done"), ("b", "Done")):
            place.recorder.post(about(uid), reason, "So it is.")
        await place.recorder.finish()
        assert [one["message"] for one in place.taken] == ["Accepted: So it is. Done: So it is.", "So it is."]
        assert (place.merged, place.dropped, len(place.recorder)) == (1, 0, 0)


async def test_the_line_is_bounded_by_its_objects() -> None:
    async with opened(capacity=2) as place:
        for uid in ("a", "a", "b", "c"):
            place.recorder.post(about(uid), "Done", "So it is.")
        assert place.dropped == 2, "both transitions of the oldest object"
        assert len(place.recorder) == 2
