"""Which backend a request goes to, in which order, and what is said when there is none: against simulators."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import ports
from tests.fakes.ollama import process as ollama
from tests.router import process, wire

_CHAT = {"model": "qwen2.5:7b", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(name="gpu")
def _gpu() -> Iterator[ollama.Fake]:
    with ollama.running(models=["qwen2.5:7b", "qwen3-coder:30b"], num_parallel=4) as fake:
        yield fake


@pytest.fixture(name="cpu")
def _cpu() -> Iterator[ollama.Fake]:
    with ollama.running(models=["qwen2.5:7b", "only-cpu:1b"], kind="cpu", num_parallel=4) as fake:
        yield fake


def _both(gpu: ollama.Fake, cpu: ollama.Fake, **more: Any) -> list[dict[str, Any]]:
    """A CPU backend serves what its sets name beside a GPU that has the same."""
    sets = process.model_set({"name": "qwen2.5:7b"}, {"name": "only-cpu:1b"})
    return [process.spec("g", gpu.url, **more), process.spec("c", cpu.url, kind="CPU", modelSets=sets)]


async def test_gpu_first_then_cpu_when_it_is_killed_then_503(
    tmp_path: Path, gpu: ollama.Fake, cpu: ollama.Fake
) -> None:
    async with process.running(tmp_path, _both(gpu, cpu), restart_grace_seconds="0") as router, router.http() as http:
        first = await http.post("/api/chat", json=_CHAT)
        assert (first.status_code, first.headers["X-Ollama-Router-Backend"]) == (200, "g")
        gpu.kill()
        # Before a probe has noticed as well as after: nobody sees an error.
        moved = [await http.post("/api/chat", json=_CHAT, headers={"X-Ollama-Priority": "0"}) for _ in range(5)]
        assert [(r.status_code, r.headers["X-Ollama-Router-Backend"]) for r in moved] == [(200, "c")] * 5
        assert cpu.count(path="/api/chat") == 5
        cpu.kill()
        await router.until(lambda s: not any(b["healthy"] for b in s["backends"]))
        last = await http.post("/api/chat", json=_CHAT)
        assert (last.status_code, "Retry-After" in last.headers) == (503, True)
        assert "qwen2.5:7b" in last.json()["error"]
        assert ((await http.get("/readyz")).status_code, (await http.get("/healthz")).status_code) == (503, 200)


async def test_a_backend_that_comes_back_is_used_again(tmp_path: Path) -> None:
    port = ports.free()
    with ollama.running(port, models=["qwen2.5:7b"]) as fake:
        async with process.running(tmp_path, [process.spec("g", fake.url)]) as router:
            fake.kill()
            await router.until(lambda s: not s["backends"][0]["healthy"])
            with ollama.running(port, models=["qwen2.5:7b"]):
                await router.until(lambda s: s["backends"][0]["healthy"])
                assert (await router.post("/api/chat", _CHAT)).status == 200


def _header(entry: dict[str, Any], name: str) -> str | None:
    return next((value for key, value in entry["headers"].items() if key.lower() == name.lower()), None)


def _stands(waiting: int, status: dict[str, Any]) -> bool:
    return bool(status["queue"]["waiting"] == waiting and status["backends"][0]["inFlight"] == 1)


async def test_priority_order_and_parallel_limit_at_the_backend(tmp_path: Path) -> None:
    with ollama.running(models=["qwen2.5:7b"], num_parallel=4) as fake:
        async with (
            process.running(tmp_path, [process.spec("g", fake.url, numParallel=1, preemption="Never")]) as router,
            router.http() as http,
        ):
            fake.set_faults([{"match": {"path": "/api/chat"}, "stall": {"gate": "hold"}}])
            tasks = []
            for position, level in enumerate(["3", "3", "2", "1", "0"]):
                headers = {"X-Ollama-Priority": level, "X-Request-Id": f"{position}-P{level}"}
                tasks.append(asyncio.create_task(http.post("/api/chat", json=_CHAT, headers=headers)))
                await router.until(partial(_stands, position))
            status = await router.status()
            assert status["queue"]["byPriority"] == {"P0": 1, "P1": 1, "P2": 1, "Auto": 0, "P3": 1}
            assert status["lastP0"] is not None
            fake.open_gate("hold")
            assert [(await t).status_code for t in tasks] == [200] * 5
            asked = fake.requests(path="/api/chat")
            seen = [_header(r, "X-Request-Id") for r in asked]
            assert seen == ["0-P3", "4-P0", "3-P1", "2-P2", "1-P3"]
            assert [r["priority"] for r in asked] == [None] * 5


async def test_a_wrong_model_is_404_and_named_and_nothing_is_asked(tmp_path: Path, gpu: ollama.Fake) -> None:
    async with process.running(tmp_path, [process.spec("g", gpu.url)]) as router, router.http() as http:
        native = await http.post("/api/chat", json=_CHAT | {"model": "Nope"})
        assert native.status_code == 404
        assert native.json()["error"].startswith("model 'Nope' not found")
        openai = await http.post("/v1/chat/completions", json=_CHAT | {"model": "nope"})
        assert (openai.status_code, "'nope'" in openai.json()["error"]["message"]) == (404, True)
        assert gpu.count(path="/api/chat") == 0


async def test_model_sets_narrow_what_is_served_and_give_priorities(tmp_path: Path, gpu: ollama.Fake) -> None:
    sets = process.model_set({"name": "Qwen3-Coder:30b", "priority": 0}, {"name": "not-pulled"})
    async with process.running(tmp_path, [process.spec("g", gpu.url, modelSets=sets)]) as router, router.http() as http:
        assert (await router.backend("g"))["models"] == ["qwen3-coder:30b"]
        assert (await http.post("/api/chat", json=_CHAT)).status_code == 404
        assert (await router.status())["lastP0"] is None
        assert (await http.post("/api/chat", json=_CHAT | {"model": "qwen3-coder:30b"})).status_code == 200
        assert (await router.status())["lastP0"] is not None
        assert [m["name"] for m in (await http.get("/api/tags")).json()["models"]] == ["qwen3-coder:30b"]


async def test_lists_are_merged_and_cost_the_backends_nothing(
    tmp_path: Path, gpu: ollama.Fake, cpu: ollama.Fake
) -> None:
    async with process.running(tmp_path, _both(gpu, cpu)) as router, router.http() as http:
        everything = {"qwen2.5:7b", "qwen3-coder:30b", "only-cpu:1b"}
        tags = [m["name"] for m in (await http.get("/api/tags")).json()["models"]]
        assert (set(tags), len(tags)) == (everything, 3)
        assert {m["id"] for m in (await http.get("/v1/models")).json()["data"]} == everything
        assert (await http.get("/api/ps")).json() == {"models": []}
        assert (await http.get("/api/version")).json() == (await http.get(cpu.url + "/api/version")).json()
        shown = await http.post("/api/show", json={"model": "only-cpu:1b"})
        assert (shown.status_code, shown.headers["X-Ollama-Router-Backend"]) == (200, "c")
        for _ in range(50):
            assert (await http.get("/api/tags")).status_code == (await http.get("/api/ps")).status_code == 200
        # Probes go on meanwhile. A round asks for the version first, and no other request does: it is counted last.
        loaded, listed = gpu.count(path="/api/ps"), gpu.count(path="/api/tags")
        probes = gpu.count(path="/api/version")
        assert max(loaded, listed) <= probes + 1


async def test_what_changes_a_backend_is_refused_with_the_remedy(tmp_path: Path, gpu: ollama.Fake) -> None:
    async with process.running(tmp_path, [process.spec("g", gpu.url)]) as router, router.http() as http:
        for method, path in [("POST", "pull"), ("POST", "create"), ("DELETE", "delete"), ("POST", "push"),
                             ("POST", "copy"), ("POST", "%70ull"), ("HEAD", "blobs/sha256:0")]:  # fmt: skip
            answer = await http.request(method, f"/api/{path}", json={"model": "m"})
            assert answer.status_code == 403, path
            if method != "HEAD":
                assert "Ollama server itself" in answer.json()["error"]
        assert (await http.get("/")).text == "Ollama is running"
        assert (await http.head("/")).status_code == 200
        assert (await http.get("/elsewhere")).status_code == 404


async def test_draining_backend_takes_nothing_new(tmp_path: Path, gpu: ollama.Fake, cpu: ollama.Fake) -> None:
    async with process.running(tmp_path, _both(gpu, cpu, drain=True)) as router, router.http() as http:
        answer = await http.post("/api/chat", json=_CHAT)
        assert answer.headers["X-Ollama-Router-Backend"] == "c"
        assert gpu.count(path="/api/chat") == 0


async def test_two_hundred_streams_at_once(tmp_path: Path) -> None:
    arrived, gate = 0, asyncio.Event()

    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        nonlocal arrived
        arrived += 1
        writer.write(wire.chunked_head() + wire.chunk(b"1\n"))
        await gate.wait()
        writer.write(wire.chunk(message.body + b"\n") + wire.chunk(b""))
        return True

    async with process.before(tmp_path, script) as (router, _):
        asks = [router.post("/api/generate", {"model": "m", "n": n}) for n in range(200)]
        tasks = [asyncio.create_task(ask) for ask in asks]
        await router.until(lambda s: s["backends"][0]["inFlight"] == 200)
        gate.set()
        answers = await asyncio.gather(*tasks)
        assert [a.body for a in answers] == [b'1\n{"model": "m", "n": %d}\n' % n for n in range(200)]
        assert arrived == 200


async def test_without_backends_it_is_alive_and_says_so(tmp_path: Path) -> None:
    async with process.running(tmp_path, []) as router, router.http() as http:
        answer = await http.post("/api/chat", json=_CHAT)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert "no GpuBackend is configured" in answer.json()["error"]
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "no GpuBackend is configured\n")
        assert (await http.get("/api/tags")).status_code == 503


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("nonsense", "GPU_BACKENDS"),
        ('[{"url":"http://x:1"}]', "GPU_BACKENDS[0].name"),
        ('[{"name":"a","url":"ftp://x"}]', "GPU_BACKENDS[0].url"),
        ('[{"name":"a","url":"http://u:p@x"}]', "GPU_BACKENDS[0].url"),
        ('[{"name":"a","url":"http://x","kind":"TPU"}]', "GPU_BACKENDS[0].kind"),
        ('[{"name":"a","url":"http://x"},{"name":"a","url":"http://y"}]', "GPU_BACKENDS[1].name"),
    ],
)
async def test_wrong_settings_name_the_field(tmp_path: Path, text: str, path: str) -> None:
    router = process.start(tmp_path, None, gpu_backends=text)
    assert await router.ended() == 2
    assert path in router.text()
