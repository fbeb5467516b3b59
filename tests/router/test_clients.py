"""Through the router or directly, all hear the same: ordinary clients as they are, and two thousand mixed requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import langchain_ollama
import ollama
import openai
import pytest

from bench.router import identity
from tests.fakes.ollama import process as simulator
from tests.router import process

_CHAT, _EMBED = "qwen2.5:7b", "qwen3-embedding:8b"
_MESSAGES = [{"role": "user", "content": "Say hello to the kůň 🐎."}]
_OPTIONS = {"seed": 7, "temperature": 0}


@pytest.fixture(name="server")
def _server() -> Iterator[simulator.Fake]:
    with simulator.running(models=[_CHAT, _EMBED], num_parallel=4) as fake:
        yield fake


@pytest.fixture(name="router")
async def _router(tmp_path: Path, server: simulator.Fake) -> AsyncIterator[process.Router]:
    async with process.running(tmp_path, [process.spec("gpu", server.url, numParallel=4)]) as router:
        yield router


async def test_ollama_python(router: process.Router, server: simulator.Fake) -> None:
    async def answers(url: str) -> list[Any]:
        async with ollama.AsyncClient(host=url, trust_env=False) as client:
            whole = await client.chat(model=_CHAT, messages=_MESSAGES, options=_OPTIONS)
            parts = await client.chat(model=_CHAT, messages=_MESSAGES, stream=True)
            streamed = [part.message.content async for part in parts]
            generated = await client.generate(model=_CHAT, prompt="hello", options=_OPTIONS)
            embedded = await client.embed(model=_EMBED, input=["one", "two"])
            shown = await client.show(_CHAT)
            listed = sorted(str(model.model) for model in (await client.list()).models)
            return [whole.message.content, streamed, generated.response, embedded.embeddings, shown.details, listed]

    through, direct = await answers(router.url), await answers(server.url)
    assert through == direct
    assert through[0]
    await router.until(lambda s: len(s["backends"][0]["loaded"]) == 2)
    async with ollama.AsyncClient(host=router.url, trust_env=False) as client:
        assert {model.model for model in (await client.ps()).models} == {_CHAT, _EMBED}
        with pytest.raises(ollama.ResponseError) as missing:
            await client.chat(model="nobody-has:this", messages=_MESSAGES)
        assert (missing.value.status_code, "nobody-has:this" in missing.value.error) == (404, True)


async def test_openai_python(router: process.Router, server: simulator.Fake) -> None:
    async def answers(url: str) -> list[Any]:
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="unused", max_retries=0) as client:
            messages: Any = _MESSAGES
            whole = await client.chat.completions.create(model=_CHAT, messages=messages, seed=7)
            stream = await client.chat.completions.create(model=_CHAT, messages=messages, stream=True)
            streamed = [part.choices[0].delta.content async for part in stream if part.choices]
            completed = await client.completions.create(model=_CHAT, prompt="hello")
            embedded = await client.embeddings.create(model=_EMBED, input=["one", "two"])
            listed = sorted([model.id async for model in client.models.list()])
            one = await client.models.retrieve(_CHAT)
            vectors = [item.embedding for item in embedded.data]
            return [whole.choices[0].message.content, streamed, completed.choices[0].text, vectors, listed, one.id]

    through, direct = await answers(router.url), await answers(server.url)
    assert through == direct
    assert through[0]
    async with openai.AsyncOpenAI(base_url=router.url + "/v1", api_key="unused", max_retries=0) as client:
        with pytest.raises(openai.NotFoundError, match="nobody-has:this"):
            await client.embeddings.create(model="nobody-has:this", input="x")


async def test_langchain_ollama(router: process.Router, server: simulator.Fake) -> None:
    async def answers(url: str) -> list[Any]:
        options: Any = {"trust_env": False}
        chat = langchain_ollama.ChatOllama(model=_CHAT, base_url=url, seed=7, temperature=0, client_kwargs=options)
        whole = await chat.ainvoke("hello")
        streamed = [part.content async for part in chat.astream("hello")]
        embeddings = langchain_ollama.OllamaEmbeddings(model=_EMBED, base_url=url, client_kwargs=options)
        vectors = await embeddings.aembed_documents(["one", "two"])
        for client in (chat._async_client, embeddings._async_client):  # they have no way to close them
            assert client is not None
            await client.close()  # type: ignore[no-untyped-call]  # it has no annotations
        return [whole.content, streamed, vectors]

    through, direct = await answers(router.url), await answers(server.url)
    assert through == direct
    assert through[0]


async def test_answers_and_requests_are_identical(tmp_path: Path) -> None:
    """bench/router runs 100,000."""
    backend = identity.Backend(2000)
    server = await asyncio.start_server(backend.accept, "127.0.0.1", 0, limit=1 << 24)
    port = server.sockets[0].getsockname()[1]
    try:
        specs = [process.spec("b", f"http://127.0.0.1:{port}")]
        async with process.running(tmp_path, specs, extra_paths='["/api/experimental"]') as router:
            assert await identity.compare(router.port, port, range(2000)) == []
            assert set(backend.bodies.values()) == {2}
            # Errors of every kind were among them, and none of them counted against what works.
            await router.until(
                lambda s: s["backends"][0]["circuit"] != "Open" and not s["backends"][0]["modelsFailing"]
            )
            assert await router.metric('jervis_router_backend_failures_total{backend="b",phase="first_byte"}') == 0
    finally:
        server.close()
        await backend.close()
