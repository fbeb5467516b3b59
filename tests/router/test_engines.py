"""Backends of engine OpenAI in one pool with Ollama's: what goes where, what is listed, what is said when it cannot."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from crds import gpubackend, priority
from router import client
from router.backends import environment, records
from tests import waiting
from tests.fakes import openai
from tests.fakes.ollama import process as ollama
from tests.router import process, wire

_CHAT, _API = "/v1/chat/completions", "/api/chat"
_SAID = [{"role": "user", "content": "hello"}]


def _spec(name: str, url: str, **more: Any) -> dict[str, Any]:
    return process.spec(name, url, engine="OpenAI", numParallel=1, **more)


def _ask(router: process.Router, path: str = _CHAT, model: str = "m", level: str = "", **more: Any) -> Any:
    headers = [("X-Ollama-Priority", level)] if level else []
    return router.post(path, {"model": model, "messages": _SAID, **more}, headers)


def _by(answer: wire.Message) -> tuple[int, str | None]:
    return answer.status, answer.header("X-Ollama-Router-Backend")


async def test_v1_passes_byte_for_byte_and_its_tokens_are_counted(tmp_path: Path) -> None:
    async with openai.running() as vllm, process.running(tmp_path, [_spec("v", vllm.url)]) as router:
        body = b'{"model": "m",  "stream": true, "keep_alive": 0, "stream_options": {"include_usage": true}}'
        streamed = await router.send(wire.request("POST", _CHAT, body))
        assert (_by(streamed), streamed.clean) == ((200, "v"), True)
        assert streamed.body.endswith(b"data: [DONE]\n\n")
        assert vllm.requests == [(_CHAT, body)]
        tokens = 'jervis_router_tokens_total{backend="v",model="m:latest",of="answer",priority="Auto"}'
        assert await router.metric(tokens) == len(openai.WORDS)
        whole = await _ask(router)
        assert whole.json()["choices"][0]["message"]["content"] == "".join(openai.WORDS)
        assert (await _ask(router, "/v1/embeddings", input="x")).json()["data"][0]["embedding"]
        shown = await router.backend("v")
        assert (shown["engine"], shown["healthy"], shown["loaded"]) == ("OpenAI", True, ["m:latest"])


async def test_reranking_takes_a_slot_of_a_server_that_can(tmp_path: Path) -> None:
    async with openai.running() as plain, openai.running() as ranks:
        ranks.paths.add("/v1/rerank")
        specs = [_spec("a", plain.url), _spec("b", ranks.url)]
        async with process.running(tmp_path, specs) as router, router.door() as door:
            for _ in range(2):
                judged = await door.rerank("m", "which is longest?", ["one", "three", "be"], priority.Priority.P1)
                assert judged == [3.0, 5.0, 2.0]
            assert [path for path, _ in ranks.requests] == ["/v1/rerank"] * 2
            assert await door.rerank("m", "?", [], priority.Priority.P1) == []
            ranks.models.clear()
            with pytest.raises(client.UnknownModel):
                await door.rerank("unknown", "?", ["one"], priority.Priority.P1)


async def test_the_client_embeds_with_a_model_that_has_the_v1_api_alone(tmp_path: Path) -> None:
    with ollama.running(models=["all-minilm:latest"]) as gpu:
        async with openai.running(["Org/e5"]) as vllm:
            specs = [process.spec("g", gpu.url), _spec("v", vllm.url)]
            async with process.running(tmp_path, specs) as router, router.door() as asked:
                vllm.window = 5
                assert await asked.embed("Org/e5", ["one", "three", "be"], priority.Priority.P3) == [
                    [3.0, 1.0], [5.0, 1.0], [2.0, 1.0],
                ]  # fmt: skip
                assert [(path, json.loads(body)) for path, body in vllm.requests] == [
                    ("/v1/embeddings", {"model": "Org/e5", "input": ["one", "three", "be"]})
                ]
                with pytest.raises(client.TooLong, match="maximum context length is 5"):
                    await asked.embed("Org/e5", ["one two three four five six"], priority.Priority.P3)
                vllm.failure = openai.error(500, "input (812 tokens) is too large to process.", "server_error")
                with pytest.raises(client.TooLong):
                    await asked.embed("Org/e5", ["one"], priority.Priority.P3)
                assert (await router.backend("v"))["healthy"]
                # Ollama cuts nothing, and says how much it reads.
                assert await asked.window("all-minilm", priority.Priority.P3) == 256
                assert [len(vector) for vector in await asked.embed("all-minilm", ["a"], priority.Priority.P3)] == [384]
                with pytest.raises(client.TooLong, match="context length"):
                    await asked.embed("all-minilm", ["word " * 300], priority.Priority.P3)


async def test_the_window_of_a_model_of_a_v1_server_is_what_it_lists(tmp_path: Path) -> None:
    async with openai.running(["Org/e5"]) as vllm:
        vllm.window = 512
        async with process.running(tmp_path, [_spec("v", vllm.url)]) as router, router.door() as door:
            assert await door.window("Org/e5", priority.Priority.P3) == 512


async def test_api_never_goes_there_and_says_why(tmp_path: Path) -> None:
    async with openai.running() as vllm, process.running(tmp_path, [_spec("v", vllm.url)]) as router:
        for path, more in ((_API, {}), ("/api/embed", {"input": "x"}), ("/api/show", {})):
            answer = await _ask(router, path, **more)
            assert answer.status == 400, path
            assert "/v1/chat/completions" in answer.json()["error"]
            assert answer.header("X-Ollama-Router-Reason") == "OtherApi"
        assert vllm.requests == []
        assert (await router.get("/api/tags")).json() == {"models": []}
        assert (await router.get("/api/version")).json() == {"version": "0.0.0"}
        said = (await router.get("/router/explain?model=m")).json()
        assert (said["verdict"], "OpenAI" in said["candidates"][0]["why"]) == ("Refuse", True)
        assert (await router.get("/router/explain?model=m&api=v1")).json()["verdict"] == "Dispatch"


async def test_lists_of_a_mixed_pool(tmp_path: Path) -> None:
    with ollama.running(models=["m:latest", "only:1b"]) as gpu:
        async with openai.running(["m", "Org/Other-7B"]) as vllm:
            specs = [process.spec("g", gpu.url), _spec("v", vllm.url)]
            async with process.running(tmp_path, specs) as router:
                tags = (await router.get("/api/tags")).json()["models"]
                assert {one["name"] for one in tags} == {"m:latest", "only:1b"}
                listed = {one["id"]: one for one in (await router.get("/v1/models")).json()["data"]}
                assert listed.keys() == {"m:latest", "only:1b", "Org/Other-7B"}
                assert listed["Org/Other-7B"]["max_model_len"] == 4096
                one = await router.get("/v1/models/Org/Other-7B")
                assert (one.status, one.json()["owned_by"]) == (200, "vllm")
                assert _by(await router.get("/v1/models/m")) == (200, "g")


def test_a_record_that_could_not_be_written_again_is_left_out_of_the_lists() -> None:
    deep = b'{"object":"list","data":[{"id":"m"},{"id":"odd","meta":' + b"[" * 400 + b"]" * 400 + b"}]}"
    assert records.listed(orjson.loads(deep), "data") == ({"id": "m"},)


async def test_a_model_in_a_field_that_only_go_takes_for_it_stays_with_ollama(tmp_path: Path) -> None:
    async with openai.running(["m"]) as vllm, process.running(tmp_path, [_spec("v", vllm.url)]) as router:
        for size in (1, 200_000):
            body = {"Model": "m", "messages": [{"role": "user", "content": "x" * size}]}
            answer = await router.post(_CHAT, body)
            assert (answer.status, answer.header("X-Ollama-Router-Reason")) == (400, "OtherApi")


async def test_v1_goes_from_one_engine_to_the_other_when_one_is_lost(tmp_path: Path) -> None:
    with ollama.running(models=["m:latest"], num_parallel=4) as gpu:
        async with openai.running() as vllm:
            specs = [process.spec("g", gpu.url, weight=1), _spec("v", vllm.url, weight=100)]
            async with process.running(tmp_path, specs) as router:
                vllm.failure = openai.error(500, "EngineCore encountered an issue", "InternalServerError")
                assert _by(await _ask(router, level="0")) == (200, "g")
                vllm.failure, vllm.health = None, 503
                await router.until(lambda s: not s["backends"][1]["healthy"])
                assert "/health answered 503" in (await router.backend("v"))["reason"]
                assert _by(await _ask(router, level="0")) == (200, "g")
                vllm.health = 200
                await router.until(lambda s: s["backends"][1]["healthy"])
                gpu.kill()
                assert _by(await _ask(router, level="0")) == (200, "v")


async def test_of_one_model_api_waits_for_ollama_while_v1_takes_the_free_server(tmp_path: Path) -> None:
    """A request by /api stands before one by /v1 and does not hold it up."""

    gate = asyncio.Event()
    async with wire.backend(wire.gated(gate), ["m:latest"]) as gpu, openai.running() as vllm:
        specs = [process.spec("g", gpu.url) | {"numParallel": 1}, _spec("v", vllm.url)]
        async with process.running(tmp_path, specs) as router:
            vllm.hold()
            api = [asyncio.create_task(_ask(router, _API)) for _ in range(2)]
            await router.until(lambda s: s["queue"]["waiting"] == 1)
            first = asyncio.create_task(_ask(router))
            await router.until(lambda s: s["backends"][1]["inFlight"] == 1)
            second = asyncio.create_task(_ask(router))
            await router.until(lambda s: s["queue"]["waiting"] == 2)
            vllm.go()
            assert [_by(await task) for task in (first, second)] == [(200, "v")] * 2
            assert not any(task.done() for task in api)
            gate.set()
            assert [_by(await task) for task in api] == [(200, "g")] * 2


async def test_a_p0_takes_the_slot_by_closing_the_connection(tmp_path: Path) -> None:
    async with openai.running() as vllm, process.running(tmp_path, [_spec("v", vllm.url)]) as router:
        vllm.hold()
        background = asyncio.create_task(_ask(router, level="3"))
        await waiting.eventually(lambda: vllm.requests)
        urgent = asyncio.create_task(_ask(router, level="0"))
        await waiting.eventually(lambda: vllm.hung_up)
        vllm.go()
        assert [_by(await task) for task in (urgent, background)] == [(200, "v")] * 2


@pytest.mark.parametrize(
    ("failure", "models"),
    [
        (openai.error(404, "The model `m` does not exist.", "NotFoundError"), []),
        (openai.loading(), ["m:latest"]),
        (openai.error(429, "too many requests", "rate_limit_error"), ["m:latest"]),
        ((404, {"detail": "Not Found"}), ["m:latest"]),
        (openai.error(400, "The model does not support Chat Completions API", "BadRequestError"), ["m:latest"]),
    ],
)
async def test_what_it_cannot_another_does(tmp_path: Path, failure: openai.Failure, models: list[str]) -> None:
    with ollama.running(models=["m:latest"], num_parallel=4) as gpu:
        async with openai.running() as vllm:
            specs = [process.spec("g", gpu.url), _spec("v", vllm.url)]
            async with process.running(tmp_path, specs, probe_interval_seconds="60") as router:
                vllm.failure = failure
                busy = [asyncio.create_task(_ask(router)) for _ in range(3)]
                assert {_by(await task) for task in busy} == {(200, "g")}
                assert vllm.requests
                shown = await router.backend("v")
                assert (shown["models"], shown["modelsFailing"]) == (models, [])


async def test_a_path_that_it_lacks_is_asked_elsewhere_without_end(tmp_path: Path) -> None:
    """It costs no budget: which paths a server has differs from one to the next."""

    async with wire.backend(wire.answering(), ["m:latest"]) as gpu, openai.running() as vllm:
        specs = [process.spec("z", gpu.url), _spec("a", vllm.url)]
        async with process.running(tmp_path, specs) as router:
            assert [_by(await _ask(router, "/v1/responses")) for _ in range(40)] == [(200, "z")] * 40
            assert (await router.backend("a"))["circuit"] == "Closed"
        alone = [_spec("a", vllm.url)]
        async with process.running(tmp_path, alone) as router:
            answer = await _ask(router, "/v1/responses")
            assert (answer.status, answer.json()) == (404, {"detail": "Not Found"})


async def test_another_spelling_takes_no_model_away(tmp_path: Path) -> None:
    async with openai.running(["Org/M-7B"]) as vllm, process.running(tmp_path, [_spec("v", vllm.url)]) as router:
        assert (await _ask(router, model="org/m-7b")).status == 404
        assert (await _ask(router, model="Org/M-7B")).status == 200


async def test_a_set_says_what_is_served_and_how_urgent_it_is(tmp_path: Path) -> None:
    async with openai.running(["m", "n"]) as vllm:
        sets = process.model_set({"name": "m", "priority": 3})
        async with process.running(tmp_path, [_spec("v", vllm.url, modelSets=sets)]) as router:
            assert (await router.backend("v"))["models"] == ["m:latest"]
            assert (await _ask(router, model="n")).status == 404
            said = (await router.get("/router/explain?model=m&api=v1")).json()
            assert (said["priority"], said["verdict"]) == ("P3", "Dispatch")


async def test_it_is_never_reserved(tmp_path: Path) -> None:
    async with openai.running() as vllm, process.running(tmp_path, [_spec("v", vllm.url)]) as router:
        answer = await router.post("/router/announce", {"owner": "job", "model": "m"})
        assert answer.status == 503, answer.body


def test_a_url_with_v1_is_refused_with_the_remedy() -> None:
    text = json.dumps([{"name": "v", "engine": "OpenAI", "url": "http://vllm:8000/v1/"}])
    with pytest.raises(environment.Invalid) as caught:
        environment.read(text)
    assert caught.value.field == "GPU_BACKENDS[0].url"
    assert "without /v1" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("url", "ends"),
    [
        ("http://vllm:8000/v1", True),
        ("http://vllm:8000/v1//", True),
        ("https://gate.example.com/team/v1", True),
        ("http://[fd00::7]:8000/v1", True),
        ("http://v1/v1", True),
        ("http://vllm//v1", True),
        ("http://v1", False),
        ("http://v1/", False),
        ("http://v1:8000", False),
        ("http://gate.example.com/v1/team", False),
        ("http://gate.example.com/dev1", False),
    ],
)
def test_the_crd_and_the_setting_refuse_the_same_urls(url: str, ends: bool) -> None:
    rules = gpubackend.Spec.model_json_schema()["x-kubernetes-validations"]
    (rule,) = (one["rule"] for one in rules if "/v1" in one["message"])
    pattern = rule.partition("self.url.matches('")[2].removesuffix("')")
    # CEL's `matches` finds RE2 anywhere in the text, as Python's `search` does with what both understand.
    assert bool(re.search(pattern, url)) == ends
    try:
        environment.parse({"engine": "OpenAI", "url": url}, "spec")
        refused = False
    except environment.Invalid:
        refused = True
    assert refused == ends


async def test_an_ollama_that_is_called_openai_s_serves_v1(tmp_path: Path) -> None:
    with ollama.running(models=["m:latest"]) as gpu:
        async with process.running(tmp_path, [_spec("v", gpu.url)]) as router:
            assert _by(await _ask(router, model="m:latest")) == (200, "v")


async def test_a_server_of_the_other_engine_is_named_as_the_likely_cause(tmp_path: Path) -> None:
    async with openai.running() as vllm, process.running(tmp_path, [process.spec("v", vllm.url)]) as router:
        shown = await router.backend("v")
        assert (shown["healthy"], "spec.engine" in shown["reason"]) == (False, True)
