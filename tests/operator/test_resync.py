"""What no event reported is found by comparison: a real apiserver, and watches that lose what they should report."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

import kube
from controllers import namespaces, resync
from controllers.namespaces import State
from crds.phases import UNFINISHED
from tests import httpserver, waiting
from tests.operator import accounts
from tests.operator.conftest import Space
from tests.operator.process import Start
from tests.waiting import until


class Known:
    """A controller that knows objects by uid and takes in what it is fed, but for the names in `unreadable`."""

    def __init__(self) -> None:
        self.raws: dict[str, Mapping[str, Any]] = {}
        self.fed: list[tuple[str, str]] = []
        self.unreadable: set[str] = set()

    def feed(self, kind: str, raw: kube.Object) -> None:
        meta = raw["metadata"]
        self.fed.append((kind, meta["name"]))
        if kind == "DELETED":
            self.raws.pop(meta["uid"], None)
        elif meta["name"] not in self.unreadable:
            self.raws[meta["uid"]] = raw

    def known(self, namespace: str | None) -> Iterator[Mapping[str, Any]]:
        return (raw for raw in self.raws.values() if namespace in (None, raw["metadata"]["namespace"]))

    def version(self, uid: str) -> int | None:
        raw = self.raws.get(uid)
        return None if raw is None else int(raw["metadata"]["resourceVersion"])

    def leave(self, uid: str) -> None:
        self.fed.append(("LEFT", self.raws.pop(uid)["metadata"]["name"]))


class Look:
    """With one kind, or with both when `both`. `time` is the clock."""

    def __init__(self, api: kube.Kube, scope: namespaces.Scope, *, both: bool = False) -> None:
        self.tasks, self.connections, self.members = Known(), Known(), namespaces.Namespaces(scope)
        self.time, self.leading = 0.0, True
        self.counted: list[tuple[str, str]] = []
        self.reported: list[tuple[str, State]] = []
        tasks, other = self.tasks, self.connections
        kind = resync.Kind(kube.TASKS, tasks.feed, tasks.known, tasks.version, tasks.leave, fields=UNFINISHED)
        second = resync.Kind(kube.CONNECTIONS, other.feed, other.known, other.version, other.leave)
        self.resync = resync.Resync(
            api,
            self.members,
            [second, kind] if both else [kind],
            corrected=lambda plural, what: self.counted.append((plural, what)),
            report=self._report,
            monotonic=lambda: self.time,
            sleep=self._sleep,
            every=30.0,
            grace=0.3,
        )

    async def _sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(seconds)

    async def _report(self, name: str, state: State, why: str) -> bool:
        if self.leading:
            self.reported.append((name, state))
        return self.leading


@asynccontextmanager
async def looking(kubeconfig: Path, scope: namespaces.Scope, *, both: bool = False) -> AsyncIterator[Look]:
    loaded = kube.configuration(str(kubeconfig))
    async with kube.session(loaded) as http:
        yield Look(kube.Kube(loaded, http, fence=lambda: None), scope, both=both)


@pytest.fixture
async def look(kubeconfig: Path, space: Space) -> AsyncIterator[Look]:
    async with looking(kubeconfig, namespaces.Scope(space.name, (space.name,))) as made:
        yield made


@pytest.mark.apiserver
async def test_what_is_gone_what_is_missed_and_what_is_known(look: Look, space: Space) -> None:
    for name in ("same", "newer", "unknown", "done"):
        space.submit(name)
    raws = {raw["metadata"]["name"]: raw for raw in space.every()}
    for name in ("same", "newer", "done"):
        look.tasks.feed("ADDED", raws[name])
    look.tasks.raws["gone"] = {"metadata": {**raws["same"]["metadata"], "uid": "gone", "name": "gone"}}
    space.edit("newer", {"queuePosition": 3})
    space.edit_status("done", {"phase": "Done"})
    look.tasks.fed.clear()
    await look.resync.look(space.name)
    assert sorted(look.tasks.fed) == [
        ("DELETED", "done"), ("DELETED", "gone"), ("MODIFIED", "newer"), ("MODIFIED", "unknown"),
    ]  # fmt: skip
    assert sorted(look.counted) == [("pendingtasks", "deleted")] * 2 + [("pendingtasks", "missed")] * 2
    assert all("spec" in raw for raw in look.tasks.raws.values()), "what is taken in is read in full"
    assert look.members.states() == {space.name: State.SERVED}
    look.tasks.fed.clear()
    await look.resync.look(space.name)
    assert look.tasks.fed == [], "everything is known"
    assert look.reported == [(space.name, State.SERVED)]


@pytest.mark.apiserver
async def test_an_object_that_cannot_be_read_is_offered_once_per_version(look: Look, space: Space) -> None:
    space.submit("odd")
    look.tasks.unreadable.add("odd")
    for _ in range(3):
        await look.resync.look(space.name)
    assert look.tasks.fed == [("MODIFIED", "odd")]
    space.edit("odd", {"queuePosition": 3})
    for _ in range(3):
        await look.resync.look(space.name)
    assert look.tasks.fed == [("MODIFIED", "odd")] * 2


@pytest.mark.apiserver
async def test_kopf_has_its_time(look: Look, space: Space) -> None:
    """What kopf brings while the look waits for it is no correction, and each arrival prolongs the wait."""
    for name in ("a", "b", "c"):
        space.submit(name)
    looks = asyncio.create_task(look.resync.first())
    for raw in space.every():
        await asyncio.sleep(0.2)
        look.tasks.feed("ADDED", raw)
    await looks
    assert look.counted == []


@pytest.mark.apiserver
async def test_many_are_read_as_a_list(look: Look, space: Space) -> None:
    for number in range(resync.MANY + 5):
        space.submit(f"t{number:03}")
    await look.resync.first()
    assert len(look.tasks.raws) == resync.MANY + 5
    assert look.counted == [("pendingtasks", "missed")] * (resync.MANY + 5)


@pytest.mark.apiserver
async def test_all_namespaces_are_one_list_and_only_members_count(kubeconfig: Path, space: Space) -> None:
    other = Space(space.api, f"{space.name}-b")
    space.submit("mine")
    other.submit("theirs")
    async with looking(kubeconfig, namespaces.Scope(space.name)) as found:
        assert found.resync.units() == [None]
        await found.resync.look(None)
        assert found.tasks.fed == [("MODIFIED", "mine")]
        found.members.observe("ADDED", {"metadata": {"name": other.name}})
        await found.resync.look(other.name)
        assert found.tasks.fed[1:] == [("MODIFIED", "theirs")]
        found.members.observe("DELETED", {"metadata": {"name": other.name}})
        found.resync.forget(other.name)
        assert found.tasks.fed[2:] == [("LEFT", "theirs")]


def allowed(*plurals: str) -> list[dict[str, Any]]:
    return [
        {"apiGroups": ["jervis.dev"], "resources": list(plurals), "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    ]


@pytest.mark.apiserver
async def test_a_kind_that_is_refused_is_left_alone(kubeconfig: Path, space: Space, tmp_path: Path) -> None:
    """The other kinds of that namespace stay, look after look, and the state says which kind it is."""
    space.submit("task")
    spec = {"type": "Git", "url": "https://example.com/a.git", "clientId": "acme"}
    space.create("connections", "Connection", "mail", spec)
    account = accounts.Account(space.api, space.name)
    account.allow(space.name, allowed("pendingtasks", "connections"))
    limited = account.kubeconfig(kubeconfig, tmp_path / "limited")
    async with looking(limited, namespaces.Scope(space.name, (space.name,)), both=True) as found:

        async def until(state: str) -> None:
            """The apiserver takes a moment to hear of a change of its Roles."""

            async def described() -> dict[str, str]:
                await found.resync.look(space.name)
                return found.members.described()

            await waiting.eventually(described, good=lambda states: states == {space.name: state})

        async def minutes() -> None:
            for _ in range(6):
                found.time += resync.REFUSED_SECONDS / 2
                await found.resync.look(space.name)

        await until("served")
        found.tasks.fed.clear()
        found.connections.fed.clear()
        account.change(space.name, allowed("pendingtasks"))
        await until("partial: without connections")
        await minutes()
        assert (found.tasks.fed, found.connections.fed) == ([], [("LEFT", "mail")]), "and nothing is fed again"
        account.change(space.name, allowed("connections"))
        await until("partial: without pendingtasks")
        await minutes()
        assert found.tasks.fed == [("LEFT", "task")]
        assert found.connections.fed[1:] == [("MODIFIED", "mail")]
        account.change(space.name, allowed("pendingtasks", "connections"))
        await until("served")
        assert found.tasks.fed[1:] == [("MODIFIED", "task")]
        assert {state for _, state in found.reported[-3:]} == {State.PARTIAL, State.SERVED}


@pytest.mark.apiserver
async def test_a_state_that_could_not_be_reported_is_reported_later(
    kubeconfig: Path, space: Space, tmp_path: Path
) -> None:
    """A replica that stands by finds a namespace forbidden, and leads afterwards."""
    account = accounts.Account(space.api, space.name)
    limited = account.kubeconfig(kubeconfig, tmp_path / "limited")
    async with looking(limited, namespaces.Scope(space.name, (space.name,))) as found:
        found.leading = False
        await found.resync.look(space.name)
        found.leading = True
        for _ in range(3):
            await found.resync.look(space.name)
        assert found.reported == [(space.name, State.FORBIDDEN)]


class Forgetful(httpserver.Server):
    """A proxy of the apiserver whose watches leave out DELETED events of tasks while `forgets`, and count them."""

    def __init__(self, kubeconfig: Path) -> None:
        known = yaml.safe_load(kubeconfig.read_text())
        cluster, user = known["clusters"][0]["cluster"], known["users"][0]["user"]
        self._server = cluster["server"]
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._tls.load_cert_chain(user["client-certificate"], user["client-key"])
        self.forgets, self.forgotten = False, 0

    def kubeconfig(self, to: Path) -> Path:
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "door",
            "contexts": [{"name": "door", "context": {"cluster": "door", "user": "door"}}],
            "clusters": [{"name": "door", "cluster": {"server": self.url}}],
            "users": [{"name": "door", "user": {}}],
        }  # fmt: skip
        to.write_text(yaml.safe_dump(document))
        return to

    def application(self) -> web.Application:
        application = super().application()
        application.cleanup_ctx.append(self._connected)
        return application

    async def _connected(self, _: web.Application) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as self._http:
            yield

    async def answer(self, request: web.Request) -> web.StreamResponse:
        own = {"host", "content-length", "accept-encoding", "connection"}
        headers = {name: value for name, value in request.headers.items() if name.lower() not in own}
        if request.can_read_body and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"  # as the apiserver takes it when nothing is said
        async with self._http.request(
            request.method, self._server + request.path_qs, data=await request.read() or None, headers=headers
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            lines = "pendingtasks" in request.path and "watch" in request.query
            with contextlib.suppress(ConnectionResetError):  # the operator has left the watch
                await response.prepare(request)
                async for data in answer.content if lines else answer.content.iter_any():
                    if lines and self.forgets and b'"type":"DELETED"' in data:
                        self.forgotten += 1
                        continue
                    await response.write(data)
            return response


@pytest.mark.apiserver
@pytest.mark.services
def test_a_deletion_that_no_watch_reports(kubeconfig: Path, space: Space, start: Start, tmp_path: Path) -> None:
    """One of a task that waits: it is forgotten within two looks, and counted."""
    with (
        Forgetful(kubeconfig).in_thread() as proxy,
        start(KUBECONFIG=proxy.kubeconfig(tmp_path / "proxy"), RESYNC_SECONDS=3) as operator,
    ):
        space.submit("stays", "ASK")
        space.submit("goes", "ASK")
        until(lambda: set(space.phases().values()) == {"ReadyForGpu"}, "both wait for a GPU")
        until(lambda: operator.metric("jervis_operator_tasks") == 2, "both are known")
        proxy.forgets = True
        space.delete("goes")
        until(lambda: proxy.forgotten == 1, "the event is lost")
        until(lambda: operator.metric("jervis_operator_tasks") == 1, "the task is forgotten all the same")
        assert operator.metric("jervis_operator_corrections_total") == 1
