"""Model sets, reservations and preemption through a router process, against simulators with memory and load times."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import waiting
from tests.fakes.ollama import process as ollama
from tests.router import process, wire

_BIG, _SMALL = "qwen3-coder:30b", "qwen2.5:7b"
_SETS = [
    {"name": "orchestrator", "models": [{"name": _BIG, "vram": "20Gi", "numCtx": 8192, "priority": 0}]},
    {"name": "background", "models": [{"name": "qwen2.5:*", "vram": "6Gi", "cpuAllowed": True, "priority": 3}]},
]
_HOUR = "2100"  # a reservation's longest time and five minutes


@pytest.fixture(name="gpu")
def _gpu() -> Iterator[ollama.Fake]:
    with ollama.running(models=[_SMALL, _BIG], num_parallel=2, load_seconds_per_gib=0.02, vram="24GiB") as fake:
        yield fake


@pytest.fixture(name="cpu")
def _cpu() -> Iterator[ollama.Fake]:
    with ollama.running(models=[_SMALL], kind="cpu", num_parallel=4) as fake:
        yield fake


def _specs(gpu: ollama.Fake, cpu: ollama.Fake | None = None, **more: Any) -> list[dict[str, Any]]:
    listed = [process.spec("g", gpu.url, vram="24Gi", **{"numParallel": 2, "modelSets": _SETS, **more})]
    if cpu is not None:
        background = process.model_set({"name": _SMALL, "cpuAllowed": True})
        listed.append(process.spec("c", cpu.url, kind="CPU", numParallel=4, modelSets=background))
    return listed


def _chat(model: str = _SMALL, **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hello"}], **more}


def _loads(fake: ollama.Fake) -> int:
    return int(fake.state()["runner"].get("loading", 0))


def _loaded(fake: ollama.Fake) -> set[str]:
    return {runner["model"] for runner in fake.state()["loaded"]}


async def test_sixty_at_once_for_a_cold_model_cause_one_load(tmp_path: Path, gpu: ollama.Fake) -> None:
    async with process.running(tmp_path, _specs(gpu)) as router, router.http() as http:
        asks = [http.post("/api/chat", json=_chat()) for _ in range(60)]
        answers = await asyncio.gather(*asks)
        assert [a.status_code for a in answers] == [200] * 60
        assert _loads(gpu) == 1


async def test_the_client_that_caused_a_load_hangs_up_and_the_load_goes_on(tmp_path: Path, gpu: ollama.Fake) -> None:
    gpu.set_pace(load_seconds_per_gib=600)
    async with process.running(tmp_path, _specs(gpu)) as router:
        async with wire.connected(router.port) as (_, writer):
            writer.write(wire.post("/api/chat", _chat()))
            await router.until(lambda s: s["queue"]["waiting"] == 1)
            await waiting.eventually(lambda: _loads(gpu), good=lambda number: number == 1)
        await router.until(lambda s: s["queue"]["waiting"] == 0)
        gpu.finish_loads()
        await waiting.eventually(lambda: _loaded(gpu), good=lambda names: names == {_SMALL})
        assert gpu.state()["runner"].get("aborted", 0) == 0
        assert gpu.count(path="/api/chat") == 0


async def test_keep_alive_and_context_are_the_routers(tmp_path: Path, gpu: ollama.Fake) -> None:
    body = _chat(_BIG, keep_alive=0, options={"num_ctx": 256, "seed": 7})
    async with process.running(tmp_path, _specs(gpu)) as router, router.http() as http:
        assert (await http.post("/api/chat", json=body)).status_code == 200
        (seen,) = gpu.requests(path="/api/chat")
        asked = seen["body"] if isinstance(seen["body"], dict) else json.loads(seen["body"])
        assert (str(asked["keep_alive"]), asked["options"]) == (_HOUR, {"num_ctx": 8192, "seed": 7})
        assert await router.metric("jervis_router_parameters_owned_total") == 1
        assert (_loads(gpu), _loaded(gpu)) == (1, {_BIG})
    gpu.forget()
    async with process.running(tmp_path, _specs(gpu), own_parameters="false") as router, router.http() as http:
        assert (await http.post("/api/chat", json=body)).status_code == 200
        (seen,) = gpu.requests(path="/api/chat")
        asked = seen["body"] if isinstance(seen["body"], dict) else json.loads(seen["body"])
        assert asked["options"] == {"num_ctx": 256, "seed": 7}


async def test_announce_renew_stranger_release(tmp_path: Path, gpu: ollama.Fake, cpu: ollama.Fake) -> None:
    async with process.running(tmp_path, _specs(gpu, cpu)) as router, router.http() as http:
        warm = await http.post("/api/chat", json=_chat())
        assert warm.headers["X-Ollama-Router-Backend"] == "c"  # while the GPU loads
        answer = await http.post("/router/announce", json={"owner": "job-1"})
        ready = answer.json()
        assert (answer.status_code, ready["status"], ready["backend"]) == (200, "ready", "g")
        assert ready["modelSet"] == "orchestrator"
        assert _loaded(gpu) == {_BIG}
        again = await http.post("/router/announce", json={"owner": "job-1", "leaseId": ready["leaseId"]})
        assert again.json()["leaseId"] == ready["leaseId"]
        stranger = await http.post("/router/announce", json={"owner": "job-2"})
        assert (stranger.status_code, "'job-1'" in stranger.json()["error"]) == (409, False)
        assert "Retry-After" in stranger.headers
        guess = {"owner": "job-2", "leaseId": ready["leaseId"]}
        assert (await http.post("/router/release", json=guess)).status_code == 409
        moved = await http.post("/api/chat", json=_chat())
        assert moved.headers["X-Ollama-Router-Backend"] == "c"
        urgent = await http.post("/api/chat", json=_chat(_BIG))
        assert urgent.headers["X-Ollama-Router-Backend"] == "g"
        assert urgent.headers["X-Ollama-Router-Model-Set"] == "orchestrator"
        assert (moved.headers["X-Ollama-Router-Model-Set"], int(moved.headers["X-Ollama-Router-Queue-Ms"]) >= 0) == (
            "set",
            True,
        )
        released = await http.post("/router/release", json={"owner": "job-1", "leaseId": ready["leaseId"]})
        assert (released.status_code, released.json()) == (200, {"status": "released", "released": True})
        await waiting.eventually(lambda: _loaded(gpu), good=lambda names: names == {_SMALL})
        mine = {"owner": "job-1", "leaseId": ready["leaseId"]}
        assert (await http.post("/router/release", json=mine)).json()["released"] is False


@pytest.mark.parametrize(
    ("body", "field"),
    [("{}", "owner"), ('{"owner": ""}', "owner"), ('{"owner": "a", "lease": "b"}', "lease"), ("nonsense", "body")],
)
async def test_a_wrong_announcement_names_the_field(tmp_path: Path, gpu: ollama.Fake, body: str, field: str) -> None:
    async with process.running(tmp_path, _specs(gpu)) as router, router.http() as http:
        answer = await http.post("/router/announce", content=body)
        assert (answer.status_code, answer.json()["error"].split(":")[0]) == (400, field)
        assert (await http.get("/router/announce")).status_code == 405


async def test_background_gives_way_before_its_first_byte_and_nobody_sees_it(
    tmp_path: Path, gpu: ollama.Fake, cpu: ollama.Fake
) -> None:
    specs = _specs(gpu, cpu, numParallel=1)
    async with process.running(tmp_path, specs) as router, router.http() as http:
        await _warm_small(http, gpu)
        gpu.set_faults([{"match": {"path": "/api/chat", "tag": None}, "times": 1, "stall": {"gate": "hold"}}])
        victim = asyncio.create_task(http.post("/api/chat", json=_chat()))
        await router.until(lambda s: s["backends"][1]["inFlight"] == 1)
        urgent = await http.post("/api/chat", json=_chat(), headers={"X-Ollama-Priority": "0"})
        assert urgent.headers["X-Ollama-Router-Backend"] == "g"
        answer = await victim
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert (answer.status_code, answer.headers["X-Ollama-Router-Backend"]) == (200, "c")
        assert [line["done"] for line in lines].count(True) == 1
        assert not any("error" in line for line in lines)


async def _warm_small(http: httpx.AsyncClient, gpu: ollama.Fake) -> None:
    """Have the background set in the GPU's memory."""
    await http.post("/api/chat", json=_chat(), headers={"X-Ollama-Priority": "2"})
    assert _loaded(gpu) == {_SMALL}


async def test_with_consent_a_running_answer_ends_with_an_error_line(tmp_path: Path, gpu: ollama.Fake) -> None:
    specs = _specs(gpu, numParallel=1, preemption="AfterFirstByte")
    async with process.running(tmp_path, specs) as router, router.http() as http:
        await _warm_small(http, gpu)
        gpu.set_faults([{"match": {"path": "/api/chat"}, "times": 1, "stall": {"afterBytes": 40, "gate": "hold"}}])
        victim = asyncio.create_task(router.post("/api/chat", _chat()))
        name = f'jervis_router_requests_total{{backend="g",model="{_SMALL}",priority="P3"}}'
        await waiting.eventually(lambda: router.metric(name), good=lambda value: value == 1)
        urgent = await http.post("/api/chat", json=_chat(), headers={"X-Ollama-Priority": "0"})
        assert urgent.status_code == 200
        answer = await victim
        assert not answer.clean
        assert "preempted" in json.loads(answer.body.splitlines()[-1])["error"]


async def test_two_gpus_take_one_set_each_and_never_change(tmp_path: Path, gpu: ollama.Fake) -> None:
    with ollama.running(models=[_SMALL, _BIG], num_parallel=2, vram="24GiB") as other:
        specs = [*_specs(gpu), process.spec("h", other.url, vram="24Gi", numParallel=2, modelSets=_SETS)]
        async with process.running(tmp_path, specs) as router, router.http() as http:
            for number in range(30):
                answer = await http.post("/api/chat", json=_chat(_BIG if number % 2 else _SMALL))
                assert answer.status_code == 200
            assert (_loads(gpu), _loads(other)) == (1, 1)
            assert _loaded(gpu) ^ _loaded(other) == {_SMALL, _BIG}
