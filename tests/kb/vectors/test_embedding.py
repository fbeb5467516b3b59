"""Texts of many callers travel together, urgent ones at once, and every caller gets its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import httpx
import pytest

from crds.priority import Priority
from kb import errors, metrics
from kb.vectors import embedding
from router import client as router_client

Answer = Callable[[list[str], str], Awaitable[httpx.Response]]


def vectors(texts: list[str]) -> httpx.Response:
    return httpx.Response(200, json={"embeddings": [[float(len(text)), 1.0] for text in texts]})


def embedder(
    answer: Answer, meters: metrics.Metrics, *, parallel: int = 1, window: int = 512, prefix: str = ""
) -> embedding.Embedder:
    """Over a router whose wire is `answer`, called with the texts and the priority of a request."""

    async def handle(request: httpx.Request) -> httpx.Response:
        assert json.loads(request.content)["truncate"] is False
        return await answer(json.loads(request.content)["input"], request.headers["X-Ollama-Priority"])

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    router = router_client.Client("http://router", http)
    return embedding.Embedder(router, embedding.Model("m", prefix, window), meters, parallel=parallel)


async def test_callers_that_wait_travel_together(meters: metrics.Metrics) -> None:
    sizes: list[int] = []

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        sizes.append(len(texts))
        return vectors(texts)

    made = embedder(answer, meters)
    asked = [["x" * (caller + 1)] * 10 for caller in range(5)]
    found = await asyncio.gather(*(made.embed(texts, Priority.P3) for texts in asked))
    assert sizes == [10, 32, 8]
    assert found == [[[caller + 1.0, 1.0]] * 10 for caller in range(5)]
    assert meters.registry.get_sample_value("jervis_kb_embedded_texts_total") == 50


async def test_an_urgent_caller_waits_for_no_slot(meters: metrics.Metrics) -> None:
    gate = asyncio.Event()

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        if priority == "3":
            await gate.wait()
        return vectors(texts)

    made = embedder(answer, meters)
    bulk = asyncio.create_task(made.embed(["bulk"] * 100, Priority.P3))
    await asyncio.sleep(0)
    assert await made.embed(["question"], Priority.P1) == [[8.0, 1.0]]
    assert not bulk.done()
    gate.set()
    assert len(await bulk) == 100


async def test_a_failure_reaches_those_who_travelled_and_nobody_else(meters: metrics.Metrics) -> None:
    asked: list[int] = []

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        asked.append(len(texts))
        return httpx.Response(503, json={"error": "busy"}) if len(asked) == 1 else vectors(texts)

    made = embedder(answer, meters)
    first, second = await asyncio.gather(
        made.embed(["a"], Priority.P3), made.embed(["bb"], Priority.P3), return_exceptions=True
    )
    assert isinstance(first, router_client.Unavailable)
    assert second == [[2.0, 1.0]]


async def test_what_nobody_waits_for_is_not_sent(meters: metrics.Metrics) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    asked: list[list[str]] = []

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        asked.append(texts)
        begun.set()
        await gate.wait()
        return vectors(texts)

    made = embedder(answer, meters)
    first = asyncio.create_task(made.embed(["a"], Priority.P3))
    gone = asyncio.create_task(made.embed(["b"], Priority.P3))
    last = asyncio.create_task(made.embed(["c"], Priority.P3))
    await begun.wait()
    gone.cancel()
    gate.set()
    await asyncio.gather(first, last)
    assert asked == [["a"], ["c"]]


async def test_a_model_that_gives_no_vectors_is_named(meters: metrics.Metrics) -> None:
    async def answer(texts: list[str], priority: str) -> httpx.Response:
        return httpx.Response(200, json={"embeddings": [[] for _ in texts]})

    with pytest.raises(errors.Unconfigured, match="dimensions"):
        await embedder(answer, meters).embed(["a"], Priority.P3)


def without_numbers(of: str, asked: list[list[str]]) -> Answer:
    """A server that fails a whole request for a text with `of` in it, as Ollama does."""

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        asked.append(texts)
        if any(of in text for text in texts):
            return httpx.Response(500, json={"error": "failed to encode response: json: unsupported value: NaN"})
        return vectors(texts)

    return answer


async def test_a_text_without_numbers_fails_its_own_caller_alone(meters: metrics.Metrics) -> None:
    asked: list[list[str]] = []
    made = embedder(without_numbers("bad", asked), meters)
    found = await asyncio.gather(
        *(made.embed(texts, Priority.P3) for texts in (["first"] * 2, ["a", "bb"], ["bad", "c"], ["dd", "eeee"])),
        return_exceptions=True,
    )
    assert asked[:2] == [["first"] * 2, ["a", "bb", "bad", "c", "dd", "eeee"]]
    assert [found[at] for at in (0, 1, 3)] == [[[5.0, 1.0]] * 2, [[1.0, 1.0], [2.0, 1.0]], [[2.0, 1.0], [4.0, 1.0]]]
    assert isinstance(found[2], router_client.NoNumber)
    assert meters.registry.get_sample_value("jervis_kb_embedded_texts_total") == 7


async def test_a_text_that_is_refused_fails_its_own_caller_alone(meters: metrics.Metrics) -> None:
    asked: list[list[str]] = []

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        asked.append(texts)
        if "poison" in texts:
            return httpx.Response(422, json={"error": "it ended the model's runner twice"})
        return vectors(texts)

    made = embedder(answer, meters)
    ended = await asyncio.gather(
        *(made.embed(texts, Priority.P3) for texts in (["first"], ["a"], ["poison", "bb"], ["ccc"])),
        return_exceptions=True,
    )
    assert [ended[at] for at in (1, 3)] == [[[1.0, 1.0]], [[3.0, 1.0]]]
    assert isinstance(ended[2], router_client.Rejected)
    _, together, *singly = asked
    assert sorted(together) == ["a", "bb", "ccc", "poison"]
    assert singly == [[text] for text in together]


async def test_a_text_has_no_numbers_where_a_half_of_it_has_none(meters: metrics.Metrics) -> None:
    asked: list[list[str]] = []
    broken, short = without_numbers("w63", asked), reads(20, [])

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        said = await short(texts, priority)
        return said if said.status_code == 400 else await broken(texts, priority)

    found = await asyncio.gather(
        *(embedder(answer, meters, window=100_000).embed([text], Priority.P3) for text in (words(64), words(60))),
        return_exceptions=True,
    )
    assert isinstance(found[0], router_client.NoNumber)
    assert isinstance(found[1], list)


async def test_halves_with_vectors_of_several_lengths_are_the_model_s_fault(meters: metrics.Metrics) -> None:
    short = reads(40, [])

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        said = await short(texts, priority)
        if said.status_code == 400:
            return said
        return httpx.Response(200, json={"embeddings": [[1.0] * (2 if "w0 " in text else 3) for text in texts]})

    with pytest.raises(errors.Unconfigured, match=r"\[2, 3\] dimensions"):
        await embedder(answer, meters, window=100_000).embed([words(64)], Priority.P3)


async def test_others_have_their_turn_between_two_texts(meters: metrics.Metrics) -> None:
    turns = 0

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        assert turns >= 100
        return vectors(texts)

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    await embedder(answer, meters).embed(["x"] * 100, Priority.P3)
    running.cancel()


def words(number: int) -> str:
    return " ".join(f"w{at}" for at in range(number))


async def test_a_text_longer_than_the_window_is_embedded_in_pieces(meters: metrics.Metrics) -> None:
    asked: list[str] = []

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        asked.extend(texts)
        return httpx.Response(200, json={"embeddings": [[3.0, 0.0] if "w0 " in text else [0.0, 5.0] for text in texts]})

    long = words(60)
    vectors = await embedder(answer, meters, window=128, prefix="passage: ").embed(["short", long], Priority.P3)
    pieces = [text.removeprefix("passage: ") for text in asked]
    assert pieces[0] == "short"
    assert len(pieces) == 3
    assert " ".join(pieces[1:]) == long
    assert all(text.startswith("passage: ") for text in asked)
    assert vectors[0] == [0.0, 5.0]
    assert vectors[1] == pytest.approx([2**-0.5, 2**-0.5])
    assert meters.registry.get_sample_value("jervis_kb_embedded_in_pieces_total", {"by": "window"}) == 1


def reads(tokens: int, asked: list[int]) -> Answer:
    """A server that refuses what has more words than `tokens`, as Ollama does, the whole request."""

    async def answer(texts: list[str], priority: str) -> httpx.Response:
        asked.append(len(texts))
        if any(len(text.split()) > tokens for text in texts):
            return httpx.Response(400, json={"error": "the input length exceeds the context length"})
        return vectors(texts)

    return answer


async def test_what_the_server_refuses_as_too_long_is_halved_until_it_fits(meters: metrics.Metrics) -> None:
    asked: list[int] = []
    made = embedder(reads(20, asked), meters, window=100_000, prefix="passage: ")
    found = await made.embed(["a", "b", words(64), "c"], Priority.P3)
    assert [found[0], found[1], found[3]] == [[10.0, 1.0]] * 3
    assert len(found[2]) == 2
    # Four together; two and two; one and one; and of the long one two halves, each in two.
    assert asked == [4, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    assert meters.registry.get_sample_value("jervis_kb_embedded_in_pieces_total", {"by": "server"}) == 3


@pytest.mark.parametrize("text", ["a" * 40, " " * 5000, "a b " * 500])
async def test_a_server_that_refuses_everything_is_named_and_not_asked_for_ever(
    text: str, meters: metrics.Metrics
) -> None:
    asked: list[int] = []
    with pytest.raises(errors.Unconfigured, match="takes no text of"):
        await embedder(reads(-1, asked), meters, window=100_000).embed([text], Priority.P3)
    assert len(asked) <= 8


async def test_a_window_that_was_refused_for_the_token_is_asked_for_again(meters: metrics.Metrics) -> None:
    known = iter([401, 200])
    sizes: list[int] = []

    async def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/show":
            info = {"general.architecture": "bert", "bert.context_length": 32_768}
            return httpx.Response(next(known), json={"model_info": info})
        texts = json.loads(request.content)["input"]
        sizes.append(len(texts))
        return vectors(texts)

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    made = embedding.Embedder(router_client.Client("http://router", http), "m", meters)
    for _ in range(2):
        await made.embed([words(1_000)], Priority.P3)
    assert sizes[0] > 1
    assert sizes[1:] == [1]


async def test_the_server_is_asked_for_its_window_once(meters: metrics.Metrics) -> None:
    shown: list[str] = []
    sizes: list[int] = []

    async def handle(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if request.url.path == "/api/show":
            shown.append(body["model"])
            info = {"general.architecture": "bert", "bert.context_length": 512}
            return httpx.Response(200, json={"model_info": info, "parameters": "stop x\nnum_ctx     256"})
        sizes.append(len(body["input"]))
        return vectors(body["input"])

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    made = embedding.Embedder(router_client.Client("http://router", http), "m", meters)
    for _ in range(2):
        await made.embed([words(120)], Priority.P3)
    assert shown == ["m"]
    assert sizes == [2, 2]


def test_a_prefix_of_passages_has_an_index_of_its_own() -> None:
    plain, prefixed = embedding.Model("e5"), embedding.Model("e5", "passage: ", 512)
    assert (plain.identity, embedding.Model("e5", window=256).identity) == ("e5", "e5")
    assert prefixed.identity == "e5 after 'passage: '"


async def test_a_question_has_no_prefix_of_passages(meters: metrics.Metrics) -> None:
    asked: list[str] = []

    async def handle(request: httpx.Request) -> httpx.Response:
        asked.extend(json.loads(request.content)["input"])
        return vectors(asked[-1:])

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    router = router_client.Client("http://router", http)
    for prefixed in (True, False):
        made = embedding.Embedder(router, embedding.Model("m", "passage: ", 512), meters, prefixed=prefixed)
        await made.embed(["who?"], Priority.P1)
    assert asked == ["passage: who?", "who?"]
