"""GpuBackend objects as the source of backends: against a real apiserver, and one that misbehaves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests import waiting
from tests.fakes.ollama import process as ollama
from tests.router import process, wire

if TYPE_CHECKING:
    from kubernetes import client

_PLURAL = ("jervis.dev", "v1alpha1", "default", "gpubackends")


def _object(name: str, url: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "jervis.dev/v1alpha1",
        "kind": "GpuBackend",
        "metadata": {"name": name},
        "spec": {"url": url, "kind": "GPU"} | more,
    }


@pytest.mark.apiserver
async def test_backends_come_change_and_go_without_a_restart(
    tmp_path: Path, kubeconfig: Path, custom_objects: client.CustomObjectsApi
) -> None:
    with ollama.running(models=["qwen2.5:7b"]) as one, ollama.running(models=["qwen3-embedding:8b"]) as two:
        async with process.running(tmp_path, None, namespace="default", kubeconfig=str(kubeconfig)) as router:
            assert (await router.status())["backends"] == []
            custom_objects.create_namespaced_custom_object(*_PLURAL, _object("one", one.url))
            await router.until(lambda s: [b["models"] for b in s["backends"]] == [["qwen2.5:7b"]])
            assert (await wire.ask(router.port, wire.post("/api/chat", {"model": "qwen2.5:7b"}))).status == 200
            custom_objects.create_namespaced_custom_object(*_PLURAL, _object("two", two.url))
            await router.until(lambda s: len(s["backends"]) == 2)
            patch = {"spec": {"drain": True, "numParallel": 7}}
            custom_objects.patch_namespaced_custom_object(*_PLURAL, "one", patch)
            changed = await router.until(lambda s: s["backends"][0]["draining"])
            assert changed["backends"][0]["numParallel"] == 7
            assert (await wire.ask(router.port, wire.post("/api/chat", {"model": "qwen2.5:7b"}))).status == 503
            custom_objects.delete_namespaced_custom_object(*_PLURAL, "one")
            await router.until(lambda s: [b["name"] for b in s["backends"]] == ["two"])
            custom_objects.delete_namespaced_custom_object(*_PLURAL, "two")
            await router.until(lambda s: s["backends"] == [])
            router.terminate()
            assert await router.ended() == 0


@pytest.mark.apiserver
async def test_a_backend_that_is_removed_ends_what_it_began_and_no_request_is_lost(
    tmp_path: Path, kubeconfig: Path, custom_objects: client.CustomObjectsApi
) -> None:
    gate = asyncio.Event()

    async def stream(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(wire.chunked_head() + wire.chunk(b'{"done":false}\n'))
        await gate.wait()
        writer.write(wire.chunk(b'{"done":true}\n') + wire.chunk(b""))
        return True

    async with wire.backend(stream) as stays, wire.backend(stream) as goes:
        for name, url in (("stays", stays.url), ("goes", goes.url)):
            custom_objects.create_namespaced_custom_object(*_PLURAL, _object(name, url, numParallel=2))
        try:
            async with process.running(tmp_path, None, namespace="default", kubeconfig=str(kubeconfig)) as router:
                await router.until(lambda s: [b["healthy"] for b in s["backends"]] == [True, True])
                chat = wire.post("/api/chat", {"model": "m"})
                asked = [asyncio.create_task(wire.ask(router.port, chat)) for _ in range(10)]
                await router.until(lambda s: [b["inFlight"] for b in s["backends"]] == [2, 2])
                await router.until(lambda s: s["queue"]["waiting"] == 6)
                custom_objects.delete_namespaced_custom_object(*_PLURAL, "goes")
                await router.until(lambda s: [b["name"] for b in s["backends"]] == ["stays"])
                gate.set()
                answers = await asyncio.gather(*asked)
                assert [(a.clean, a.status, a.body.count(b"\n")) for a in answers] == [(True, 200, 2)] * 10
                assert (len(goes.requests), len(stays.requests)) == (2, 8)
        finally:
            custom_objects.delete_namespaced_custom_object(*_PLURAL, "stays")


@pytest.mark.apiserver
async def test_a_reservation_survives_the_router_and_the_status_says_so(
    tmp_path: Path, kubeconfig: Path, custom_objects: client.CustomObjectsApi
) -> None:
    sets = [
        {"name": "orchestrator", "models": [{"name": "qwen3-coder:30b", "vram": "20Gi", "priority": 0}]},
        {"name": "background", "models": [{"name": "qwen2.5:7b", "vram": "6Gi", "priority": 3}]},
    ]

    def status() -> dict[str, Any]:
        found: Any = custom_objects.get_namespaced_custom_object(*_PLURAL, "kept")
        return dict(found.get("status") or {})

    with ollama.running(models=["qwen3-coder:30b", "qwen2.5:7b"], vram="24GiB") as fake:
        custom_objects.create_namespaced_custom_object(*_PLURAL, _object("kept", fake.url, vram="24Gi", modelSets=sets))
        try:
            async with process.running(tmp_path, None, namespace="default", kubeconfig=str(kubeconfig)) as router:
                await router.until(lambda s: [b["healthy"] for b in s["backends"]] == [True])
                answer = await _announce(router, "job-1")
                lease = answer.json()["leaseId"]
                written = await waiting.eventually(status, good=lambda s: "reservation" in s)
                assert (written["reservation"]["holder"], written["reservation"]["leaseId"]) == ("job-1", lease)
                assert (written["activeSet"], written["reservation"]["modelSet"]) == ("orchestrator", "orchestrator")
                router.process.kill()
                router.process.wait()
            async with process.running(tmp_path, None, namespace="default", kubeconfig=str(kubeconfig)) as router:
                await router.until(lambda s: [b["healthy"] for b in s["backends"]] == [True])
                assert (await _announce(router, "stranger")).status == 409
                assert (await _announce(router, "job-1")).json()["leaseId"] == lease
                released = await wire.ask(
                    router.port, wire.post("/router/release", {"owner": "job-1", "leaseId": lease})
                )
                assert released.json() == {"status": "released", "released": True}
                home = await waiting.eventually(status, good=lambda s: s.get("activeSet") == "background")
                assert "reservation" not in home
                assert home["circuit"] == "Closed"
        finally:
            custom_objects.delete_namespaced_custom_object(*_PLURAL, "kept")


async def _announce(router: process.Router, owner: str) -> wire.Message:
    return await wire.ask(router.port, wire.post("/router/announce", {"owner": owner}))


def _listed(name: str, url: str) -> dict[str, Any]:
    """As an apiserver lists it."""
    return _object(name, url) | {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}}


class Apiserver:
    """An apiserver of bare sockets: lists what it has, and ends watches in every way that is known to happen."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.endings: list[str] = []
        self.lists = 0
        self.watches: list[str] = []

    async def play(self, message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One list or watch per connection."""
        if "watch=true" not in message.path.lower():
            self.lists += 1
            body = {"items": self.items, "metadata": {"resourceVersion": str(1000 + self.lists)}}
            writer.write(wire.plain(json.dumps(body).encode()))
            return
        self.watches.append(message.path)
        ending = self.endings.pop(0) if self.endings else "hold"
        if ending == "410":
            writer.write(wire.plain(b'{"message":"too old"}', status="410 Gone"))
            return
        if ending == "500":
            writer.write(wire.plain(b'{"message":"etcd"}', status="500 Internal Server Error"))
            return
        writer.write(wire.chunked_head("application/json"))
        if ending == "expired event":
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            writer.write(wire.chunk(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n") + wire.chunk(b""))
        elif ending == "half an event":
            writer.write(wire.chunk(b'{"type":"ADDED","obj'))
        elif ending == "reset":
            writer.transport.abort()
        elif ending == "proper":
            bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "4711"}}}
            writer.write(wire.chunk(json.dumps(bookmark).encode() + b"\n") + wire.chunk(b""))
        else:
            await reader.read()


async def test_the_watch_survives_what_apiservers_do(tmp_path: Path) -> None:
    api = Apiserver()
    api.endings = ["410", "proper", "expired event", "reset", "half an event", "500"]
    api.items = [_listed("first", "http://127.0.0.1:9"), _listed("broken", "ftp://nowhere")]
    async with wire.backend(api.play, ()) as server:
        config = tmp_path / "kubeconfig"
        config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                }
            )
        )
        async with process.running(tmp_path, None, kubeconfig=str(config)) as router:
            await router.until(lambda s: [b["name"] for b in s["backends"]] == ["first"])
            api.items = [_listed("second", "http://127.0.0.1:9")]

            def watches() -> int:
                return len(api.watches)

            await waiting.eventually(watches, good=lambda n: n == 7)
            await router.until(lambda s: [b["name"] for b in s["backends"]] == ["second"])
            # After the proper end the watch went on from its bookmark instead of listing.
            assert sum("resourceVersion=4711" in path for path in api.watches) == 1
            assert any(e["event"] == "invalid GpuBackend" and e["name"] == "broken" for e in router.events())
            assert router.process.poll() is None


async def test_no_way_to_backends_at_all_is_said_at_once(tmp_path: Path) -> None:
    router = process.start(tmp_path, None)
    assert await router.ended() == 2
    assert "Set GPU_BACKENDS" in router.text()
