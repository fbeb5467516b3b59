"""The models of roles: what the router learns of them, and the window with which it loads them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests import waiting
from tests.fakes.ollama import process as ollama
from tests.router import process, wire

_ROLES = [
    {"role": "orchestrator", "model": "qwen3:8b", "numCtx": 16384},
    {"role": "qualifier", "model": "small", "numCtx": 16384},
    {"role": "decision", "model": "gpt-oss:120b", "numCtx": 16384},
    {"role": "embedding", "model": "qwen3-embedding:8b"},
]


async def test_each_role_is_checked_on_each_backend(tmp_path: Path) -> None:
    models = ["qwen3:8b", "qwen2.5:7b", "qwen3-embedding:8b"]
    with ollama.running(models=models) as one, ollama.running(models=["qwen2.5:7b"]) as two:
        backends = [process.spec("a", one.url), process.spec("b", two.url)]
        aliases = json.dumps({"small": "qwen2.5:7b"})
        async with process.running(tmp_path, backends, roles=json.dumps(_ROLES), aliases=aliases) as router:
            await router.until(lambda s: all(row["verdict"] != "Unknown" for row in s["models"]["rows"]))
            status = await router.status()
            # Once for each model that a role uses, however many rounds of probes there are.
            rounds = one.count(path="/api/tags")
            await waiting.eventually(lambda: one.count(path="/api/tags"), good=lambda count: count > rounds + 1)
            assert [entry["model"] for entry in one.requests(path="/api/show")] == models
    assert {one["role"]: (one["verdict"], one["problem"]) for one in status["models"]["roles"]} == {
        "orchestrator": ("Ok", ""),
        "qualifier": ("Ok", ""),
        "decision": ("Stops", "no backend has gpt-oss:120b"),
        "embedding": ("Ok", ""),
    }
    rows = {(row["role"], row["backend"]): row for row in status["models"]["rows"]}
    assert [rows["orchestrator", name]["present"] for name in ("a", "b")] == [True, False]
    assert rows["embedding", "a"]["dimensions"] == 384
    assert rows["qualifier", "b"]["tools"] is True
    assert (rows["qualifier", "b"]["window"], rows["qualifier", "b"]["needed"]) == (32768, 16384)


async def test_a_backend_that_gets_nothing_serves_no_role(tmp_path: Path) -> None:
    with ollama.running(models=["qwen3-embedding:8b"]) as fake:
        backends = [
            process.spec("a", fake.url, capabilities=["generate"]),
            process.spec("b", fake.url, drain=True),
            process.spec("c", "http://127.0.0.1:9"),
        ]
        async with process.running(tmp_path, backends, roles=json.dumps(_ROLES[3:])) as router:
            status = await router.until(lambda s: all(one["reason"] != "not probed yet" for one in s["backends"]))
    rows = {row["backend"]: row for row in status["models"]["rows"]}
    assert {name: (row["verdict"], row["served"]) for name, row in rows.items()} == {
        "a": ("Stops", False), "b": ("Unknown", False), "c": ("Unknown", False),
    }  # fmt: skip
    assert rows["a"]["problems"] == ["its spec.capabilities do not name embed"]
    assert rows["b"]["problems"] == ["no request goes to it now: drains"]
    assert rows["c"]["problems"][0].startswith("no request goes to it now: ")


async def test_a_model_is_loaded_with_the_window_that_it_will_be_asked_with(tmp_path: Path) -> None:
    """Another window would load it anew with the first request."""
    with ollama.running(models=["qwen3:8b", "qwen2.5:7b"], vram="24GiB") as fake:
        sets = process.model_set({"name": "qwen3:8b", "vram": "8Gi", "priority": 0})
        backends = [process.spec("a", fake.url, vram="24Gi", modelSets=sets)]
        async with process.running(tmp_path, backends, roles=json.dumps(_ROLES)) as router, router.http() as http:
            announced = await http.post("/router/announce", json={"owner": "run", "model": "qwen3:8b"})
            assert announced.status_code == 200
            await router.until(lambda s: bool(s["backends"][0]["loaded"]))
            options = {"num_ctx": 16384}
            messages = [{"role": "user", "content": "hello"}]
            asked = {"model": "qwen3:8b", "messages": messages, "stream": False, "options": options}
            assert (await http.post("/api/chat", json=asked)).status_code == 200
        loads = fake.requests(path="/api/generate")
        assert [entry["body"].get("options") for entry in loads] == [options]


async def test_a_server_that_does_not_describe_its_models_is_probed_as_any_other(tmp_path: Path) -> None:
    async with wire.backend(wire.deaf, models=("qwen3:8b", "qwen2.5:7b")) as backend:
        specs = [process.spec("a", backend.url)]
        settings = {"roles": json.dumps(_ROLES), "probe_timeout_seconds": "3600"}
        async with process.running(tmp_path, specs, **settings) as router:
            await waiting.eventually(lambda: _shown(backend))
            backend.models.append("new:latest")
            await router.until(lambda s: "new:latest" in s["backends"][0]["models"])


def _shown(server: wire.Backend) -> int:
    return sum(message.path == "/api/show" for message in server.requests)


async def test_a_server_that_cannot_describe_a_model_is_asked_less_and_less(tmp_path: Path) -> None:
    rounds = 0

    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        nonlocal rounds
        rounds += message.path == "/api/version"
        document = backend._probe(message.path)
        body = json.dumps(document).encode()
        writer.write(wire.plain(b"{}", status="500 Internal Server Error") if document is None else wire.plain(body))
        return True

    async with wire.backend(script, models=("qwen3:8b",), probes=False) as backend:
        specs = [process.spec("a", backend.url)]
        settings = {"roles": json.dumps(_ROLES), "probe_interval_seconds": "0.02"}
        async with process.running(tmp_path, specs, **settings):
            await waiting.eventually(lambda: _shown(backend))
            await waiting.eventually(lambda: rounds, good=lambda count: count > 150)
            assert _shown(backend) < 20
