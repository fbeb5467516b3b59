"""What a token may use: models, tokens a day; and what of it was used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crds import errors
from router.proxy import counts, summary
from router.usage import OTHERS, Count, Counts, Sync, Usage
from tests import waiting
from tests.kb.clock import Clock
from tests.router import process, wire

if TYPE_CHECKING:
    from kubernetes import client

_ALICE, _BOB, _ADMIN = "alice-alice-alice", "bob-bob-bob-bob-bob", "admin-admin-admin"
_MODELS = ("small:latest", "big:7b", "big:14b", "other:latest")
_END = b'{"done":true,"prompt_eval_count":30,"eval_count":12}'


def _tokens(directory: Path, **alice: Any) -> str:
    entries = [
        {"name": "alice", "token": _ALICE, **alice},
        {"name": "bob", "token": _BOB},
        {"name": "admin", "token": _ADMIN, "admin": True},
    ]
    return process.tokens(directory, *entries)


@asynccontextmanager
async def _router(directory: Path, alice: Mapping[str, Any], **settings: str) -> AsyncIterator[process.Router]:
    async with process.before(
        directory, wire.answering(wire.plain(_END)), models=_MODELS, tokens_file=_tokens(directory, **alice), **settings
    ) as (router, _):
        yield router


async def _ask(router: process.Router, token: str, path: str, body: Any = None) -> wire.Message:
    raw = (
        wire.request("GET", path, headers=wire.bearer(token))
        if body is None
        else wire.post(path, body, wire.bearer(token))
    )
    return await router.send(raw)


async def test_a_token_opens_the_models_that_it_names(tmp_path: Path) -> None:
    async with _router(tmp_path, {"models": ["small", "big:*"]}) as router:
        for model, status in (("small", 200), ("Small:latest", 200), ("big:14b", 200), ("other", 403), ("none", 403)):
            for path in ("/api/chat", "/v1/chat/completions", "/api/embed", "/api/show"):
                answer = await _ask(router, _ALICE, path, {"model": model})
                assert answer.status == status, (model, path)
        refused = await _ask(router, _ALICE, "/api/chat", {"model": "other"})
        assert "other" in refused.json()["error"]
        assert "big:*" in refused.json()["error"]
        assert refused.header("X-Ollama-Router-Reason") == "ModelNotAllowed"
        refused = await _ask(router, _ALICE, "/v1/embeddings", {"model": "other", "input": "x" * 100_000})
        assert (refused.status, refused.json()["error"]["type"]) == (403, "permission_error")
        assert (await _ask(router, _BOB, "/api/chat", {"model": "other"})).status == 200
        # A question whose model is in the path or cannot be read is no way around it.
        assert (await _ask(router, _ALICE, "/v1/models/other")).status == 403
        assert (await _ask(router, _ALICE, "/v1/models/big:7b")).status == 200
        sneaky = wire.request("GET", "/v1/models/other", b'{"model":"small"}', wire.bearer(_ALICE))
        assert (await router.send(sneaky)).status == 403
        hidden = wire.request(
            "POST", "/api/show", b"\x28\xb5\x2f\xfd", [*wire.bearer(_ALICE), ("Content-Encoding", "zstd")]
        )
        assert (await router.send(hidden)).status == 403


async def test_a_token_is_shown_what_it_opens(tmp_path: Path) -> None:
    async with _router(tmp_path, {"models": ["small", "big:*"]}) as router:
        for token, shown in ((_ALICE, {"small:latest", "big:7b", "big:14b"}), (_BOB, set(_MODELS))):
            tags = (await _ask(router, token, "/api/tags")).json()["models"]
            assert {model["name"] for model in tags} == shown
            listed = (await _ask(router, token, "/v1/models")).json()["data"]
            assert {model["id"] for model in listed} == shown


async def test_a_model_that_a_token_does_not_open_is_not_explained_and_not_announced(tmp_path: Path) -> None:
    async with _router(tmp_path, {"models": ["small"]}) as router:
        assert (await _ask(router, _ALICE, "/router/explain?model=small")).status == 200
        for answer in (
            await _ask(router, _ALICE, "/router/explain?model=other"),
            await _ask(router, _ALICE, "/router/announce", {"owner": "a", "model": "other"}),
            await _ask(router, _ALICE, "/router/announce", {"owner": "a"}),
        ):
            assert (answer.status, answer.header("X-Ollama-Router-Reason")) == (403, "ModelNotAllowed")


@pytest.mark.parametrize(("gap", "most"), [(0.0, 99), (0.05, 99), (0.002, 1)])
async def test_counts_are_read_however_the_end_of_a_stream_is_cut(tmp_path: Path, gap: float, most: int) -> None:
    """`gap` seconds between pieces of at most `most` bytes."""

    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(wire.chunked_head("text/event-stream"))
        usage = b'data: {"choices":[],"usage":{"prompt_tokens":500,"completion_tokens":300}}\n\n'
        whole = (usage, b"data: [DONE]\n\n", b": bye\n\n")
        for piece in (one[at : at + most] for one in whole for at in range(0, len(one), most)):
            writer.write(wire.chunk(piece))
            await writer.drain()
            await asyncio.sleep(gap)
        writer.write(wire.chunk(b""))
        return True

    opened = process.before(tmp_path, script, models=_MODELS, tokens_file=_tokens(tmp_path, tokensPerDay=700))
    async with opened as (router, _):
        body = {"model": "small", "stream": True, "messages": []}
        codes = [(await _ask(router, _ALICE, "/v1/chat/completions", body)).status for _ in range(2)]
        assert codes == [200, 429]


def test_arguments_of_a_tool_are_no_counts_and_what_states_none_is_estimated_by_its_size() -> None:
    end = (
        b'{"message":{"tool_calls":[{"function":{"arguments":{"prompt_eval_count":0,"eval_count":0}}}]},"done":true,'
        b'"prompt_eval_count":9000,"eval_count":5000}\n'
    )
    assert counts.read(end) == (9000, 5000)
    made: list[summary.Summary] = []
    whole = summary.Summary(
        made.append, now=lambda: 1.0, arrived=0.0, path="/v1/chat/completions", request_id="i", request_bytes=400,
        images=False, client="c", run="", account="alice", limited=True, asked="m", model="m", level="P1",
    )  # fmt: skip
    whole.attempt("b")
    whole.began(200)
    whole.piece(b"{" + b"x" * 19_998 + b"}")
    whole.end()
    assert made[0].tokens() == (100, 5000, True)


async def test_the_tokens_of_a_day_are_limited(tmp_path: Path) -> None:
    async with _router(tmp_path, {"tokensPerDay": 80}) as router:
        chat = {"model": "small"}
        for _ in range(2):
            assert (await _ask(router, _ALICE, "/api/chat", chat)).status == 200
        for path in ("/api/chat", "/v1/chat/completions"):
            refused = await _ask(router, _ALICE, path, chat)
            assert (refused.status, refused.header("X-Ollama-Router-Reason")) == (429, "TokensUsed")
            assert 0 < int(refused.header("Retry-After") or 0) <= 86_400
            error = refused.json()["error"]
            text = error if path.startswith("/api/") else error["message"]
            assert "84 of 80 tokens" in text
        assert error["type"] == "rate_limit_error"
        assert (await _ask(router, _ALICE, "/api/show", chat)).status == 200
        assert (await _ask(router, _BOB, "/api/chat", chat)).status == 200
        mine = (await _ask(router, _ALICE, "/router/usage")).json()
        assert mine["identities"] == [
            {
                "identity": "alice",
                "requests": 2,
                "promptTokens": 60,
                "answerTokens": 24,
                "tokensPerDay": 80,
                "tokensLeft": 0,
            }
        ]
        assert mine["day"] < mine["resets"]
        every = (await _ask(router, _ADMIN, "/router/usage")).json()["identities"]
        assert [(one["identity"], one["requests"]) for one in every] == [("alice", 2), ("bob", 1)]
        assert (await router.get("/router/usage")).status == 401
        for sample, value in (("requests_total{", 2), ("tokens_total{", 60)):
            label = 'identity="alice"' + (',of="prompt"' if "tokens" in sample else "")
            assert await router.metric(f"jervis_router_identity_{sample}{label}}}") == value


async def test_leaving_before_the_count_is_no_way_around_the_limit(tmp_path: Path) -> None:
    async def stream(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(wire.chunked_head() + wire.chunk(b'{"message":{"content":"x"},"done":false}\n' * 50))
        await reader.read()
        return False

    tokens = _tokens(tmp_path, tokensPerDay=60)
    async with process.before(tmp_path, stream, tokens_file=tokens) as (router, _):
        async with wire.connected(router.port) as (reader, writer):
            writer.write(wire.post("/api/chat", {"model": "m", "messages": []}, wire.bearer(_ALICE)))
            await reader.readuntil(b"done")

        async def used() -> int:
            found: int = (await _ask(router, _ALICE, "/router/usage")).json()["identities"][0]["answerTokens"]
            return found

        assert await waiting.eventually(used) == 50


@pytest.mark.parametrize(
    ("entry", "field"),
    [({"models": "small"}, "models"), ({"tokensPerDay": -1}, "tokensPerDay"), ({"models": [""]}, "models")],
)
async def test_rights_that_cannot_be_used_are_named(tmp_path: Path, entry: dict[str, Any], field: str) -> None:
    router = process.start(tmp_path, [], tokens_file=_tokens(tmp_path, **entry))
    assert await router.ended() == 2
    assert f"0.{field}" in router.text()


# Counts.


def _clock() -> Clock:
    """UTC, moved by the test."""
    return Clock(datetime(2026, 3, 1, 23, 59, 50, tzinfo=UTC))


class Memory:
    """A store that can be away, or whose answer to a write is lost."""

    def __init__(self) -> None:
        self.day: date | None = None
        self.counts: dict[str, Count] = {}
        self.version = 0
        self.away = False

    async def read(self) -> tuple[date | None, Counts, str]:
        if self.away:
            raise errors.Operational("away")
        return self.day, dict(self.counts), str(self.version)

    async def write(self, day: date, counts: Counts, version: str) -> None:
        if version != str(self.version):
            raise errors.Operational("changed")
        self.day, self.counts, self.version = day, dict(counts), self.version + 1


async def test_routers_add_to_one_sum_and_a_restart_goes_on_with_it() -> None:
    clock, store = _clock(), Memory()
    one, two = Usage(wall=clock), Usage(wall=clock)
    one.add("alice", 10, 5)
    two.add("alice", 1, 1)
    two.add("bob", 7, 0)
    for usage in (one, two, one):
        await Sync(usage, store).once()
    assert one.used("alice") == two.used("alice") == Count(2, 11, 6)
    store.away = True
    one.add("alice", 1, 0)
    await Sync(one, store).once()
    store.away = False
    await Sync(one, store).once()
    fresh = Usage(wall=clock)
    await Sync(fresh, store).once()
    assert fresh.today() == {"alice": Count(3, 12, 6), "bob": Count(1, 7, 0)}


async def test_what_came_during_a_write_is_not_lost() -> None:
    clock = _clock()
    usage = Usage(wall=clock)

    class Slow(Memory):
        async def write(self, day: date, counts: Counts, version: str) -> None:
            usage.add("alice", 2, 0)
            await super().write(day, counts, version)

    store = Slow()
    usage.add("alice", 1, 0)
    await Sync(usage, store).once()
    assert usage.used("alice") == Count(2, 3, 0)
    assert usage.pending() == {"alice": Count(1, 2, 0)}


async def test_a_day_ends_at_midnight() -> None:
    clock, store = _clock(), Memory()
    usage = Usage(wall=clock)
    usage.add("alice", 10, 5)
    assert usage.seconds_left() == 11
    await Sync(usage, store).once()
    clock.now = datetime(2026, 3, 2, 0, 0, 1, tzinfo=UTC)
    assert usage.used("alice") == Count()
    usage.add("alice", 1, 0)
    await Sync(usage, store).once()
    assert (store.day, store.counts) == (date(2026, 3, 2), {"alice": Count(1, 1, 0)})
    assert usage.resets() == datetime(2026, 3, 3, tzinfo=UTC)


def test_identities_are_bounded_but_for_those_with_a_limit() -> None:
    usage = Usage(wall=_clock(), most=2)
    for name in ("a", "b", "c", "d"):
        usage.add(name, 1, 0)
    usage.add("limited", 1, 0, limited=True)
    assert usage.today() == {
        "(others)": Count(2, 2, 0),
        "a": Count(1, 1, 0),
        "b": Count(1, 1, 0),
        "limited": Count(1, 1, 0),
    }
    assert OTHERS == "(others)"


def _samples(usage: Usage) -> dict[str, float]:
    """Requests by identity, as Prometheus reads them."""
    requests, _ = usage.collect()
    return {sample.labels["identity"]: sample.value for sample in requests.samples}


def test_thousands_of_identities_over_days_are_counted_in_bounded_memory() -> None:
    clock, most, identities = _clock(), 100, 2000
    clock.now = datetime(2026, 3, 1, 8, tzinfo=UTC)
    usage = Usage(wall=clock, most=most)
    for day in range(6):
        for number in range(identities):
            name = f"pod-{day}-{number}"  # none of them comes back on another day
            before = _samples(usage) if number % 500 == 0 else {}
            usage.add(name, 2, 1)
            usage.add("alice", 1, 1, limited=True)
            if before:
                after = _samples(usage)
                rises = [value - before.get(one, 0.0) for one, value in after.items()]
                assert min(rises) >= 0.0, "a counter never falls"
                assert sum(rises) == 2.0
                assert after["alice"] == day * identities + number + 1
        today = usage.today()
        assert usage.used("alice") == today["alice"] == Count(identities, identities, identities)
        assert usage.used(f"pod-{day}-0") == Count(1, 2, 1), "a new day has room for new identities"
        assert sum(one.requests for one in today.values()) == 2 * identities
        assert len(today) <= most + 1
        assert len(usage.pending()) <= most + 1
        assert len(_samples(usage)) <= 2 * most + 1
        clock.now += timedelta(days=1)
    usage.add("bob", 1, 1)
    assert set(usage.today()) == {"bob"}
    clock.now += timedelta(days=2)
    assert usage.today() == {}
    assert set(_samples(usage)) == {OTHERS}, "those that were not seen for a whole day have no series any more"


def test_identities_with_a_limit_are_all_counted_and_their_series_are_bounded() -> None:
    usage = Usage(wall=_clock(), most=10)
    for number in range(3000):
        for _ in range(2):
            usage.add(f"limited-{number}", 1, 1, limited=True)
    assert {usage.used(f"limited-{number}") for number in range(3000)} == {Count(2, 2, 2)}
    assert usage.used(OTHERS) == Count(), "no identity of the day is counted there"
    series = _samples(usage)
    assert len(series) <= 21
    assert sum(series.values()) == 6000


async def test_a_router_whose_clock_is_behind_does_not_undo_the_new_day() -> None:
    ahead, behind, store = _clock(), _clock(), Memory()
    ahead.now = datetime(2026, 3, 2, 0, 0, 1, tzinfo=UTC)
    one, two = Usage(wall=ahead), Usage(wall=behind)
    one.add("alice", 40, 0, limited=True)
    await Sync(one, store).once()
    two.add("alice", 3, 0, limited=True)
    await Sync(two, store).once()
    await Sync(one, store).once()
    assert one.used("alice") == Count(1, 40, 0)
    behind.now = datetime(2026, 3, 2, 0, 0, 1, tzinfo=UTC)
    two.add("alice", 5, 0, limited=True)
    await Sync(two, store).once()
    assert two.used("alice") == Count(2, 45, 0)


def test_a_clock_that_is_set_back_over_midnight_loses_nothing() -> None:
    clock = _clock()
    clock.now = datetime(2026, 3, 2, 0, 0, 1, tzinfo=UTC)
    usage = Usage(wall=clock)
    usage.add("alice", 40, 0, limited=True)
    clock.now = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)
    usage.add("alice", 2, 0, limited=True)
    assert usage.used("alice") == Count(2, 42, 0)
    assert usage.resets() == datetime(2026, 3, 3, tzinfo=UTC)
    clock.now = datetime(2026, 2, 1, tzinfo=UTC)
    assert (usage.day, usage.today()) == (date(2026, 2, 1), {}), "a clock that was wrong by days is set right"


@pytest.mark.apiserver
async def test_counts_survive_a_restart_in_a_config_map(
    tmp_path: Path, kubeconfig: Path, custom_objects: client.CustomObjectsApi
) -> None:
    from kubernetes.client import CoreV1Api, V1ConfigMap, V1ObjectMeta

    core = CoreV1Api(custom_objects.api_client)
    core.create_namespaced_config_map("default", V1ConfigMap(metadata=V1ObjectMeta(name="router-usage")))
    kept = {"usage_config_map": "router-usage", "namespace": "default", "kubeconfig": str(kubeconfig)}
    try:
        async with _router(tmp_path, {"tokensPerDay": 40}, **kept) as router:
            assert (await _ask(router, _ALICE, "/api/chat", {"model": "small"})).status == 200
            router.terminate()
            assert await router.ended() == 0
        async with _router(tmp_path, {"tokensPerDay": 40}, **kept) as router:

            async def status() -> int:
                return (await _ask(router, _ALICE, "/api/chat", {"model": "small"})).status

            assert await waiting.eventually(status, good=lambda code: code == 429) == 429
    finally:
        core.delete_namespaced_config_map("router-usage", "default")
