"""Reviews of unknown tokens: how many the apiserver is asked for, and what they take from others."""

from __future__ import annotations

import asyncio

import pytest

from contracts.tokens import token_reviews
from crds import errors


class Apiserver:
    """Knows tokens that begin with "good"; counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.away = False
        self.go = asyncio.Event()
        self.go.set()

    async def ask(self, token: str) -> str | None:
        self.asked.append(token)
        await self.go.wait()
        if self.away:
            raise errors.Operational("away")
        return "user" if token.startswith("good") else None


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def busy(reviewed: token_reviews.Reviewed[str], token: str, source: str) -> bool:
    try:
        await reviewed.find(token, source)
    except token_reviews.Busy as error:
        return error.retry_after is not None
    return False


async def test_junk_of_one_source_is_bounded_and_takes_nothing_from_others() -> None:
    apiserver, clock = Apiserver(), Clock()
    reviewed = token_reviews.Reviewed(apiserver.ask, now=clock)
    refused = [await busy(reviewed, f"junk-{n}", "10.0.0.6") for n in range(400)]
    assert (refused.count(False), len(apiserver.asked)) == (token_reviews.SOURCE_BURST, token_reviews.SOURCE_BURST)
    assert await reviewed.find("good-1", "10.0.0.7") == "user"
    # Its own token waits a second, and not for ever.
    assert await busy(reviewed, "good-2", "10.0.0.6")
    clock.now += 1.0
    assert await reviewed.find("good-2", "10.0.0.6") == "user"


async def test_junk_of_many_sources_is_bounded_and_good_tokens_are_renewed_all_the_same() -> None:
    apiserver, clock = Apiserver(), Clock()
    reviewed = token_reviews.Reviewed(apiserver.ask, now=clock)
    assert await reviewed.find("good", "10.0.0.7") == "user"
    clock.now = 61.0
    asked = len(apiserver.asked)
    for n in range(1000):
        await busy(reviewed, f"junk-{n}", f"10.1.{n // 250}.{n % 250}")
    assert len(apiserver.asked) - asked == token_reviews.ALL_BURST
    # It is not fresh any more: it is looked at once more, whatever others did.
    assert await reviewed.find("good", "10.0.0.7") == "user"
    assert apiserver.asked[-1] == "good"


async def test_the_same_junk_again_and_again_is_one_review() -> None:
    apiserver = Apiserver()
    reviewed = token_reviews.Reviewed(apiserver.ask, now=Clock())
    for _ in range(500):
        assert await reviewed.find("junk", "10.0.0.6") is None
    assert apiserver.asked == ["junk"]


async def test_invalid_tokens_displace_no_valid_one_and_go_one_by_one() -> None:
    apiserver, clock = Apiserver(), Clock()
    reviewed = token_reviews.Reviewed(apiserver.ask, now=clock, most=10, fresh=1e9, bad=1e9)
    good = [f"good-{n}" for n in range(10)]
    for token in good:
        assert await reviewed.find(token, "10.0.0.7") == "user"
    for n in range(100):
        clock.now += 10.0
        assert await reviewed.find(f"bad-{n}", "10.0.0.6") is None
    assert all(reviewed.recall(token_reviews.digest(token)) == (True, "user") for token in good)
    clock.now += 10.0
    assert await reviewed.find("good-new", "10.0.0.7") == "user"
    assert [reviewed.recall(token_reviews.digest(token))[0] for token in good] == [False, *[True] * 9]


async def test_a_few_tokens_are_under_review_at_a_time() -> None:
    apiserver = Apiserver()
    apiserver.go.clear()
    reviewed = token_reviews.Reviewed(apiserver.ask, now=Clock(), at_once=5)
    flood = [asyncio.create_task(reviewed.find(f"bad-{n}", f"10.0.0.{n}")) for n in range(20)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    apiserver.go.set()
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert len(apiserver.asked) == 5
    assert sum(isinstance(outcome, token_reviews.Busy) for outcome in outcomes) == 15


async def test_what_is_believed_while_nobody_can_be_asked() -> None:
    apiserver, clock = Apiserver(), Clock()
    believing = token_reviews.Reviewed(apiserver.ask, now=clock, stale=600.0)
    plain = token_reviews.Reviewed(apiserver.ask, now=clock)
    for reviewed in (believing, plain):
        assert await reviewed.find("good", "10.0.0.7") == "user"
    clock.now, apiserver.away = 100.0, True
    assert await believing.find("good", "10.0.0.7") == "user"
    with pytest.raises(errors.Operational, match="away"):
        await plain.find("good", "10.0.0.7")
    clock.now = 1000.0
    with pytest.raises(errors.Operational, match="away"):
        await believing.find("good", "10.0.0.7")
