"""A list and a watch of one collection, against an apiserver that ends watches in every way that is known to happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

import kube
from kube import beats, stream
from tests import waiting
from tests.kube import apiserver


def event(kind: str, name: str, version: int) -> bytes:
    return apiserver.event(kind, {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}})


BOOKMARK = apiserver.event("BOOKMARK", {"metadata": {"resourceVersion": "40"}})


class Place:
    """A stream, what it told, and what is remembered of it."""

    def __init__(self, api: apiserver.Collection, calls: kube.Kube, silence: float) -> None:
        self.api, self.told, self.known = api, list[tuple[str, str]](), dict[str, dict[str, Any]]()
        self.tripped, self.poison = 0, ""
        self.seen: Callable[[str], object] = lambda name: None
        self.beats = beats.Beats(lambda: 0.0)
        self._changed = asyncio.Event()
        self.beats.expect(kube.TASKS.path("here"))
        source = stream.Source(kube.TASKS, "here", labels="a=b", fields="status.phase!=Done")
        self.stream = stream.Stream(
            calls,
            source,
            on_object=self._on_object,
            known=lambda: list(self.known.values()),
            answers=self.beats,
            silence=silence,
            failed=self._failed,
        )

    def _on_object(self, kind: str, raw: dict[str, Any]) -> None:
        name = raw["metadata"]["name"]
        if name == self.poison:
            raise KeyError(name)
        self.seen(name)
        self.told.append((kind, name))
        if kind == "DELETED":
            self.known.pop(name, None)
        else:
            self.known[name] = raw
        self._changed.set()

    def _failed(self) -> None:
        self.tripped += 1

    async def until(self, *wanted: tuple[str, str]) -> None:
        """Everything told so far is exactly `wanted`."""
        async with asyncio.timeout(waiting.PATIENCE):
            while len(self.told) < len(wanted):
                self._changed.clear()
                await self._changed.wait()
        assert self.told == list(wanted)


@asynccontextmanager
async def opened(api: apiserver.Collection, *, silence: float = 20.0) -> AsyncIterator[Place]:
    async with apiserver.serving(api.serve) as reached:
        place = Place(api, reached, silence)
        await place.stream.read()
        running = asyncio.create_task(place.stream.run())
        try:
            yield place
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_all_pages_then_the_watch_from_there() -> None:
    changed, added = event("MODIFIED", "a", 11), event("ADDED", "d", 12)
    api = apiserver.Collection(([changed[:25], changed[25:] + added], "hold"), pages=[["a", "b"], ["c"]])
    async with opened(api) as place:
        listed = [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
        await place.until(*listed, ("MODIFIED", "a"), ("ADDED", "d"))
        assert place.beats.ages() == {"/apis/jervis.dev/v1alpha1/namespaces/here/pendingtasks": 0.0}
    assert api.since == ["10"]
    assert all(one["labelSelector"] == "a=b" and one["fieldSelector"] == "status.phase!=Done" for one in api.queries)


async def test_the_next_page_is_made_while_one_is_taken_in() -> None:
    """A whole page takes more than a few turns of the loop: the server has the next request before its end."""
    api = apiserver.Collection(pages=[[f"a{number:04}" for number in range(2_000)], ["last"]])
    asked_by: dict[str, int] = {}
    async with apiserver.serving(api.serve) as reached:
        place = Place(api, reached, 20.0)
        place.seen = lambda name: asked_by.setdefault(name, len(api.queries))
        await place.stream.read()
        assert asked_by["a1999"] == 2
        async with aclosing(reached.each(kube.TASKS, "here")) as some:
            async for raw in some:
                assert raw["metadata"]["name"] == "a0000"
                break


async def test_a_watch_that_ends_goes_on_where_it_stood() -> None:
    first, second = ([event("ADDED", "a", 11), BOOKMARK], "end"), ([event("ADDED", "b", 41)], "hold")
    api = apiserver.Collection(first, ([], 503), ([], 403), second)
    async with opened(api) as place:
        await place.until(("ADDED", "a"), ("ADDED", "b"))
    assert api.since == ["10", "40", "40", "40"]
    assert api.lists == 1


@pytest.mark.parametrize("lost", [([apiserver.EXPIRED], "end"), ([], 410)])
async def test_a_lost_place_is_found_again_by_a_list(lost: tuple[list[bytes], str | int]) -> None:
    """And what went away meanwhile is told, which no event would."""
    api = apiserver.Collection(lost, ([event("MODIFIED", "stays", 21)], "hold"), pages=[["stays", "goes"]])
    async with opened(api) as place:
        api.pages = [["stays"]]
        first = [("ADDED", "stays"), ("ADDED", "goes")]
        await place.until(*first, ("ADDED", "stays"), ("DELETED", "goes"), ("MODIFIED", "stays"))
    assert api.since == ["10", "20"]


async def test_events_before_an_error_in_the_same_chunk_are_told() -> None:
    api = apiserver.Collection(([event("ADDED", "a", 11) + apiserver.EXPIRED], "end"))
    async with opened(api) as place:
        api.pages = [["a"]]
        await place.until(("ADDED", "a"), ("ADDED", "a"))


async def test_half_an_event_is_none() -> None:
    api = apiserver.Collection(([event("ADDED", "a", 11)[:30]], "reset"), ([event("ADDED", "a", 11)], "hold"))
    async with opened(api) as place:
        await place.until(("ADDED", "a"))
    assert api.since == ["10", "10"]


async def test_a_silent_watch_is_left() -> None:
    api = apiserver.Collection(([], "hold"), ([event("ADDED", "a", 11)], "hold"))
    async with opened(api, silence=0.2) as place:
        await place.until(("ADDED", "a"))
    assert api.since[:2] == ["10", "10"]


async def test_one_object_that_trips_a_bug_does_not_stop_the_others() -> None:
    api = apiserver.Collection(([event("ADDED", "bad", 11) + event("ADDED", "good", 12)], "hold"), pages=[["fine"]])
    async with opened(api) as place:
        place.poison = "bad"
        await place.until(("ADDED", "fine"), ("ADDED", "good"))
        assert place.tripped == 1
