"""kopf itself over the middleware, against an apiserver that answers in every way that would end kopf's operator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import kopf
import pytest
from aiohttp import web

import kube
from controllers import reconnect
from kube import beats
from tests import httpserver, waiting
from tests.controllers.build import present
from tests.kube import apiserver

GROUP, VERSION = "jervis.dev", "v1alpha1"
TASKS = f"/apis/{GROUP}/{VERSION}/namespaces/here/pendingtasks"
KINDS = {"pendingtasks": "PendingTask"}


def event(kind: str, name: str, version: int) -> bytes:
    meta = {"name": name, "namespace": "here", "uid": name, "resourceVersion": str(version)}
    return json.dumps({"type": kind, "object": {"metadata": meta}}, separators=(",", ":")).encode() + b"\n"


def error(code: int) -> bytes:
    said = {"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "no"}}
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


class Apiserver:
    """Each list and each watch plays the next of its turns; then lists are `names`, and watches stay open.

    A turn of a list: an HTTP status, or text that is no JSON. A turn of a watch: an HTTP status, or bytes to send and
    whether the connection breaks then.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.lists: list[int | str] = []
        self.watches: list[int | tuple[bytes, bool]] = []
        self.asked: list[str] = []
        self.tokens: list[str] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization", ""))
        if request.path == "/api":
            return web.json_response({"versions": ["v1"]})
        if request.path == "/apis":
            version = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
            return web.json_response({"groups": [{"name": GROUP, "versions": [version], "preferredVersion": version}]})
        if request.path in ("/api/v1", f"/apis/{GROUP}/{VERSION}"):
            return web.json_response({"resources": self._resources(request.path == "/api/v1")})
        if "watch" in request.query:
            return await self._watch(request)
        self.asked.append("list")
        turn = self.lists.pop(0) if self.lists else 200
        if turn != 200:
            return web.Response(text=turn) if isinstance(turn, str) else web.json_response({}, status=turn)
        items = [json.loads(event("", name, 5))["object"] for name in self.names]
        return web.json_response({"items": items, "metadata": {"resourceVersion": "10"}})

    @staticmethod
    def _resources(core: bool) -> list[dict[str, Any]]:
        verbs = ["get", "list", "watch", "patch"]
        kinds = {"namespaces": "Namespace", "events": "Event"} if core else KINDS
        return [
            {"name": name, "singularName": name[:-1], "kind": kind, "namespaced": name != "namespaces", "verbs": verbs}
            for name, kind in kinds.items()
        ]

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"watch {request.query['resourceVersion']}")
        turn = self.watches.pop(0) if self.watches else (b"", False)
        last = not self.watches and turn == (b"", False)
        if isinstance(turn, int):
            return web.json_response({"message": "no"}, status=turn)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(turn[0])
        if last:
            await asyncio.Event().wait()
        if turn[1]:
            present(request.transport).abort()
        return response


class Answers:
    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def refused(self, namespace: str | None, plural: str, status: int, why: str) -> None:
        self.heard.append((namespace, plural, status))

    def resumed(self, namespace: str | None, plural: str) -> None:
        self.heard.append((namespace, plural, "resumed"))


class Place:
    """What kopf's handler received, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str | None, str]] = []
        self.answers = Answers()
        self.beats = beats.Beats(lambda: 0.0)
        self.token = "first"
        self._changed = asyncio.Event()

    def take(self, kind: str | None, raw: kopf.RawBody) -> None:
        self.told.append((kind, raw["metadata"]["name"]))
        self._changed.set()

    async def until(self, *wanted: tuple[str | None, str]) -> None:
        async with asyncio.timeout(waiting.PATIENCE):
            while len(self.told) < len(wanted):
                self._changed.clear()
                await self._changed.wait()
        assert sorted(self.told, key=str) == sorted(wanted, key=str), "kopf keeps the order per object only"


@asynccontextmanager
async def opened(api: Apiserver) -> AsyncIterator[Place]:
    """kopf's whole operator over the middleware; it must still run at the end."""
    place, registry, options = Place(), kopf.OperatorRegistry(), kopf.OperatorSettings()
    place.beats.expect(TASKS)
    options.posting.enabled, options.scanning.disabled, options.peering.standalone = False, True, True

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        guard = reconnect.Reconnect(place.answers, place.beats, lambda: {"Authorization": place.token})
        return kopf.AiohttpSession(server=loaded.host, aiohttp_session=kube.session(loaded, middlewares=(guard,)))

    @kopf.on.event(GROUP, VERSION, "pendingtasks", registry=registry)
    async def heard(event: kopf.RawEvent, **_: Any) -> None:
        place.take(event["type"], event["object"])

    async with httpserver.serving(api.serve, method="GET") as url:
        loaded = apiserver.configuration(url)
        running = asyncio.create_task(kopf.operator(registry=registry, settings=options, namespaces=["here"]))
        try:
            yield place
            assert not running.done(), "kopf goes on"
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def api() -> Apiserver:
    return Apiserver()


async def test_what_is_listed_then_what_happens(api: Apiserver) -> None:
    api.names, api.watches = ["a"], [(event("ADDED", "b", 11) + event("DELETED", "a", 12), False)]
    async with opened(api) as place:
        await place.until((None, "a"), ("ADDED", "b"), ("DELETED", "a"))
        assert place.beats.silent() == []
        assert place.answers.heard == [], "a first list is no gap"


@pytest.mark.parametrize("status", [401, 403, 404, 400, 410, 422, 500, 503])
async def test_a_list_that_is_refused_is_asked_again(api: Apiserver, status: int) -> None:
    api.names, api.lists = ["a"], [status, status]
    async with opened(api) as place:
        await place.until((None, "a"))
        if status in (403, 404):
            assert place.answers.heard[:2] == [("here", "pendingtasks", status)] * 2
            assert ("here", "pendingtasks", "resumed") in place.answers.heard
            assert place.beats.silent() == [], "an answer is an answer"
    assert api.asked[:3] == ["list"] * 3


async def test_a_list_that_is_no_json_is_asked_again(api: Apiserver) -> None:
    api.names, api.lists = ["a"], ["<html>a proxy</html>"]
    async with opened(api) as place:
        await place.until((None, "a"))


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500])
async def test_a_watch_that_is_refused_goes_on_where_it_stood(api: Apiserver, status: int) -> None:
    api.watches = [(event("ADDED", "a", 11), False), status, status, (event("ADDED", "b", 12), False)]
    async with opened(api) as place:
        await place.until(("ADDED", "a"), ("ADDED", "b"))
    assert api.asked[:5] == ["list", "watch 10", "watch 11", "watch 11", "watch 11"]


@pytest.mark.parametrize("code", [410, 500, 504, 429])
async def test_an_error_in_a_watch_leads_to_a_new_list(api: Apiserver, code: int) -> None:
    """What came before it in the same piece is received; the gap is reported."""
    api.watches = [(event("ADDED", "a", 11) + error(code) + event("ADDED", "never", 12), False)]
    async with opened(api) as place:
        await place.until(("ADDED", "a"))
        api.names = ["b"]
        await place.until(("ADDED", "a"), (None, "b"))
        assert place.answers.heard == [("here", "pendingtasks", "resumed")]
    assert api.asked[:3] == ["list", "watch 10", "list"]


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, [0.0]

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(round(seconds, 2))


async def test_watches_that_always_end_with_an_error_are_begun_less_and_less_often() -> None:
    """As kopf asks: a list, a watch, and both again when that ends. A watch without an error makes up for it."""
    api, time = Apiserver(), Time()
    place = Place()
    guard = reconnect.Reconnect(place.answers, place.beats, dict, monotonic=time, sleep=time.sleep)
    async with httpserver.serving(api.serve, method="GET") as host, aiohttp.ClientSession(middlewares=(guard,)) as http:

        async def round_of(watched: bytes) -> None:
            api.watches = [(watched, False)]
            async with http.get(host + TASKS) as answer:
                await answer.read()
            async with http.get(host + TASKS, params={"watch": "true", "resourceVersion": "1"}) as answer:
                async for _ in answer.content.iter_chunked(2**16):
                    pass

        while time.now < 1060:
            await round_of(event("ADDED", "a", 11) + error(500))
        assert api.asked.count("list") < 30, "a minute of them"
        paused = [seconds for seconds in time.slept if seconds]
        assert paused == sorted(paused), "each pause is at least as long as the one before"
        await round_of(event("ADDED", "b", 12))
        time.slept.clear()
        await round_of(event("ADDED", "c", 13))
        assert sum(time.slept) <= reconnect.PAUSE_SECONDS


@pytest.mark.parametrize("abort", [True, False])
async def test_half_an_event_is_none(api: Apiserver, abort: bool) -> None:
    api.watches = [(event("ADDED", "a", 11) + event("ADDED", "b", 12)[:30], abort), (event("ADDED", "b", 12), False)]
    async with opened(api) as place:
        await place.until(("ADDED", "a"), ("ADDED", "b"))


async def test_a_type_error_within_an_object_is_no_error() -> None:
    nested = {
        "metadata": {"name": "a", "uid": "a", "resourceVersion": "11"},
        "status": {"conditions": [{"type": "ERROR"}]},
    }
    line = json.dumps({"type": "ADDED", "object": nested}, separators=(",", ":")).encode() + b"\n"
    assert b'[{"type":"ERROR"' in line
    api = Apiserver()
    api.watches = [(line + event("ADDED", "b", 12), False)]
    async with opened(api) as place:
        await place.until(("ADDED", "a"), ("ADDED", "b"))


async def test_each_request_carries_the_token_of_now(api: Apiserver) -> None:
    api.watches = [(event("ADDED", "a", 11), False), (event("ADDED", "b", 12), False)]
    async with opened(api) as place:
        await place.until(("ADDED", "a"))
        place.token = "second"
        await place.until(("ADDED", "a"), ("ADDED", "b"))
    assert {"first", "second"} <= {*api.tokens}


async def test_other_requests_are_left_alone() -> None:
    """Only our collections are guarded: what kopf or a handler asks elsewhere gets the answer that came."""
    place = Place()
    guard = reconnect.Reconnect(place.answers, place.beats, dict)
    refusing = httpserver.serving(httpserver.fixed({}, 403), method="GET")
    async with refusing as host, aiohttp.ClientSession(middlewares=(guard,)) as http:
        for path in ("/api/v1/namespaces", f"{TASKS}/one", "/apis/jervis.dev/v1"):
            async with http.get(host + path) as answer:
                assert answer.status == 403
        with pytest.raises(aiohttp.ClientPayloadError):
            await http.get(host + TASKS)
