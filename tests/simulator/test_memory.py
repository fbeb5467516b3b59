"""Loading, sharing and unloading over HTTP. Order is decided by gates, never by sleeping."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import httpx

from tests import waiting as watch
from tests.fakes.ollama import process
from tests.simulator.conftest import Starter, client

HELD = [{"match": {"priority": "hold"}, "stall": {"afterBytes": 1, "gate": "g"}}]
HOLD = {"X-Ollama-Priority": "hold"}
GIB = 2**30


def body(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "prompt": "one two three", "stream": False, **fields}


async def ask(http: httpx.AsyncClient, model: str, headers: dict[str, str] | None = None, **fields: Any) -> int:
    return (await http.post("/api/generate", json=body(model, **fields), headers=headers or {})).status_code


def events(fake: process.Fake) -> Counter[str]:
    """How often the memory loaded, granted, unloaded ... since the start."""
    return Counter(fake.state()["runner"])


def loaded(fake: process.Fake) -> list[str]:
    return [runner["model"] for runner in fake.state()["loaded"]]


async def test_an_empty_prompt_loads_and_keep_alive_0_unloads(http: httpx.AsyncClient) -> None:
    answer = (await http.post("/api/generate", json={"model": "small:1b", "keep_alive": -1})).json()
    assert (answer["done"], answer["done_reason"], answer["response"]) == (True, "load", "")
    shown = (await http.get("/api/ps")).json()["models"]
    assert [one["name"] for one in shown] == ["small:1b"]
    assert shown[0]["size_vram"] == shown[0]["size"] > 0
    assert shown[0]["context_length"] == 4096
    assert shown[0]["expires_at"] > "2300", "pinned models expire in some three hundred years"
    chat = (await http.post("/api/chat", json={"model": "small:1b", "messages": [], "keep_alive": 0})).json()
    assert (chat["done_reason"], chat["message"]) == ("unload", {"role": "assistant", "content": ""})
    assert (await http.get("/api/ps")).json()["models"] == []


async def test_keep_alive_0_on_a_request_unloads_after_it(http: httpx.AsyncClient, fake: process.Fake) -> None:
    assert await ask(http, "small:1b", keep_alive=0) == 200
    assert loaded(fake) == []


async def test_a_model_expires_by_itself(http: httpx.AsyncClient, fake: process.Fake) -> None:
    await ask(http, "small:1b", keep_alive="50ms")
    await watch.eventually(lambda: loaded(fake) == [])


async def test_another_num_ctx_reloads(http: httpx.AsyncClient, fake: process.Fake) -> None:
    before = events(fake)
    for num_ctx in (4096, 4096, 8192):
        await ask(http, "small:1b", options={"num_ctx": num_ctx})
    assert (events(fake) - before) & Counter(loading=9, unloaded=9) == Counter(loading=2, unloaded=1)
    assert [runner["num_ctx"] for runner in fake.state()["loaded"]] == [8192]


async def test_idle_models_leave_least_recently_used_first(start: Starter) -> None:
    fake = start(max_loaded_models=2)
    async with client(fake) as http:
        for model in ("small:1b", "other:1b", "small:1b", "third:1b"):
            await ask(http, model)
        assert sorted(loaded(fake)) == ["small:1b", "third:1b"]


async def test_memory_is_bounded_and_a_large_model_is_loaded_in_part(start: Starter) -> None:
    models = [{"name": name, "size": "10GiB", "kvBytesPerToken": 0} for name in ("a:1", "b:1")]
    models.append({"name": "large:1", "size": "40GiB", "kvBytesPerToken": 0})
    fake = start(models=models, vram="24GiB", max_loaded_models=0)
    async with client(fake) as http:
        await ask(http, "a:1")
        await ask(http, "b:1")
        assert loaded(fake) == ["a:1", "b:1"]
        await ask(http, "large:1")
        shown = (await http.get("/api/ps")).json()["models"]
        assert [(one["name"], one["size"], one["size_vram"]) for one in shown] == [("large:1", 40 * GIB, 24 * GIB)]


async def test_a_cpu_backend_has_nothing_in_vram(start: Starter) -> None:
    fake = start(kind="cpu")
    async with client(fake) as http:
        await ask(http, "small:1b")
        assert [one["size_vram"] for one in (await http.get("/api/ps")).json()["models"]] == [0]


async def test_num_parallel_and_waiting_without_a_limit(start: Starter) -> None:
    fake = start(num_parallel=2, max_queue=1, faults=HELD)
    async with client(fake) as http:
        held = [asyncio.create_task(ask(http, "small:1b", HOLD)) for _ in range(2)]
        await watch.eventually(lambda: fake.state()["gates"] == {"g": 2})
        waiting = []
        for _ in range(5):  # one after the other, so that who came first is certain
            waiting.append(asyncio.create_task(ask(http, "small:1b")))
            await watch.eventually(lambda: [one["waiting"] for one in fake.state()["loaded"]] == [len(waiting)])
        assert [one["active"] for one in fake.state()["loaded"]] == [2]
        fake.open_gate("g")
        assert await asyncio.gather(*held, *waiting) == [200] * 7
        order = [one["granted"] for one in fake.requests(path="/api/generate", priority="None")]
        assert len(order) == 5
        assert order == sorted(order), "first come, first served"


async def test_a_full_line_is_answered_503(start: Starter) -> None:
    fake = start(max_queue=1, max_loaded_models=1, faults=HELD)
    async with client(fake) as http:
        held = asyncio.create_task(ask(http, "small:1b", HOLD))
        await watch.eventually(lambda: fake.state()["gates"] == {"g": 1})
        waiting = [asyncio.create_task(ask(http, "other:1b"))]  # in the loader's hand
        await watch.eventually(lambda: len(fake.state()["pending"]) == 1)
        waiting.append(asyncio.create_task(ask(http, "third:1b")))  # the one that may queue
        await watch.eventually(lambda: len(fake.state()["pending"]) == 2)
        refused = await http.post("/api/generate", json=body("third:1b"))
        assert refused.status_code == 503
        assert refused.json() == {"error": "server busy, please try again.  maximum pending requests exceeded"}
        fake.open_gate("g")
        assert await asyncio.gather(held, *waiting) == [200, 200, 200]


async def test_a_hang_up_frees_the_slot(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_faults([{"match": {"priority": "hold"}, "stall": {"afterBytes": 0}}])
    gone = asyncio.create_task(http.post("/api/generate", json=body("small:1b", stream=True), headers=HOLD))
    await watch.eventually(lambda: fake.count(priority="hold") == 1)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    await watch.eventually(lambda: fake.count(outcome="cancelled") == 1)
    assert await ask(http, "small:1b") == 200


async def test_a_hang_up_in_the_middle_of_a_stream_frees_the_slot(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_pace(tokens_per_second=20)
    many = {"model": "small:1b", "prompt": "word " * 400}
    async with http.stream("POST", "/api/generate", json=many) as response:
        async for _ in response.aiter_lines():
            break
    await watch.eventually(lambda: fake.count(outcome="cancelled") == 1)
    assert [one["active"] for one in fake.state()["loaded"]] == [0]
    cancelled = fake.requests(outcome="cancelled")[0]
    assert 0 < cancelled["tokens"] < 40, "it stopped generating"


async def test_a_cold_model_is_loaded_once_for_all(http: httpx.AsyncClient, fake: process.Fake) -> None:
    fake.set_pace(load_seconds_per_gib=0.3)
    before = events(fake)
    assert await asyncio.gather(*(ask(http, "small:1b") for _ in range(20))) == [200] * 20
    assert (events(fake) - before)["loading"] == 1


async def test_a_load_dies_with_its_request_and_is_started_again_for_the_next(
    http: httpx.AsyncClient, fake: process.Fake
) -> None:
    fake.set_pace(load_seconds_per_gib=30)
    before = events(fake)
    first = asyncio.create_task(ask(http, "small:1b"))
    await watch.eventually(lambda: loaded(fake) == ["small:1b"])
    second = asyncio.create_task(ask(http, "small:1b"))
    await watch.eventually(lambda: [one["waiting"] for one in fake.state()["loaded"]] == [2])
    fake.set_pace(load_seconds_per_gib=0)
    first.cancel()
    assert await second == 200
    seen = events(fake) - before
    assert (seen["loading"], seen["aborted"], seen["loaded"]) == (2, 1, 1)
