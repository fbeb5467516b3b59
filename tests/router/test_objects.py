"""GpuBackend objects and Secrets as `kube` brings them, against an apiserver whose answers the test makes up."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import kube
from crds import gpubackend
from kube import lease
from router import auth, outside
from router.backends import book, objects, secrets
from router.settings import Settings
from tests import waiting
from tests.kube import apiserver as collections
from tests.router import apiserver

GOOD = "http://127.0.0.1:9"
Changes = Sequence[tuple[str, dict[str, Any]]]


class Apiserver:
    """Its GpuBackends are `items` and then each list of `changes`, one watch for each. Answers everything else from
    `answers` by "METHOD path" (status, body), of which those to a status that is patched are given by name, and keeps
    what came in `heard`."""

    def __init__(self, *items: dict[str, Any], changes: Sequence[Changes] = (), **answers: tuple[int, Any]) -> None:
        turns = [([collections.event(kind, raw) for kind, raw in each], "end") for each in changes]
        self.backends = collections.Collection(*turns, pages=[items])
        self.answers = {f"PATCH gpubackends/{name}/status": answer for name, answer in answers.items()}
        self.heard: list[tuple[str, Any]] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/gpubackends"):
            return await self.backends.serve(request)
        asked = f"{request.method} {request.path.rpartition('/namespaces/here/')[2] or request.path}"
        self.heard.append((asked, await request.json() if request.can_read_body else None))
        status, body = self.answers.get(asked, (200, {}))
        return web.json_response(body, status=status)


def backend(name: str, url: str, uid: str = "", **status: Any) -> dict[str, Any]:
    """As an apiserver has it."""
    meta = {"name": name, "uid": uid or name, "resourceVersion": "11"}
    return {"metadata": meta, "spec": {"url": url, "kind": "GPU"}, "status": status}


@asynccontextmanager
async def opened(api: Apiserver, directory: Path, **settings: Any) -> AsyncIterator[outside.Outside]:
    async with apiserver.serving(api.serve, directory) as kubeconfig:
        config = Settings(namespace="here", kubeconfig=kubeconfig, **settings)
        opened_outside = outside.Outside(config, now=lambda: 0.0, wall=lambda: pytest.fail("nobody asks"))
        try:
            yield opened_outside
        finally:
            await opened_outside.aclose()


class Told:
    """What a source told, and the source."""

    def __init__(self, one: outside.Outside) -> None:
        self.told: list[dict[str, str]] = []
        self._more = asyncio.Event()
        source = one.source()
        assert source is not None
        source.listen(self._hear)
        self.source: objects.Source = source

    async def until(self, *told: Mapping[str, str]) -> None:
        """Exactly this was told, URLs by name."""
        async with asyncio.timeout(waiting.PATIENCE), asyncio.TaskGroup() as group:
            running = group.create_task(self.source.run())
            while len(self.told) < len(told):
                self._more.clear()
                await self._more.wait()
            running.cancel()
        assert self.told == list(told)

    def _hear(self, specs: Mapping[str, gpubackend.Spec]) -> None:
        self.told.append({name: spec.url for name, spec in specs.items()})
        self._more.set()


async def test_a_whole_list_is_told_at_once_and_then_each_change(tmp_path: Path) -> None:
    changes = [[("MODIFIED", backend("one", GOOD, circuit="Open")), ("DELETED", backend("one", GOOD))]]
    api = Apiserver(backend("one", GOOD), backend("two", GOOD, activeSet="s"), changes=changes)
    async with opened(api, tmp_path) as one:
        told = Told(one)
        await told.until({"one": GOOD, "two": GOOD}, {"two": GOOD})
        assert {name: status.active_set for name, status in told.source.statuses().items()} == {"two": "s"}


async def test_no_backend_at_all_is_told_too(tmp_path: Path) -> None:
    async with opened(Apiserver(), tmp_path) as one:
        await Told(one).until({})


async def test_an_invalid_object_keeps_its_former_spec_and_goes_when_it_is_deleted(tmp_path: Path) -> None:
    broken = "ftp://nowhere"
    changed = [("MODIFIED", backend("one", broken)), ("ADDED", backend("two", GOOD))]
    changes = [changed, [("DELETED", backend("one", broken))]]
    api = Apiserver(backend("one", GOOD), backend("new", broken), changes=changes)
    async with opened(api, tmp_path) as one:
        await Told(one).until({"one": GOOD}, {"one": GOOD, "two": GOOD}, {"two": GOOD})


async def test_an_object_that_was_made_anew_while_nobody_watched_stays(tmp_path: Path) -> None:
    api, elsewhere = Apiserver(backend("one", GOOD, uid="old"), backend("gone", GOOD)), "http://127.0.0.1:10"
    async with opened(api, tmp_path) as one:
        told = Told(one)
        await told.until({"one": GOOD, "gone": GOOD})
        api.backends.pages, api.backends.turns = [[backend("one", elsewhere, uid="new")]], [([], 410)]
        changed = {"one": elsewhere, "gone": GOOD}
        await told.until({"one": GOOD, "gone": GOOD}, changed, {"one": elsewhere})


async def test_a_status_is_a_merge_patch_and_one_of_an_object_that_is_gone_is_none(tmp_path: Path) -> None:
    written = 200, {"metadata": {"resourceVersion": "12"}}
    api = Apiserver(backend("one", GOOD), backend("gone", GOOD), gone=(404, {"message": "no"}), one=written)
    async with opened(api, tmp_path) as one:
        told = Told(one)
        await told.until({"one": GOOD, "gone": GOOD})
        await told.source.patch("one", {"circuit": "Open"})
        await told.source.patch("gone", {"circuit": "Open"})
        await told.source.patch("never", {"circuit": "Open"})
        await told.source.patch("one", {"circuit": "Closed"})
    assert api.heard == [
        ("PATCH gpubackends/one/status", _patch("11", circuit="Open")),
        ("PATCH gpubackends/gone/status", _patch("11", circuit="Open")),
        ("PATCH gpubackends/one/status", _patch("12", circuit="Closed")),
    ]


def _patch(version: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "status": status}


async def test_a_status_that_another_client_wrote_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """A router that was frozen and thaws has seen the object before the one that took over wrote to it."""
    api = Apiserver(backend("one", GOOD), one=(409, {"message": "the object has been modified"}))
    async with opened(api, tmp_path) as one:
        told = Told(one)
        await told.until({"one": GOOD})
        with pytest.raises(kube.Conflict):
            await told.source.patch("one", {"reservation": None})


class Term:
    """A Lease with an epoch, which remembers those it was shown."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.seen = epoch, list[int]()

    def heed(self, epoch: int) -> None:
        self.seen.append(epoch)


async def test_a_status_carries_the_epoch_and_those_of_objects_are_heeded(tmp_path: Path) -> None:
    term, written = Term(3), (200, {"metadata": {"resourceVersion": "12"}})
    api = Apiserver(backend("one", GOOD, routerEpoch=7), one=written)
    async with opened(api, tmp_path) as one:
        source, told = objects.Source(one._apiserver(), "here", leader=term), asyncio.Event()
        source.listen(lambda specs: told.set())
        running = asyncio.create_task(source.run())
        async with asyncio.timeout(waiting.PATIENCE):
            await told.wait()
        await source.patch("one", {"circuit": "Open"})
        running.cancel()
    assert term.seen == [7]
    assert api.heard == [("PATCH gpubackends/one/status", _patch("11", circuit="Open", routerEpoch=3))]


@pytest.mark.parametrize("url", ["http://gpu\u2100.lab:11434", "http://[foo]:1", "http://gpu:99999"])
async def test_an_object_with_a_url_that_cannot_be_read_harms_itself_only(tmp_path: Path, url: str) -> None:
    changes = [[("MODIFIED", backend("two", url)), ("ADDED", backend("three", GOOD))]]
    api = Apiserver(backend("one", url), backend("two", GOOD), changes=changes)
    async with opened(api, tmp_path) as one:
        await Told(one).until({"two": GOOD}, {"two": GOOD, "three": GOOD})


async def test_a_router_that_does_not_decide_writes_no_status(tmp_path: Path) -> None:
    """The Lease may be lost between the look at it and the write."""
    api = Apiserver(backend("one", GOOD))
    async with opened(api, tmp_path, lease="router") as one:
        assert one.candidate() is not None
        told = Told(one)
        await told.until({"one": GOOD})
        with pytest.raises(lease.Fenced):
            await told.source.patch("one", {"circuit": "Open"})
    assert api.heard == []


async def test_secrets_are_read_and_one_that_cannot_be_keeps_the_last_token(tmp_path: Path) -> None:
    def secret(text: bytes) -> tuple[int, Any]:
        return 200, {"data": {"token": base64.b64encode(text).decode()}}

    api, used = Apiserver(), asyncio.Queue[dict[str, str]]()
    api.answers = {f"GET secrets/{name}": secret(name.encode() + b"\n") for name in "ab"}
    backends = book.Book(now=lambda: 0.0)
    for name in "abcd":
        spec = {"url": GOOD, "kind": "GPU", "secretRef": {"name": name}}
        backends.put(name, gpubackend.Spec.model_validate(spec))
    async with opened(api, tmp_path) as one:
        follower = secrets.Secrets(
            backends,
            secrets.objects(one._secret),
            lambda tokens: used.put_nowait(dict(tokens)),
            every=0.01,
            again=0.01,
        )
        api.answers["GET secrets/c"] = 404, {"message": "no"}
        api.answers["GET secrets/d"] = 200, {"data": {"token": "***"}}
        running = asyncio.create_task(follower.run())
        async with asyncio.timeout(waiting.PATIENCE):
            assert await used.get() == {"a": "a", "b": "b"}
            api.answers |= {"GET secrets/a": secret(b"new"), "GET secrets/b": (503, {}), "GET secrets/c": secret(b"c")}
            assert (await used.get())["b"] == "b"
        running.cancel()


@pytest.mark.parametrize(
    ("audiences", "status", "user"),
    [
        ((), {"authenticated": True, "user": {"username": "u"}}, "u"),
        (("r",), {"authenticated": True, "user": {"username": "u"}, "audiences": ["r", "s"]}, "u"),
        (("r",), {"authenticated": True, "user": {"username": "u"}, "audiences": ["s"]}, None),
        (("r",), {"authenticated": True, "user": {"username": "u"}}, None),
        ((), {}, None),
    ],
)
async def test_whose_token_it_is(tmp_path: Path, audiences: tuple[str, ...], status: Any, user: str | None) -> None:
    api, asked = Apiserver(), "POST /apis/authentication.k8s.io/v1/tokenreviews"
    api.answers[asked] = 201, {"status": status}
    async with opened(api, tmp_path, token_audiences=audiences) as one:
        assert await one._review("shown") == user
        api.answers[asked] = 422, {"message": "too long"}
        with pytest.raises(auth.Away):
            await one._review("shown")
    assert [body["spec"] for _, body in api.heard] == [{"token": "shown", "audiences": list(audiences)}] * 2
