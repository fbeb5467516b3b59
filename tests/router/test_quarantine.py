"""A request that ends the runner of its model twice, alone there, is refused; every other crash stays as it was."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from crds.priority import Priority
from router import client
from router.backends import environment, verdict
from router.backends.book import Book, Observation
from router.client.schema import Wire
from router.priority import Level
from router.proxy import body, message, quarantine
from router.proxy.call import Call
from router.proxy.paths import Kind
from router.proxy.quarantine import Ending, Quarantine
from router.proxy.refusal import Refusal
from tests.fakes.ollama import process as fake
from tests.router import plans, process, wire

# Ollama 0.17.4, `llm/server.go`.
_STOPPED = (
    "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error, "
    "check ollama server logs for details"
)
_KILLER = {"prompt": "killer"}
_TWO = ("m:latest", "other:latest")


def _error(text: str, path: str) -> bytes:
    said: object = {"message": text, "type": "api_error"} if path.startswith("/v1/") else text
    return wire.plain(json.dumps({"error": said}).encode(), status="500 Internal Server Error")


def _reply(message: wire.Message) -> bytes:
    document = message.json()
    kills = document.get("prompt") == "killer" or document.get("messages") == "killer"
    return _error(_STOPPED, message.path) if kills else wire.plain(b"{}")


_dies = wire.replying(_reply)
"""The runner dies of `killer`; anything else is answered."""


async def _closes(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """What stands before the runner closes the connection when it dies."""
    kills = message.json().get("prompt") == "killer"
    if not kills:
        writer.write(wire.plain(b"{}"))
    return not kills


def _ask(router: process.Router, path: str = "/api/generate", **more: Any) -> Any:
    return router.post(path, {"model": "m"} | more)


async def _metric(router: process.Router, name: str) -> float:
    return await router.total(f"jervis_router_{name}")


async def test_it_goes_to_no_third_gpu_and_is_not_asked_for_again(tmp_path: Path) -> None:
    async with wire.backend(_dies) as first, wire.backend(_dies) as second, wire.backend(_dies) as third:
        backends = (first, second, third)
        specs = [process.spec(name, one.url) for name, one in zip("abc", backends, strict=True)]
        async with process.running(tmp_path, specs) as router:
            await router.until(lambda s: all(b["healthy"] for b in s["backends"]))
            for _ in range(5):
                answer = await _ask(router, **_KILLER)
                assert (answer.status, answer.header("X-Ollama-Router-Reason")) == (422, "CrashesRunner")
                assert "ended the runner of model 'm' 2 times" in answer.json()["error"]
                assert answer.header("X-Ollama-Router-Backend") is None
            assert sum(len(one.requests) for one in backends) == 2
            assert {one.requests[0].body for one in backends if one.requests} == {
                json.dumps({"model": "m", **_KILLER}).encode()
            }
            # A request that differs by a byte, and one of another API, are other requests.
            assert (await _ask(router, prompt="killed")).status == 200
            assert await _metric(router, "quarantine_refusals_total") == 5
            assert await _metric(router, "runner_crashes_total") == 2
            shown = (await router.status())["backends"]
            assert [(one["healthy"], one["modelsFailing"]) for one in shown] == [(True, [])] * 3


async def test_a_request_under_which_connections_break_is_refused_in_the_end(tmp_path: Path) -> None:
    """As the process of llama.cpp's server ends, which a supervisor starts again at once."""
    async with process.before(tmp_path, _closes, circuit_failures="50") as (router, backend):
        statuses = []
        for _ in range(8):
            statuses.append((await _ask(router, **_KILLER)).status)
            # Until a probe has left a connection that the next one may be sent on, which it may have found or made.
            answered = backend.probes
            while statuses[-1] == 502 and backend.probes == answered:
                await router.status()
        assert set(statuses[:2]) == {502}
        assert set(statuses[6:]) == {422}
        assert "the backends of model 'm' broke off" in (await _ask(router, **_KILLER)).json()["error"]
        # On a connection that a probe had used it is sent once more at once, which may make a seventh.
        assert 6 <= len(backend.requests) <= 7
        assert (await _ask(router, prompt="harmless")).status == 200


async def test_a_request_under_which_the_server_ends_is_refused_in_the_end(tmp_path: Path) -> None:
    """As a server that is its own runner, whose connections ended with it, and which takes a while to come back."""
    restarts: list[asyncio.Task[None]] = []

    async def restart() -> None:
        await router.until(lambda s: not s["backends"][0]["healthy"])
        backend.server = await asyncio.start_server(backend.accept, "127.0.0.1", backend.port)

    async def ends(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        assert backend.server is not None
        backend.server.close()
        for open_one in list(backend._writers):
            open_one.transport.abort()
        restarts.append(asyncio.create_task(restart()))
        return False

    async with process.before(tmp_path, ends, circuit_failures="50") as (router, backend):
        answer = await _ask(router, **_KILLER)
        assert (answer.status, answer.header("X-Ollama-Router-Reason")) == (422, "CrashesRunner")
        assert len(backend.requests) == 4
        assert await _metric(router, "runner_crashes_total") == 4
        await asyncio.gather(*restarts)
        assert backend.server is not None
        backend.server.close()


async def test_an_answer_acquits(tmp_path: Path) -> None:
    """A monitor's "ping" that met two accidents within the hour."""
    answers = itertools.cycle((_error(_STOPPED, "/api/generate"), wire.plain(b"{}")))
    async with process.before(tmp_path, wire.replying(lambda message: next(answers))) as (router, _):
        assert [(await _ask(router, prompt="ping")).status for _ in range(8)] == [500, 200] * 4


async def test_an_answer_of_another_backend_acquits(tmp_path: Path) -> None:
    opened = process.before_two(tmp_path, _dies, wire.answering(), specs=({"weight": 100}, {}))
    async with opened as (router, _, _):
        await router.until(lambda s: all(b["healthy"] for b in s["backends"]))
        assert [(await _ask(router, **_KILLER)).status for _ in range(3)] == [200] * 3


async def test_a_stream_that_ends_with_an_error_acquits_nobody(tmp_path: Path) -> None:
    """Ollama says so in a line when the runner ends after the first byte, and closes the stream properly."""
    line = json.dumps({"error": _STOPPED}, separators=(",", ":")).encode() + b"\n"
    late = wire.chunked_head() + wire.chunk(b'{"response":"a"}\n') + wire.chunk(line) + wire.chunk(b"")
    died = _error(_STOPPED, "/api/generate")
    answers = itertools.chain((died, late), itertools.repeat(died))
    async with process.before(tmp_path, wire.replying(lambda message: next(answers))) as (router, _):
        assert [(await _ask(router, **_KILLER)).status for _ in range(4)] == [500, 200, 422, 422]


@pytest.mark.parametrize("size", [0, 200_000])
async def test_a_schema_that_ends_a_runner_under_every_prompt_is_refused(tmp_path: Path, size: int) -> None:
    bad, good = ({"type": "string", "maxLength": length} for length in (2001, 20))

    def reply(message: wire.Message) -> bytes:
        return _error(_STOPPED, message.path) if message.json().get("format") == bad else wire.plain(b"{}")

    async def ask(number: int, **more: Any) -> int:
        status: int = (await _ask(router, prompt=f"document {number}" + "x" * size, **more)).status
        return status

    async with process.before(tmp_path, wire.replying(reply)) as (router, backend):
        for number in range(3):
            assert [await ask(number, format=bad) for _ in range(2)] == [500, 422]
            assert [await ask(number), await ask(number, format=good)] == [200, 200]
        sent = len(backend.requests)
        assert [await ask(number, format=bad) for number in range(3, 6)] == [503] * 3
        no = await _ask(router, prompt="another", format=bad)
        assert "whatever they ask" in no.json()["error"]
        assert (no.header("X-Ollama-Router-Reason"), no.header("Retry-After") is not None) == ("CrashesRunner", True)
        assert len(backend.requests) == sent
        assert [await ask(3), await ask(3, format=good)] == [200, 200]


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/chat/completions", {"error": {"type": "invalid_request_error", "param": None, "code": None}}),
        ("/v1/messages", {"type": "error", "error": {"type": "invalid_request_error", "param": None, "code": None}}),
    ],
)
async def test_the_refusal_has_the_shape_of_the_api(tmp_path: Path, path: str, shape: dict[str, Any]) -> None:
    async with process.before(tmp_path, _dies) as (router, backend):
        # With one GPU the first death is the backend's own answer, as it always was.
        answers = [await _ask(router, path, messages="killer") for _ in range(4)]
        assert [one.status for one in answers] == [500, 422, 422, 422]
        document = answers[-1].json()
        assert document["error"].pop("message").startswith("this request ended the runner of model 'm'")
        assert (document, len(backend.requests)) == (shape, 2)


async def test_a_stream_that_had_signs_of_life_ends_with_the_refusal(tmp_path: Path) -> None:
    gate = asyncio.Event()
    specs = [("Content-Type", "application/json"), ("X-Jervis-Progress", "true")]
    raw = wire.request("POST", "/api/generate", json.dumps({"model": "m", **_KILLER}).encode(), specs)
    slow = wire.gated(gate, _dies)
    opened = process.before_two(tmp_path, slow, _dies, specs=({"weight": 100}, {}), progress_seconds="0.2")
    async with opened as (router, first, second), wire.connected(router.port) as (reader, writer):
        await router.until(lambda s: all(b["healthy"] for b in s["backends"]))
        writer.write(raw)
        await reader.readuntil(b'"done":false')
        gate.set()
        rest = await reader.read()
        assert b"ended the runner of model" in rest
        assert (len(first.requests), len(second.requests)) == (1, 1)


@pytest.mark.parametrize("victims", ["m", "other"])
async def test_companions_of_a_killer_are_not_blamed(tmp_path: Path, victims: str) -> None:
    """All that run in a runner end with it, and it is not known whose doing that was. Two names may stand for one
    runner: Ollama keeps one for each file, which `ollama cp` and `FROM` share."""

    def ask(word: str) -> asyncio.Task[wire.Message]:
        model = victims if word == "victim" else "m"
        return asyncio.create_task(_ask(router, prompt=word, model=model))

    gate = asyncio.Event()
    together = wire.gated(gate, wire.answering(_error(_STOPPED, "/api/generate")))
    async with process.before(tmp_path, together, models=_TWO, spec={"numParallel": 2}) as (router, backend):
        tasks = [ask(word) for word in ("killer", "victim")]
        await router.until(lambda s: s["backends"][0]["inFlight"] == 2)
        gate.set()
        assert [(await task).status for task in tasks] == [500, 500]
        assert await _metric(router, 'runner_crashes_total{alone="no"') == 2
        # From now on there is one at a time, so that the one which ends it again is known.
        backend.script = _dies
        mixed = [ask(word) for word in ("killer", "victim") * 3]
        assert sorted([(await task).status for task in mixed]) == [200, 200, 200, 422, 422, 500]
        assert await _metric(router, 'runner_crashes_total{alone="no"') == 2


async def test_what_waits_for_the_same_slot_is_refused_too(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with process.before(tmp_path, wire.gated(gate, _dies), spec={"numParallel": 1}) as (router, backend):
        tasks = [asyncio.create_task(_ask(router, **_KILLER)) for _ in range(6)]
        await router.until(lambda s: s["queue"]["waiting"] == 5)
        gate.set()
        assert sorted([(await task).status for task in tasks]) == [422] * 5 + [500]
        assert len(backend.requests) == 2
        assert (await _ask(router, prompt="another")).status == 200
        await router.until(lambda s: s["backends"][0]["inFlight"] == 0)


async def test_large_bodies_and_other_models(tmp_path: Path) -> None:
    large = {"prompt": "killer", "context": "x" * 200_000}
    async with process.before(tmp_path, _dies, models=_TWO) as (router, _):
        assert [(await _ask(router, **large)).status for _ in range(3)] == [500, 422, 422]
        assert (await _ask(router, prompt="harmless", context="x" * 199_998)).status == 200
        # The same words to another model are another request.
        other = wire.post("/api/generate", {"model": "other", **_KILLER})
        assert (await router.send(other)).status == 500


@pytest.mark.parametrize(
    "text",
    [
        "llama runner process has terminated: exit status 2",
        "llama runner process no longer running: -1 ",
        "llama runner process has terminated: cudaMalloc failed: out of memory",
        "timed out waiting for llama runner to start - progress 0.00 - ",
        "something else went wrong",
    ],
)
async def test_a_runner_that_had_not_seen_the_request_is_the_model_s_failure(tmp_path: Path, text: str) -> None:
    settings = {"restart_grace_seconds": "0", "circuit_pause_seconds": "300"}
    async with process.before(tmp_path, wire.answering(_error(text, "/api/generate")), **settings) as (router, _):
        assert [(await _ask(router, **_KILLER)).status for _ in range(6)] == [500] * 5 + [503]
        assert await _metric(router, "runner_crashes_total") == 0


async def test_it_can_be_turned_off(tmp_path: Path) -> None:
    async with process.before(tmp_path, _dies, quarantine_seconds="0") as (router, backend):
        assert [(await _ask(router, **_KILLER)).status for _ in range(4)] == [500] * 4
        assert len(backend.requests) == 4


@pytest.mark.parametrize(
    "text",
    [
        _STOPPED,
        'POST predict: Post "http://127.0.0.1:36457/completion": EOF',
        'POST predict: Post "http://127.0.0.1:36457/completion": read tcp 127.0.0.1:1->127.0.0.1:2: read: '
        "connection reset by peer",
        'do embedding request: Post "http://127.0.0.1:36457/embedding": EOF',
        "an error was encountered while running the model: unexpected EOF",
        "an error was encountered while running the model: CUDA error: an illegal memory access was encountered",
        "error reading llm response: read tcp 127.0.0.1:1->127.0.0.1:2: wsarecv: An existing connection was forcibly "
        "closed by the remote host.",
    ],
)
def test_ollama_s_words_for_a_runner_that_ended(text: str) -> None:
    for path in ("/api/chat", "/v1/chat/completions"):
        body = _error(text, path).partition(b"\r\n\r\n")[2]
        assert verdict.crashed(body)
        assert verdict.of(500, body, model=True) is verdict.Verdict.MODEL_FAILED


@pytest.mark.parametrize(
    "text",
    [
        f"error parsing tool call: raw='{_STOPPED}', err=invalid character 'm'",
        f"tool: {_STOPPED}",
        "tool: an error was encountered while running the model: unexpected EOF",
        'tool: POST predict: Post "http://127.0.0.1:36457/completion": EOF',
    ],
)
def test_words_that_are_only_quoted_are_no_death(text: str) -> None:
    assert not verdict.crashed(json.dumps({"error": text}).encode())


async def test_our_own_client_learns_that_it_is_for_good(tmp_path: Path) -> None:
    """With two GPUs it is told at once; a runner's other requests, of other clients, end with it twice and no more."""
    schema = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 2001}}}
    crash = [{"match": {"body": '"maxLength": 2001'}, "crash": {}}]
    with fake.running(models=["m"]) as first, fake.running(models=["m"]) as second:
        for one in (first, second):
            one.set_faults(crash)
        specs = [process.spec("a", first.url), process.spec("b", second.url)]
        async with (
            process.running(tmp_path, specs) as router,
            httpx.AsyncClient(transport=client.few(), timeout=60) as http,
        ):
            await router.until(lambda s: all(b["healthy"] for b in s["backends"]))
            asks = client.Client(router.url, http)
            messages = [{"role": "user", "content": "x"}]
            for _ in range(3):
                with pytest.raises(client.Rejected, match="maxLength"):
                    await asks.chat("m", messages, Priority.P1, format_schema=Wire(schema))
            assert await asks.chat("m", messages, Priority.P1)
        crashes = [one.state()["runner"].get("crashed", 0) for one in (first, second)]
        assert crashes == [1, 1]


async def test_two_killers_that_always_come_together_are_both_found(tmp_path: Path) -> None:
    """As the knowledge base asks for hints and facts of a document side by side, among requests that are answered."""
    crash = [{"match": {"body": "killer"}, "crash": {}}]
    settings = {"circuit_pause_seconds": "0.1", "restart_grace_seconds": "60"}
    with fake.running(models=["m"], num_parallel=2) as one:
        one.set_faults(crash)
        async with process.running(tmp_path, [process.spec("a", one.url, numParallel=2)], **settings) as router:

            async def again(word: str) -> int:
                """A client that comes again after any 5xx; how many times it asked."""
                for times in range(1, 20):
                    answer = await _ask(router, prompt=f"killer {word}")
                    if answer.status == 422:
                        return times
                    assert answer.status in (500, 503)
                    await _ask(router, prompt=f"harmless {word}")
                return 0

            asked = await asyncio.gather(again("one"), again("two"))
            # Once in company, and twice alone.
            assert all(2 <= times <= 4 for times in asked), asked
            assert one.state()["runner"]["crashed"] <= 6


# The book.


def _call(text: bytes, model: str = "m") -> Call:
    request = message.Request(None, b"POST", b"/api/chat", b"", {})  # type: ignore[arg-type]  # no client is needed
    request.body = text
    return Call(request, "/api/chat", Kind.INFERENCE, "id", model, f"{model}:latest", Level.P0, True, 0.0)


async def _said(book: Quarantine, call: Call) -> tuple[int, int | None]:
    """The status and the seconds until the next trial, where it names any."""
    try:
        await book.check(call)
    except Refusal as no:
        return (no.status, no.retry_after) if no.reason == "CrashesRunner" else (0, None)
    return 200, None


async def _refused(book: Quarantine, call: Call) -> bool:
    return (await _said(book, call))[0] != 200


async def test_it_is_remembered_for_a_while_after_the_last_death_alone() -> None:
    now = 0.0
    book = Quarantine(seconds=100, now=lambda: now)
    call = _call(b"killer")
    assert await book.died(call, Ending.RUNNER, "said") is None
    assert not await _refused(book, call)
    now = 99.0
    assert await book.died(call, Ending.RUNNER, "said") is not None
    for now in (100.0, 198.9):  # noqa: B007  # the clock
        assert (await _said(book, call), book.count("m:latest")) == ((422, None), 1)
    assert not await _refused(book, _call(b"KILLER"))
    now = 199.0
    assert (await _refused(book, call), book.count("m:latest")) == (False, 0)
    assert not book.suspects("m:latest", 6)
    # Nothing is left of the deaths before.
    assert await book.died(call, Ending.RUNNER, "said") is None


@pytest.mark.parametrize(("ending", "enough"), [(Ending.RUNNER, 2), (Ending.SERVER, 4), (Ending.CONNECTION, 6)])
async def test_what_may_be_a_restart_or_a_proxy_takes_more_deaths(ending: Ending, enough: int) -> None:
    book = Quarantine(seconds=100, now=lambda: 0.0)
    call = _call(b"killer")
    deaths = [await book.died(call, ending, "") is not None for _ in range(enough)]
    assert deaths == [False] * (enough - 1) + [True]


async def test_the_book_is_bounded_for_each_model() -> None:
    book = Quarantine(seconds=100, now=lambda: 0.0)
    rare = _call(b"killer", "rare")
    for _ in range(2):
        await book.died(rare, Ending.RUNNER, "")
    for number in range(quarantine.MOST + 1):
        for _ in range(2):
            await book.died(_call(b"%06d" % number), Ending.RUNNER, "")
    assert (book.count("m:latest"), book.count("rare:latest")) == (quarantine.MOST, 1)
    assert not await _refused(book, _call(b"000000"))
    assert await _refused(book, _call(b"000001"))


async def _answered(book: Quarantine, call: Call) -> None:
    await book.check(call)
    book.answered(call)


_BAD = b'{"prompt": "%d", "format": {"maxLength": 2001}}'
_FREE = _call(b'{"prompt": "x"}')


async def test_a_schema_is_refused_after_three_times_the_deaths_of_a_request() -> None:
    """Under however many prompts, and only if the model answers others."""
    book = Quarantine(seconds=100, now=lambda: 0.0)
    deaths = [await book.died(_call(_BAD % number), Ending.RUNNER, "") for number in range(6)]
    assert deaths == [None] * 6
    # As far as is known, the model dies of everything.
    assert not await _refused(book, _call(_BAD % 6))
    await _answered(book, _FREE)
    assert await _refused(book, _call(_BAD % 6))
    assert await _refused(book, _call(b'{"FORMAT": {"maxLength": 2001}, "messages": []}'))
    assert not await _refused(book, _call(b'{"prompt": "6", "format": {"maxLength": 2000}}'))
    assert not await _refused(book, _call(_BAD % 6, "other"))
    assert book.count("m:latest") == 1


async def test_an_answer_with_the_same_schema_acquits_it() -> None:
    book = Quarantine(seconds=100, now=lambda: 0.0)
    await _answered(book, _FREE)
    for number in range(20):
        assert await book.died(_call(_BAD % number), Ending.RUNNER, "") is None
        await _answered(book, _FREE)
        if number % 5 == 4:
            await _answered(book, _call(_BAD % 100))


async def _guilty(now: Callable[[], float]) -> Quarantine:
    """A book in which the form of `_BAD` has just been found guilty."""
    book = Quarantine(seconds=3600, now=now)
    for number in range(6):
        await book.died(_call(_BAD % number), Ending.RUNNER, "")
    await _answered(book, _FREE)
    return book


async def test_a_schema_is_tried_again_after_pauses_that_double() -> None:
    """Its clients come again, until it has killed in three trials more: one that asks then is not to ask for ever."""
    now = 0.0
    book = await _guilty(lambda: now)
    other, told, pauses = _call(_BAD % 1), [], []
    for number in range(100, 106):
        died, trial = now, _call(_BAD % number)
        told.append(await _said(book, other))
        while await _refused(book, trial):
            now += 10
        pauses.append(now - died)
        assert await _refused(book, other)
        assert await book.died(trial, Ending.RUNNER, "") is not None
    assert pauses == [60, 120, 240, 480, 960, 1920]
    assert told == [(503, 60), (503, 120), (503, 240), (422, None), (422, None), (422, None)]


async def test_an_answer_to_a_trial_acquits_the_schema() -> None:
    now = 0.0
    book = await _guilty(lambda: now)
    innocent, killer = _call(_BAD % 100), _call(_BAD % 0)
    await book.died(killer, Ending.RUNNER, "")
    now = 60.0
    # Its own two deaths are enough to refuse a request, and it takes nobody's trial.
    assert await _said(book, killer) == (422, None)
    await _answered(book, innocent)
    assert await _said(book, _call(_BAD % 101)) == (200, None)
    assert await _said(book, killer) == (422, None)


async def test_a_trial_that_waits_for_its_slot_is_still_one() -> None:
    now = 0.0
    book = await _guilty(lambda: now)
    first, second = _call(_BAD % 100), _call(_BAD % 101)
    now = 60.0
    assert await _said(book, first) == (200, None)
    now = 170.0
    assert (await _said(book, first), await _said(book, second)) == ((200, None), (503, 10))
    # No answer and no death came of it: the next one is a trial, too, and ends a runner.
    now = 180.0
    assert await _said(book, second) == (200, None)
    await book.died(second, Ending.RUNNER, "")
    assert await _said(book, first) == (503, 240)


async def test_deaths_before_the_model_answered_others_are_no_trials() -> None:
    book = Quarantine(seconds=3600, now=lambda: 0.0)
    for number in range(20):
        assert await book.died(_call(_BAD % number), Ending.RUNNER, "") is None
    await _answered(book, _FREE)
    assert await _said(book, _call(_BAD % 100)) == (503, 60)


_SPACED = b'{"FORMAT" : {"maxLength":\n 2001}, "format": "json", "text": "x", "prompt": "%s"}'


def test_spacing_and_size_make_no_other_form(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = b'"\xff": 1, "pattern": "\\ud800", "minimum": 123456789012345678901234567890'
    asks = [_BAD % 1, _SPACED % b"", _SPACED % (b"x" * body.SMALL), b'{"format": 1, "format": {"maxLength" : 2001}}']
    assert {body.form(one) for one in asks} == {b'format:{"maxLength":2001},'}
    for value in (b"{%s}" % odd, b"[" * 300 + b"]" * 300, b'[{"a" : "\\u0061"}]'):
        small, large = (b'{"tools": %s, "prompt": "%s"}' % (value, b"x" * size) for size in (1, body.SMALL))
        assert body.form(small) == body.form(large) != b""
    # A value that is large itself is not decoded, which would take many times its memory.
    whole = b'["%s" ]' % (b"x" * body.SMALL)
    assert body.form(b'{"tools": %s}' % whole) == b"tools:%s," % whole
    # A scan in Python takes a fifth of a second for ten thousand members, on the event loop.
    monkeypatch.setattr(body, "Scanner", None)
    many = b",".join(b'"%d":0' % number for number in range(6000))
    assert body.form(b'{%s,"format":{"maxLength" :2001}}' % many) == b'format:{"maxLength":2001},'


@pytest.mark.parametrize(
    "name", ["json_schema", "grammar", "structured_outputs", "guided_json", "guided_regex", "guided_grammar"]
)
def test_forms_of_llama_cpp_and_vllm(name: str) -> None:
    for value in (b'{"maxLength":2001}', b'"root ::= \\"a\\""'):
        assert body.form(b'{"prompt": "x", "%s": %s}' % (name.encode(), value)) == b"%s:%s," % (name.encode(), value)
    assert body.form(b'{"guided_choice": ["a"]}') == b'guided_choice:["a"],'
    for value in (b'""', b"null", b"1", b"{}"):
        assert body.form(b'{"%s": %s}' % (name.encode(), value)) == b""


@pytest.mark.parametrize("form", ["null", '"json"', "[]", "{}"])
async def test_what_asks_for_no_schema_has_none_that_could_be_refused(form: str) -> None:
    book = Quarantine(seconds=100, now=lambda: 0.0)
    for number in range(20):
        body = f'{{"prompt": {number}, "format": {form}, "tools": []}}'
        assert await book.died(_call(body.encode()), Ending.RUNNER, "") is None
        await _answered(book, _FREE)


def test_crashes_all_day_make_a_backend_wary_for_ten_minutes_of_an_hour() -> None:
    """As one client does that sends other bytes each time, to the cost of all others."""
    now = 0.0
    backends = Book(now=lambda: now)
    backends.put("b", environment.parse({"url": "http://127.0.0.1:9", "kind": "GPU", "numParallel": 4}, "b"))
    entry = backends.find("b")
    assert entry is not None
    wary = []
    for now in map(float, range(0, 86_400, 10)):
        backends.observed(entry, Observation(True))
        if now % 120 == 0:
            backends.crashed("b")
        [view] = backends.views()
        wary.append(view.max_in_flight == 1)
    assert [sum(wary[hour : hour + 360]) for hour in range(0, len(wary), 360)] == [60] * 24
    # A crash after a quiet time is answered as ever.
    now += 7200
    backends.observed(entry, Observation(True))
    backends.crashed("b")
    assert entry.wary_until == now + 120


def test_alone_is_for_the_whole_time_on_the_backend() -> None:
    plan = plans.plan(plans.gpu("a", num_parallel=3, models=frozenset(_TWO)))
    first, second, third = (
        plans.ask(number, Level.P1, model) for number, model in enumerate(("m:latest", "other:latest", "m:latest"), 1)
    )
    plan.offered(first, 0.0)
    assert (plan.alone(1), plan.alone(9)) == (True, False)
    plan.offered(second, 0.0)
    assert (plan.alone(1), plan.alone(2)) == (False, False)
    plan.released(2, 1.0)
    # The other one is gone, but it may have gone with the runner.
    assert not plan.alone(1)
    plan.released(1, 2.0)
    plan.offered(third, 3.0)
    assert plan.alone(3)
