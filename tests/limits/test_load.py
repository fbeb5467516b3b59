"""The harness's own load: it ends, and says what it could not send, whatever the system under test does."""

from __future__ import annotations

import asyncio

import pytest

from bench.operator import load
from crds import errors

NAMES = [f"t{number}" for number in range(200)]


async def test_a_system_that_keeps_up_gets_all_of_it() -> None:
    got: list[str] = []

    async def send(name: str) -> None:
        got.append(name)

    sent = await load.paced(NAMES, 1e6, send)
    assert got == NAMES
    assert list(sent.planned) == NAMES
    assert sent.figures()["not_sent"] == 0


async def test_never_more_at_once_than_it_says_and_what_is_too_late_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load, "PATIENCE", 0.0)
    under_way = most = 0

    async def send(name: str) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1

    sent = await load.paced(NAMES, 1e9, send)
    assert most <= load.AT_ONCE
    assert sent.late > 0
    assert len(sent.planned) + sent.late == len(NAMES)


async def test_what_is_refused_is_counted_and_ends_nothing() -> None:
    async def send(name: str) -> None:
        if name.endswith("7"):
            raise errors.Operational("no answer")

    sent = await load.paced(NAMES, 1e6, send)
    assert len(sent.failures) == 20
    assert sent.figures()["not_sent"] == 20
    assert sent.figures()["sent"] == 180
