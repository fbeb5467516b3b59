"""The router before a real server with OpenAI's API: what the fake plays, the real one does."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import ports, waiting
from tests.ollama import gguf, twins
from tests.router import process, wire

PROGRAM = os.environ.get("JERVIS_TEST_LLAMA_CPP", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="JERVIS_TEST_LLAMA_CPP names no program: see make test-llama-cpp")

_CHAT = "/v1/chat/completions"
_SAID: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "kůň 🐎"}], "max_tokens": 6,
                         "seed": 7, "temperature": 0}  # fmt: skip
_VARY = {"id", "created"}


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a tiny random model; its address."""
    home = tmp_path_factory.mktemp("llama-cpp")
    (home / "tiny.gguf").write_bytes(gguf.tiny(1))
    port = ports.free()
    command = [PROGRAM, "-m", "llama_cpp.server", "--model", str(home / "tiny.gguf"), "--model_alias", "tiny",
               "--host", "127.0.0.1", "--port", str(port), "--n_ctx", "2048", "--n_threads", "1",
               "--interrupt_requests", "false"]  # fmt: skip
    with (home / "log").open("wb") as log:
        server = subprocess.Popen(
            command, env={"HOME": str(home), "PATH": os.environ["PATH"]}, stderr=log, stdout=log, cwd=home
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(waiting.PATIENCE)


@pytest.fixture(name="router")
async def _router(tmp_path: Path, server: str) -> AsyncIterator[process.Router]:
    async with process.running(tmp_path, [_spec(server)]) as router:
        await router.until(lambda status: status["backends"][0]["healthy"])
        yield router


def _spec(server: str, **more: Any) -> dict[str, Any]:
    return process.spec("real", server, engine="OpenAI", numParallel=1, **more)


def _events(answer: httpx.Response) -> list[Any]:
    """The events of a stream, or the one document, without what differs from one time to the next."""
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith(("data: ", "{"))]
    documents = [json.loads(line) for line in lines if line != "[DONE]"]
    return [{key: value for key, value in one.items() if key not in _VARY} for one in documents]


@pytest.mark.parametrize("more", [{}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}])
async def test_answers_are_the_server_s_own(router: process.Router, server: str, more: dict[str, Any]) -> None:
    async with twins.client(router.url) as through, twins.client(server) as direct:
        asked = _SAID | more
        await direct.post(_CHAT, json=asked)  # the first time the prompt is not in the cache
        ours, its = await through.post(_CHAT, json=asked), await direct.post(_CHAT, json=asked)
        assert (ours.status_code, ours.headers["Content-Type"]) == (200, its.headers["Content-Type"])
        assert _events(ours) == _events(its)
        assert ours.text.rstrip().endswith("[DONE]") is bool(more)
        assert ours.headers["X-Ollama-Router-Backend"] == "real"
        text = {"model": "tiny", "prompt": "on and on", "max_tokens": 4, "seed": 7, "temperature": 0}
        ours, its = await through.post("/v1/completions", json=text), await direct.post("/v1/completions", json=text)
        assert _events(ours) == _events(its)


async def test_its_models_and_what_it_lacks(router: process.Router) -> None:
    async with twins.client(router.url) as http:
        assert [one["id"] for one in (await http.get("/v1/models")).json()["data"]] == ["tiny"]
        assert (await http.get("/v1/models/tiny")).json()["id"] == "tiny"
        assert (await http.post("/v1/responses", json=_SAID)).status_code == 404
        # It was not started for embeddings: that is no failure of its model.
        for _ in range(6):
            assert (await http.post("/v1/embeddings", json={"model": "tiny", "input": "x"})).status_code == 500
        refused = await http.post("/api/chat", json=_SAID)
        assert (refused.status_code, "/v1/chat/completions" in refused.json()["error"]) == (400, True)
        assert (await http.post(_CHAT, json=_SAID)).status_code == 200
        backend = await router.backend("real")
        assert (backend["modelsFailing"], backend["circuit"], backend["models"]) == ([], "Closed", ["tiny:latest"])


async def test_a_p0_gets_the_slot_of_background_and_both_are_answered(router: process.Router) -> None:
    async with twins.client(router.url) as http:
        background = asyncio.create_task(
            http.post(_CHAT, json=_SAID | {"max_tokens": 200}, headers={"X-Ollama-Priority": "3"})
        )
        await router.until(lambda status: status["backends"][0]["inFlight"] == 1)
        urgent = await http.post(_CHAT, json=_SAID, headers={"X-Ollama-Priority": "0"})
        assert (urgent.status_code, (await background).status_code) == (200, 200)
        await router.until(lambda status: status["backends"][0]["inFlight"] == 0)
        assert (await router.backend("real"))["circuit"] == "Closed"


async def test_with_an_ollama_beside_it_each_takes_over_for_the_other(tmp_path: Path, server: str) -> None:
    async with wire.backend(wire.answering(), ["tiny:latest"]) as beside:
        specs = [process.spec("ollama", beside.url), _spec(server, weight=100)]
        async with process.running(tmp_path, specs) as router, twins.client(router.url) as http:
            await router.until(lambda status: all(backend["healthy"] for backend in status["backends"]))
            embedded = [await http.post("/v1/embeddings", json={"model": "tiny", "input": "x"}) for _ in range(20)]
            assert {(one.status_code, one.headers["X-Ollama-Router-Backend"]) for one in embedded} == {(200, "ollama")}
            await beside.end()
            moved = [await http.post(_CHAT, json=_SAID) for _ in range(3)]
            assert {(one.status_code, one.headers["X-Ollama-Router-Backend"]) for one in moved} == {(200, "real")}
