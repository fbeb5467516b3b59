"""A test that waits gets what it looked for, or a sentence that says what did not come."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from tests import waiting


async def test_the_first_good_answer_is_returned_plain_or_awaited() -> None:
    numbers = itertools.count()

    async def later() -> int:
        return next(numbers)

    assert waiting.until(lambda: next(numbers), good=lambda number: number > 1, pause=0) == 2
    assert await waiting.eventually(lambda: next(numbers), good=lambda number: number > 3) == 4
    assert await waiting.eventually(later, good=lambda number: number > 5) == 6
    assert await waiting.done(later()) == 7


async def test_a_failure_says_what_was_waited_for_and_what_was_seen_last() -> None:
    with pytest.raises(AssertionError, match=r"not within 0 s: the mail is there; seen last: \[\]"):
        waiting.until(list, "the mail is there", patience=0)
    with pytest.raises(AssertionError, match="the mail is there; seen last: 3"):
        await waiting.eventually(lambda: 3, "the mail is there", good=lambda number: number > 3, patience=0)

    async def the_mail_is_there() -> bool:
        return False

    with pytest.raises(AssertionError, match=r"def the_mail_is_there(.|\n)*seen last: False"):
        await waiting.eventually(the_mail_is_there, patience=0)


async def test_a_call_that_waits_for_ever_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    with pytest.raises(AssertionError, match=r"not done within 0\.01 s: .*Event\.wait"):
        await waiting.done(asyncio.Event().wait())


def test_a_server_that_ends_before_it_serves_fails_with_its_log(tmp_path: Path) -> None:
    class Ended:
        def poll(self) -> int | None:
            return 1

    def refused() -> bool:
        raise ConnectionRefusedError(111)

    (tmp_path / "log").write_text("the port is taken")
    with pytest.raises(AssertionError, match=r"before it served: ConnectionRefusedError\(111\)\nthe port is taken"):
        waiting.served(refused, Ended(), tmp_path / "log", OSError)
