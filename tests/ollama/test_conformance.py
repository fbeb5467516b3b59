"""The router before a real Ollama: what the simulator plays, the real one does, and the router gets on with it."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from router.backends import verdict
from tests import waiting
from tests.ollama import gguf, twins
from tests.router import process

PROGRAM = os.environ.get("JERVIS_TEST_OLLAMA", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="JERVIS_TEST_OLLAMA names no program: see make test-ollama")

_BIG, _SMALL, _OTHER = "big:latest", "small:latest", "other:latest"
_TOKEN = "conformance-administrator"  # of this test
# One thread and a seed: the same nonsense each time, on any machine.
_OPTIONS = {"seed": 7, "temperature": 0, "num_predict": 12, "num_thread": 1}
_TIMES = {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration", "created_at"}
_SETS = [{"name": "orchestrator", "models": [{"name": _BIG, "vram": "1Gi", "numCtx": 512, "priority": 0}]},
         {"name": "background", "models": [{"name": _SMALL, "vram": "1Gi", "numCtx": 512, "priority": 3}]}]  # fmt: skip


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with an empty store; its address."""
    with twins.program(PROGRAM, tmp_path_factory.mktemp("ollama"), twins.ONE_AT_A_TIME) as (url, _):
        yield url


@pytest.fixture(name="models", scope="module", autouse=True)
def _models(server: str) -> None:
    """The models, made with the server itself."""
    for name, seed, layers in ((_BIG, 1, 2), (_SMALL, 2, 1), (_OTHER, 5, 1)):
        twins.make(server, name, gguf.tiny(seed, layers=layers))


@pytest.fixture(name="router")
async def _router(tmp_path: Path, server: str) -> AsyncIterator[process.Router]:
    """In front of it, as a GPU whose memory nobody owns."""
    tokens = process.tokens(tmp_path, {"name": "ops", "token": _TOKEN, "admin": True})
    specs = [process.spec("real", server, numParallel=1)]
    settings = {"tokens_file": tokens, "token_required": "false"}
    async with process.running(tmp_path, specs, **settings) as router:
        yield router


async def _empty(server: str) -> None:
    """Nothing is in its memory any more: a set that is there would be left only for somebody more urgent."""
    async with twins.client(server) as direct:

        async def shown() -> list[Any]:
            found: list[Any] = (await direct.get("/api/ps")).json()["models"]
            return found

        for name in (_BIG, _SMALL, _OTHER):
            await direct.post("/api/generate", json={"model": name, "keep_alive": 0})
        assert await waiting.eventually(shown, good=lambda seen: not seen) == []


def _plain(answer: httpx.Response) -> list[dict[str, Any]]:
    """The records of an answer without what differs from one time to the next."""
    records = [json.loads(line) for line in answer.text.splitlines() if line]
    return [{key: value for key, value in record.items() if key not in _TIMES} for record in records]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/generate", {"prompt": "say something", "options": _OPTIONS}),
        ("/api/generate", {"prompt": "say something", "options": _OPTIONS, "stream": False}),
        ("/api/chat", {"messages": [{"role": "user", "content": "kůň 🐎"}], "options": _OPTIONS}),
        ("/api/embed", {"input": ["one", "two"], "options": {"num_thread": 1}}),
        ("/api/embeddings", {"prompt": "one", "options": {"num_thread": 1}}),
        ("/api/show", {}),
    ],
)
async def test_answers_are_the_server_s_own(router: process.Router, server: str, path: str, body: Any) -> None:
    async with twins.client(router.url) as through, twins.client(server) as direct:
        asked = {"model": "big", **body}
        # The first time the prompt is not in the cache, and counted.
        await direct.post(path, json=asked)
        ours, its = await through.post(path, json=asked), await direct.post(path, json=asked)
        assert (ours.status_code, ours.headers["Content-Type"]) == (200, its.headers["Content-Type"])
        assert _plain(ours) == _plain(its)
        assert ours.headers["X-Ollama-Router-Backend"] == "real"


@pytest.fixture(name="speaker")
def _speaker(server: str) -> Iterator[str]:
    """A model that says the same each time and is soon done, whoever asks."""
    with httpx.Client(base_url=server, timeout=120, trust_env=False, verify=False) as http:
        twins.make(server, "speaker", gguf.tiny(3, layers=1), parameters=_OPTIONS)
        yield "speaker"
        http.request("DELETE", "/api/delete", json={"model": "speaker"})


async def test_its_command_line_shows_the_same(
    router: process.Router, server: str, speaker: str, tmp_path: Path
) -> None:
    async def shown(address: str, *command: str) -> list[str]:
        running = await asyncio.create_subprocess_exec(
            PROGRAM, *command, env={"HOME": str(tmp_path), "OLLAMA_HOST": address, "PATH": os.environ["PATH"]},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, failed = await waiting.done(running.communicate())
        assert running.returncode == 0, failed.decode()
        # "9 seconds ago" is another time a moment later; parameters come in any order.
        return sorted(re.sub(r"\d+ seconds ago", "", line).rstrip() for line in said.decode().splitlines())

    await router.until(lambda status: "speaker:latest" in status["backends"][0]["models"])
    for command in (("run", speaker, "Hello there"), ("list",), ("show", speaker)):
        ours = await shown(router.url, *command)
        assert ours == await shown(server, *command)
        assert any(line.strip() for line in ours)
    [line] = [line for line in await shown(router.url, "ps") if line.startswith(speaker)]
    assert "100%" in line


async def test_openai_s_paths_too(router: process.Router) -> None:
    async with twins.client(router.url) as http:
        said = {"model": "big", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5, "seed": 7}
        streamed = await http.post("/v1/chat/completions", json=said | {"stream": True})
        assert streamed.text.endswith("data: [DONE]\n\n")
        assert (await http.post("/v1/chat/completions", json=said)).json()["usage"]["completion_tokens"] >= 1
        assert {model["id"] for model in (await http.get("/v1/models")).json()["data"]} == {_BIG, _SMALL, _OTHER}


async def test_load_keep_alive_and_unload_show_in_ps(router: process.Router) -> None:
    async def loaded() -> set[str]:
        async with twins.client(router.url) as http:
            return {model["name"] for model in (await http.get("/api/ps")).json()["models"]}

    async with twins.client(router.url) as http:
        for name, other in ((_BIG, _SMALL), (_SMALL, _BIG)):
            assert (await http.post("/api/generate", json={"model": name, "keep_alive": "10m"})).json()["done"]
            assert await waiting.eventually(loaded, good={name}.issubset)
            assert other not in await loaded()
        gone = await http.post("/api/generate", json={"model": _SMALL, "keep_alive": 0})
        assert gone.json()["done_reason"] == "unload"
        assert await waiting.eventually(loaded, good=lambda seen: not seen) == set()


async def test_a_model_that_is_not_there_is_named(router: process.Router, server: str) -> None:
    async with twins.client(router.url) as http, twins.client(server) as direct:
        for client in (http, direct):
            answer = await client.post("/api/chat", json={"model": "nobody", "messages": []})
            assert (answer.status_code, "nobody" in answer.json()["error"]) == (404, True)


async def test_hang_ups_free_the_slot(router: process.Router) -> None:
    long = {"model": "big", "prompt": "on and on", "options": {**_OPTIONS, "num_predict": 4000, "num_ctx": 4096}}
    async with twins.client(router.url) as http:
        for _ in range(5):
            async with http.stream("POST", "/api/generate", json=long) as answer:
                assert await anext(answer.aiter_bytes())
        after = await http.post("/api/generate", json={"model": "big", "prompt": "x", "options": _OPTIONS})
        assert after.status_code == 200
        await router.until(lambda s: s["backends"][0]["inFlight"] == 0)
        assert (await router.backend("real"))["circuit"] == "Closed"


def _bounded(length: int) -> dict[str, Any]:
    text = {"type": "string", "maxLength": length}
    return {"type": "object", "properties": {"text": text}, "required": ["text"], "additionalProperties": False}


async def _deadly(server: str) -> dict[str, Any]:
    """A schema whose grammar ends the runner of this version: 0.17.4 compiles 2,000 characters and not one more."""
    async with twins.client(server) as direct:
        for length in (2001, 20_001, 1_000_001):
            body = {"model": "small", "prompt": "x", "format": _bounded(length), "options": _OPTIONS, "stream": False}
            answer = await direct.post("/api/generate", json=body)
            if answer.status_code == 500 and verdict.crashed(answer.content):
                return _bounded(length)
        version = (await direct.get("/api/version")).json()["version"]
    pytest.skip(f"Ollama {version} survives all of these schemas")


async def test_a_schema_that_ends_the_runner_is_refused_at_its_second_death(
    tmp_path: Path, router: process.Router, server: str
) -> None:
    schema = await _deadly(server)
    native = {"model": "small", "messages": [{"role": "user", "content": "x"}], "format": schema, "options": _OPTIONS}
    openai = {
        "model": "small", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
    }  # fmt: skip
    async with twins.client(router.url) as http:
        for path, body in (("/api/chat", native), ("/v1/chat/completions", openai)):
            answers = [await http.post(path, json=body) for _ in range(4)]
            assert [one.status_code for one in answers] == [500, 422, 422, 422]
            # The first death is the server's own answer.
            assert answers[0].headers["X-Ollama-Router-Backend"] == "real"
            assert verdict.crashed(answers[0].content)
            assert {one.headers["X-Ollama-Router-Reason"] for one in answers[1:]} == {"CrashesRunner"}
            error = answers[-1].json()["error"]
            assert "2 times" in (error if path == "/api/chat" else error["message"])
        said = (await http.get("/router/explain?model=small")).json()
        assert said["quarantined"] == 2
        # The server is well, and what asks for less is answered.
        body = native | {"format": _bounded(20), "stream": False}
        assert (await http.post("/api/chat", json=body)).status_code == 200
        shown = await router.backend("real")
        assert (shown["healthy"], shown["circuit"], shown["modelsFailing"]) == (True, "Closed", [])


async def test_an_answer_without_an_end_is_ended_and_its_gpu_free(tmp_path: Path, server: str) -> None:
    # Without a form the server ends what only repeats itself, in less than a second on a fast processor.
    form = {"type": "array", "minItems": 500, "items": {"type": "boolean"}}
    options = {**_OPTIONS, "temperature": 1, "num_predict": -1, "num_ctx": 2048}
    endless = {"model": "big", "prompt": "on", "format": {**form, "items": form}, "options": options}
    specs = [process.spec("real", server, numParallel=1)]
    async with process.running(tmp_path, specs, hold_seconds="1") as router, twins.client(router.url) as http:
        async with http.stream("POST", "/api/generate", json=endless, headers={"X-Jervis-Internal": "true"}) as answer:
            with pytest.raises(httpx.RemoteProtocolError):
                records = [json.loads(line) async for line in answer.aiter_lines()]  # noqa: F841  # it breaks off
        await router.until(lambda s: s["backends"][0]["inFlight"] == 0)
        metrics = (await http.get("/metrics")).text
        assert 'jervis_router_holds_ended_total{caller="internal"} 1.0' in metrics
        after = await http.post("/api/generate", json={"model": "big", "prompt": "x", "options": _OPTIONS})
        assert after.status_code == 200


async def test_its_503_rests_it_for_seconds_and_no_longer(tmp_path: Path, server: str) -> None:
    """Somebody goes past the router: the server's own queue (of one) is full of cold models."""
    specs = [process.spec("real", server, numParallel=16)]
    async with (
        process.running(tmp_path, specs) as router,
        twins.client(server) as direct,
        twins.client(router.url) as http,
    ):
        answers = await asyncio.gather(
            *(
                client.post("/api/generate", json={"model": name, "prompt": "x", "options": _OPTIONS})
                for client in (direct, http)
                for name in (_BIG, _SMALL) * 6
            )
        )
        codes = [answer.status_code for answer in answers]
        assert set(codes) == {200, 503}, codes
        assert all("maximum pending requests exceeded" in a.text or "busy" in a.text for a in answers if a.is_error)
        # What the client got is the server's own word, since there is no other one; it is asked again soon.
        await router.until(lambda s: s["backends"][0]["circuit"] != "Open", patience=15)
        assert (await http.post("/api/generate", json={"model": _BIG, "prompt": "x", "options": _OPTIONS})).is_success
        await router.until(lambda s: s["backends"][0]["circuit"] == "Closed")


async def test_a_set_that_the_router_owns_is_loaded_announced_and_left(tmp_path: Path, server: str) -> None:
    specs = [process.spec("real", server, numParallel=1, vram="1Gi", maxLoadedModels=1, modelSets=_SETS)]
    await _empty(server)
    async with process.running(tmp_path, specs) as router, twins.client(router.url) as http:
        body = {"model": "small", "prompt": "x", "options": {**_OPTIONS, "num_ctx": 2048}, "keep_alive": 0}
        answer = await http.post("/api/generate", json=body)
        assert (answer.status_code, answer.headers["X-Ollama-Router-Model-Set"]) == (200, "background")
        ready = (await http.post("/router/announce", json={"owner": "conformance"})).json()
        assert (ready["status"], ready["modelSet"]) == ("ready", "orchestrator")
        shown = (await http.get("/api/ps")).json()["models"]
        assert [(model["name"], model["context_length"]) for model in shown] == [(_BIG, 512)]
        lease = {"owner": "conformance", "leaseId": ready["leaseId"]}
        assert (await http.post("/router/release", json=lease)).json()["released"] is True
        await router.until(lambda s: [m["name"] for m in s["backends"][0]["memory"]] == [_SMALL])


async def test_three_models_share_one_slot_and_the_most_urgent_request_is_next(tmp_path: Path, server: str) -> None:
    specs = [process.spec("real", server, numParallel=1, maxInFlight=1, maxLoadedModels=1)]
    ended: list[str] = []
    async with process.running(tmp_path, specs) as router, twins.client(router.url) as http:

        async def ask(model: str, priority: str) -> None:
            body = {"model": model, "prompt": "on and on", "options": {**_OPTIONS, "num_predict": 200}, "stream": False}
            answer = await http.post("/api/generate", json=body, headers={"X-Ollama-Priority": priority})
            assert (answer.status_code, answer.json()["done"]) == (200, True)
            ended.append(priority)

        background = [asyncio.create_task(ask(name, "3")) for name in (_BIG, _SMALL, _OTHER) * 5]
        await router.until(lambda s: s["queue"]["waiting"] >= 10)
        for model in (_BIG, _SMALL, _OTHER):
            before = len(ended)
            urgent = asyncio.create_task(ask(model, "0"))
            while not urgent.done():
                assert (await router.backend("real"))["inFlight"] <= 1
                await asyncio.sleep(0.01)
            # One job may have been running, and its answer or the next one's start may have been under way.
            assert ended[before:].index("0") <= 2, ended
        await asyncio.gather(*background)
    assert sorted(ended) == ["0"] * 3 + ["3"] * 15


async def test_models_are_made_and_deleted_by_an_administrator(router: process.Router) -> None:
    headers = {"Authorization": f"Bearer {_TOKEN}", "X-Ollama-Router-Backend": "real"}
    async with twins.client(router.url) as http:
        copied = await http.post("/api/copy", json={"source": "small", "destination": "copy"}, headers=headers)
        assert copied.status_code == 200
        await router.until(lambda s: "copy:latest" in s["backends"][0]["models"])
        gone = await http.request("DELETE", "/api/delete", json={"model": "copy"}, headers=headers)
        assert gone.status_code == 200
        await router.until(lambda s: "copy:latest" not in s["backends"][0]["models"])
