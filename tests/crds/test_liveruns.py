"""The list of live runs: what is on it is good, what is not is over, and without a list no run is let in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from contracts.tokens import live_runs, runtoken
from tests.crds.runs import run

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEYS = runtoken.ring([b"k" * 48])
OTHER = runtoken.ring([b"o" * 48])
SECOND = timedelta(seconds=1)


class Clock:
    """`seconds` of monotonic time, and since `NOW`."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


@pytest.fixture(name="known")
def _known(clock: Clock) -> live_runs.Known:
    return live_runs.Known(lambda: KEYS, clock, clock.wall)


def claims(uid: str = "a", attempt: int = 1, *, issued: datetime = NOW - timedelta(hours=1), **more: Any) -> Any:
    token = runtoken.Signer(lambda: KEYS, lambda: issued).sign(run(uid, attempt, **more), timedelta(hours=5))
    return runtoken.Verifier(lambda: KEYS, lambda: NOW, runtoken.KNOWLEDGE_BASE).verify(token)


def signed(at: datetime = NOW, keys: runtoken.Ring = KEYS, **more: Any) -> str:
    return live_runs.sign(live_runs.Live(as_of=at, **more), keys)


def test_what_was_signed_is_heard() -> None:
    live = live_runs.Live(
        as_of=NOW + timedelta(microseconds=250_000), runs={"a": 3}, stopped=frozenset("b"), analyses=frozenset("c")
    )
    assert live_runs.parse(live_runs.sign(live, KEYS), KEYS) == live


def test_a_run_is_good_while_it_is_the_current_attempt(known: live_runs.Known) -> None:
    known.hear(signed(runs={"a": 2}))
    known.check(claims("a", 2))
    for over in (claims("a", 1), claims("a", 3), claims("b", 2)):
        with pytest.raises(runtoken.Ended, match="is over"):
            known.check(over)
    known.hear(signed(NOW + SECOND))
    with pytest.raises(runtoken.Ended):
        known.check(claims("a", 2))


def test_a_token_that_is_younger_than_the_list_is_good(known: live_runs.Known) -> None:
    known.hear(signed())
    known.check(claims("new", issued=NOW - live_runs.YOUNG))
    known.check(claims("new", issued=NOW + SECOND))
    with pytest.raises(runtoken.Ended):
        known.check(claims("old", issued=NOW - live_runs.YOUNG - SECOND))


def test_after_a_change_of_the_leader_tokens_are_young_for_longer(known: live_runs.Known) -> None:
    known.hear(signed(young=90.0))
    known.check(claims("new", issued=NOW - timedelta(seconds=90)))
    with pytest.raises(runtoken.Ended):
        known.check(claims("old", issued=NOW - timedelta(seconds=91)))


def test_a_sandbox_works_on_for_a_suspended_run_and_an_analysis_has_an_id_of_its_own(known: live_runs.Known) -> None:
    known.hear(signed(runs={"runs": 4}, stopped={"waits"}, analyses={"reads"}))
    known.check(claims("runs", 0, sandbox=True))
    known.check(claims("waits", 0, sandbox=True))
    known.check(claims("reads", 0, repository="o/n"))
    for over in (
        claims("waits", 0),
        claims("reads", 0),
        claims("gone", 0, sandbox=True),
        claims("runs", 4, repository="o/n"),
    ):
        with pytest.raises(runtoken.Ended):
            known.check(over)


def test_where_nothing_was_heard_for_a_minute_it_is_not_known(known: live_runs.Known, clock: Clock) -> None:
    with pytest.raises(live_runs.Unheard) as unheard:
        known.check(claims())
    assert unheard.value.retry_after == live_runs.EVERY_SECONDS
    known.hear(signed(runs={"a": 1}))
    clock.seconds += live_runs.SILENT_SECONDS
    known.check(claims())
    clock.seconds += 0.1
    for token in (claims(), claims("over")):
        with pytest.raises(live_runs.Unheard):
            known.check(token)
    known.hear(signed(clock.wall(), runs={"a": 1}))
    known.check(claims())


def test_a_list_that_was_captured_is_good_for_a_minute(known: live_runs.Known, clock: Clock) -> None:
    captured = signed(runs={"a": 1})
    known.hear(captured)
    for _ in range(7):
        clock.seconds += 10
        if clock.seconds <= live_runs.SKEW.total_seconds():
            known.hear(captured)
        else:
            with pytest.raises(runtoken.Expired, match="and here it is"):
                known.hear(captured)
    clock.seconds += live_runs.SILENT_SECONDS
    with pytest.raises(live_runs.Unheard):
        known.check(claims())


def test_a_list_from_the_future_stops_nothing(known: live_runs.Known, clock: Clock) -> None:
    with pytest.raises(runtoken.Expired):
        known.hear(signed(NOW + timedelta(hours=1)))
    known.hear(signed(runs={"a": 1}))
    known.check(claims())


def test_lists_do_not_walk_backwards(known: live_runs.Known) -> None:
    known.hear(signed(runs={"a": 1}))
    for seconds in (10, 20, 30):
        known.hear(signed(NOW - timedelta(seconds=seconds), runs={"a": 1}))
    with pytest.raises(runtoken.Expired, match="older"):
        known.hear(signed(NOW - timedelta(seconds=31)))
    known.check(claims())


def test_nobody_else_writes_a_list(known: live_runs.Known) -> None:
    known.hear(signed(runs={"a": 1}))
    token = runtoken.Signer(lambda: KEYS, lambda: NOW).sign(run("a"), timedelta(hours=1))
    changed = signed(runs={"b": 1})[:-2] + "xx"
    old = signed(NOW - timedelta(seconds=31), runs={"b": 1})
    for said in (signed(keys=OTHER, runs={"b": 1}), token, changed, old, "", "a.b.c"):
        with pytest.raises(runtoken.Refused):
            known.hear(said)
    for payload in ({}, {"iat": NOW.timestamp(), "runs": ["a"]}, {"iat": "soon"}, {"iat": 1e300}):
        with pytest.raises(runtoken.Malformed):
            known.hear(runtoken.write(payload, KEYS, live_runs.MEDIA_TYPE))
    known.check(claims("a"))
    with pytest.raises(runtoken.Ended):
        known.check(claims("b"))


def test_a_list_is_no_run_token() -> None:
    said = signed(runs={"a": 1})
    assert not runtoken.is_run_token(said)
    with pytest.raises(runtoken.Malformed):
        runtoken.Verifier(lambda: KEYS, lambda: NOW, runtoken.KNOWLEDGE_BASE).verify(said)


def test_the_verifier_asks_for_each_token_also_for_one_that_it_knows(known: live_runs.Known) -> None:
    token = runtoken.Signer(lambda: KEYS, lambda: NOW - timedelta(hours=1)).sign(run("a"), timedelta(hours=5))
    verifier = runtoken.Verifier(lambda: KEYS, lambda: NOW, runtoken.KNOWLEDGE_BASE, known.check)
    known.hear(signed(runs={"a": 1}))
    assert verifier.verify(token).task_uid == "a"
    known.hear(signed(NOW + SECOND))
    with pytest.raises(runtoken.Ended):
        verifier.verify(token)
