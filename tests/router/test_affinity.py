"""Turns of one conversation stay on their backend, and no request waits or is overtaken for it."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from router import affinity
from router.priority import Level
from router.proxy import body
from tests.router import plans, process, wire

_GPUS = [plans.gpu(name, slots=8, loaded=plans.M) for name in ("a", "b", "c")]


def _plan(slack: float = 2.0, most: int = 10_000, **more: Any) -> Any:
    return plans.plan(*_GPUS, affinity=affinity.Affinity(slack, most), **more)


def test_every_turn_of_a_conversation_goes_to_the_backend_of_the_first() -> None:
    made, chance, number = _plan(), random.Random(1), 0
    where: dict[int, set[str]] = {}
    for _ in range(6):
        running = []
        for conversation in chance.sample(range(1, 13), 12):
            number += 1
            ((_, backend),) = plans.dispatched(made.offered(plans.ask(number, session=conversation), float(number)))
            where.setdefault(conversation, set()).add(backend)
            running.append(number)
            if len(running) > 3:  # others come and go meanwhile
                made.released(running.pop(chance.randrange(len(running))), float(number))
        for left in running:
            made.released(left, float(number))
    assert all(len(backends) == 1 for backends in where.values()), where
    assert len({next(iter(backends)) for backends in where.values()}) == 3, "all of them are used"
    assert made.affinity.counts == {"new": 12, "kept": 60}


def test_without_it_turns_wander() -> None:
    made = _plan(slack=0.0)
    assert not made.affinity.on


def test_a_hot_conversation_does_not_overload_one_backend() -> None:
    made = _plan()
    runs: Counter[str] = Counter()
    for number in range(1, 13):
        ((_, backend),) = plans.dispatched(made.offered(plans.ask(number, session=7), float(number)))
        runs[backend] += 1
        assert max(runs[name] for name in "abc") - min(runs[name] for name in "abc") <= 3
    assert sum(runs.values()) == 12


def test_a_turn_never_waits_for_its_backend() -> None:
    made = plans.plan(plans.gpu("a"), plans.gpu("b"), affinity=affinity.Affinity(4.0))
    assert plans.dispatched(made.offered(plans.ask(1, session=5), 1.0)) == [(1, "a")]
    assert plans.dispatched(made.offered(plans.ask(2, session=5), 2.0)) == [(2, "b")]
    assert plans.dispatched(made.offered(plans.ask(3, session=5), 3.0)) == []
    assert plans.dispatched(made.released(1, 4.0)) == [(3, "a")]


def test_it_does_not_bring_a_background_turn_past_a_waiter_or_into_a_reservation() -> None:
    made = plans.plan(plans.gpu("a"), plans.gpu("b"), affinity=affinity.Affinity(4.0))
    for number in (1, 2):
        made.offered(plans.ask(number, session=number), float(number))
    made.offered(plans.ask(3, Level.P1), 3.0)
    made.offered(plans.ask(4, session=1), 4.0)
    assert plans.dispatched(made.released(1, 5.0)) == [(3, "a")]


def test_what_is_remembered_is_bounded() -> None:
    kept = affinity.Affinity(1.0, most=100)
    for session in range(1, 1001):
        kept.ran(session, "a")
    assert [kept.last(session) for session in (1, 900, 901, 1000)] == ["", "", "a", "a"]


def _chat(*texts: str, **more: Any) -> bytes:
    roles = ["system"] + ["user", "assistant"] * len(texts)
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


def test_turns_are_recognised_by_how_the_conversation_begins_whatever_their_size() -> None:
    first = body.look(_chat("you are kind", "hello"), opening=True).opening
    assert first
    assert body.look(_chat("you are kind", "hello", "hi", "and now?"), opening=True).opening == first
    assert body.look(_chat("you are kind", "hello", "x" * body.SMALL, "ok"), opening=True).opening == first
    assert body.look(_chat("you are kind", "good day"), opening=True).opening not in (0, first)
    assert body.look(_chat("you are kind", "hello")).opening == 0, "costs nothing when it is off"
    parts = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    assert body.look(json.dumps({"model": "m", "messages": parts}).encode(), opening=True).opening


@pytest.mark.parametrize("size", [10, body.SMALL])
def test_openai_s_cache_key_and_long_prompts(size: int) -> None:
    def look(**more: Any) -> int:
        return body.look(json.dumps({"model": "m", "pad": "x" * size, **more}).encode(), opening=True).opening

    assert look(messages=[{"role": "user", "content": "a"}], prompt_cache_key="k") == look(prompt_cache_key="k") != 0
    assert look(prompt="y" * 600) == look(prompt="y" * 900) != 0
    assert look(prompt="y" * 100) == look(prompt=["y"]) == look(messages=["y"]) == look(messages=3) == 0


async def test_conversations_over_http_stay_and_are_explained(tmp_path: Path) -> None:
    listed = {"name": "m:latest", "model": "m:latest", "size": 1, "size_vram": 1}
    async with wire.backend(wire.answering()) as one, wire.backend(wire.answering()) as two:
        one.ps = two.ps = [listed]
        specs = [process.spec("one", one.url), process.spec("two", two.url)]
        async with process.running(tmp_path, specs) as router:
            await router.until(lambda s: all(backend["loaded"] for backend in s["backends"]))
            where: dict[str, list[str]] = {}
            for turn in range(4):
                for name in ("ann", "bob", "cyn", "dan"):
                    headers = []
                    document = json.loads(_chat("be kind to " + name, "hello", *["hm"] * turn))
                    if name == "dan":  # every turn begins in another way
                        document["messages"] = [{"role": "user", "content": str(turn)}]
                        headers = [("X-Session-Id", "dan-1")]
                    answer = await router.post("/api/chat", document, headers)
                    where.setdefault(name, []).append(answer.header("X-Ollama-Router-Backend") or "")
            assert all(len(set(backends)) == 1 for backends in where.values()), where
            assert {backends[0] for backends in where.values()} == {"one", "two"}
            assert await router.metric('jervis_router_affinity_total{outcome="kept"}') == 12
            assert await router.metric('jervis_router_affinity_total{outcome="new"}') == 4
            assert all(request.header("X-Session-Id") is None for request in one.requests + two.requests)
            shown = await router.get("/router/explain?model=m&session=dan-1")
            home = where["dan"][0]
            assert shown.json()["backend"] == home
            why = {candidate["backend"]: candidate["why"] for candidate in shown.json()["candidates"]}
            assert why[home] == "4096 slots free, and the conversation's last turn ran there"
