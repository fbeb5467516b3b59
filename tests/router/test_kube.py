"""GpuBackend objects as the source of backends: against a real apiserver, and one that misbehaves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import waiting
from tests.conftest import api_client
from tests.fakes.ollama import process as ollama
from tests.kube import apiserver as collections
from tests.router import apiserver, process, wire

if TYPE_CHECKING:
    from tests.operator.conftest import Space

_KIND = ("gpubackends", "GpuBackend")


@pytest.fixture(name="space")
def _space(kubeconfig: Path) -> Iterator[Space]:
    from tests.operator.conftest import Space

    api = api_client(kubeconfig)
    yield Space(api, "default", there=True)
    api.close()


@pytest.mark.apiserver
async def test_backends_come_change_and_go_without_a_restart(tmp_path: Path, kubeconfig: Path, space: Space) -> None:
    with ollama.running(models=["qwen2.5:7b"]) as one, ollama.running(models=["qwen3-embedding:8b"]) as two:
        async with process.running(tmp_path, None, namespace="default", kubeconfig=str(kubeconfig)) as router:
            assert (await router.status())["backends"] == []
            space.create(*_KIND, "one", {"url": one.url, "kind": "GPU"})
            await router.until(lambda s: [b["models"] for b in s["backends"]] == [["qwen2.5:7b"]])
            assert (await router.post("/api/chat", {"model": "qwen2.5:7b"})).status == 200
            space.create(*_KIND, "two", {"url": two.url, "kind": "GPU"})
            await router.until(lambda s: len(s["backends"]) == 2)
            space.edit("one", {"drain": True, "numParallel": 7}, "gpubackends")
            changed = await router.until(lambda s: s["backends"][0]["draining"])
            assert changed["backends"][0]["numParallel"] == 7
            assert (await router.post("/api/chat", {"model": "qwen2.5:7b"})).status == 503
            space.delete("one", "gpubackends")
            await router.until(lambda s: [b["name"] for b in s["backends"]] == ["two"])
            space.delete("two", "gpubackends")
            await router.until(lambda s: s["backends"] == [])
            router.terminate()
            assert await router.ended() == 0


@pytest.mark.apiserver
async def test_a_backend_that_is_removed_ends_what_it_began_and_no_request_is_lost(
    tmp_path: Path, kubeconfig: Path, space: Space
) -> None:
    gate = asyncio.Event()
    async with wire.backend(wire.pausing(gate)) as stays, wire.backend(wire.pausing(gate)) as goes:
        for name, url in (("stays", stays.url), ("goes", goes.url)):
            space.create(*_KIND, name, {"url": url, "kind": "GPU", "numParallel": 2})
        try:
            async with process.running(tmp_path, None, namespace="default", kubeconfig=str(kubeconfig)) as router:
                await router.until(lambda s: [b["healthy"] for b in s["backends"]] == [True, True])
                chat = wire.post("/api/chat", {"model": "m"})
                asked = [asyncio.create_task(router.send(chat)) for _ in range(10)]
                await router.until(lambda s: [b["inFlight"] for b in s["backends"]] == [2, 2])
                await router.until(lambda s: s["queue"]["waiting"] == 6)
                space.delete("goes", "gpubackends")
                await router.until(lambda s: [b["name"] for b in s["backends"]] == ["stays"])
                gate.set()
                answers = await asyncio.gather(*asked)
                assert [(a.clean, a.status, a.body.count(b"\n")) for a in answers] == [(True, 200, 2)] * 10
                assert (len(goes.requests), len(stays.requests)) == (2, 8)
        finally:
            space.delete("stays", "gpubackends")


@pytest.mark.apiserver
async def test_a_reservation_survives_the_router_and_the_status_says_so(
    tmp_path: Path, kubeconfig: Path, space: Space
) -> None:
    sets = [
        {"name": "orchestrator", "models": [{"name": "qwen3-coder:30b", "vram": "20Gi", "priority": 0}]},
        {"name": "background", "models": [{"name": "qwen2.5:7b", "vram": "6Gi", "priority": 3}]},
    ]

    def status() -> dict[str, Any]:
        return dict(space.get("kept", "gpubackends").get("status") or {})

    with ollama.running(models=["qwen3-coder:30b", "qwen2.5:7b"], vram="24GiB") as fake:
        space.create(*_KIND, "kept", {"url": fake.url, "kind": "GPU", "vram": "24Gi", "modelSets": sets})
        try:
            async with process.running(tmp_path, None, namespace="default", kubeconfig=str(kubeconfig)) as router:
                await router.until(lambda s: [b["healthy"] for b in s["backends"]] == [True])
                answer = await router.post("/router/announce", {"owner": "job-1"})
                lease = answer.json()["leaseId"]
                written = await waiting.eventually(status, good=lambda s: "reservation" in s)
                assert (written["reservation"]["holder"], written["reservation"]["leaseId"]) == ("job-1", lease)
                assert (written["activeSet"], written["reservation"]["modelSet"]) == ("orchestrator", "orchestrator")
                router.process.kill()
                router.process.wait()
            async with process.running(tmp_path, None, namespace="default", kubeconfig=str(kubeconfig)) as router:
                await router.until(lambda s: [b["healthy"] for b in s["backends"]] == [True])
                assert (await router.post("/router/announce", {"owner": "stranger"})).status == 409
                assert (await router.post("/router/announce", {"owner": "job-1"})).json()["leaseId"] == lease
                released = await router.post("/router/release", {"owner": "job-1", "leaseId": lease})
                assert released.json() == {"status": "released", "released": True}
                home = await waiting.eventually(status, good=lambda s: s.get("activeSet") == "background")
                assert "reservation" not in home
                assert home["circuit"] == "Closed"
        finally:
            space.delete("kept", "gpubackends")


def _listed(name: str, url: str) -> dict[str, Any]:
    """As an apiserver lists it."""
    head: dict[str, Any] = {"apiVersion": "jervis.dev/v1alpha1", "kind": "GpuBackend"}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
    return {**head, "metadata": meta, "spec": {"url": url, "kind": "GPU"}}


async def test_the_watch_survives_what_apiservers_do(tmp_path: Path) -> None:
    bookmark = collections.event("BOOKMARK", {"metadata": {"resourceVersion": "4711"}})
    api = collections.Collection(
        *(([], 410), ([bookmark], "end"), ([collections.EXPIRED], "end"), ([], "reset")),
        *(([b'{"type":"ADDED","obj'], "close"), ([], 500)),
        pages=[[_listed("first", "http://127.0.0.1:9"), _listed("broken", "ftp://nowhere")]],
    )
    async with (
        apiserver.serving(api.serve, tmp_path) as kubeconfig,
        process.running(tmp_path, None, kubeconfig=kubeconfig) as router,
    ):
        await router.until(lambda s: [b["name"] for b in s["backends"]] == ["first"])
        api.pages = [[_listed("second", "http://127.0.0.1:9")]]
        await waiting.eventually(lambda: len(api.since), good=lambda n: n == 7)
        await router.until(lambda s: [b["name"] for b in s["backends"]] == ["second"])
        # After the proper end the watch went on from its bookmark instead of listing.
        assert api.since.count("4711") == 1
        assert any(e["event"] == "invalid GpuBackend" and e["name"] == "broken" for e in router.events())
        assert router.process.poll() is None


async def test_no_way_to_backends_at_all_is_said_at_once(tmp_path: Path) -> None:
    router = process.start(tmp_path, None)
    assert await router.ended() == 2
    assert "Set GPU_BACKENDS" in router.text()
