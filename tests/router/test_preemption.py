"""Giving way: who, when, how often, and the one place where it is decided against the first byte."""

from __future__ import annotations

import pytest

from crds.gpubackend import Preemption
from router.priority import Level
from router.scheduler import Scheduler
from router.waiting import SlotRequest
from tests.router.plans import ask, cancelled, cpu, dispatched, gpu, plan


def test_a_p0_takes_the_slot_of_the_youngest_background_request_that_has_not_begun() -> None:
    made = plan(gpu(slots=4))
    for number, level in enumerate((Level.P3, Level.P3, Level.P3, Level.P1)):
        made.offered(ask(number, level), float(number))
    made.began(2)
    assert cancelled(made.offered(ask(9, Level.P0), 10)) == [(1, False)]
    assert dispatched(made.released(1, 11)) == [(9, "gpu")]


def test_one_victim_for_each_p0_and_none_for_others() -> None:
    made = plan(gpu(slots=3))
    for number in range(3):
        made.offered(ask(number), float(number))
    assert [cancelled(made.offered(ask(n, level), 10)) for n, level in [(10, Level.P1), (11, Level.P2)]] == [[], []]
    assert [len(cancelled(made.offered(ask(n, Level.P0), 10))) for n in range(20, 25)] == [1, 1, 1, 0, 0]


def test_p3_before_auto_and_never_p1_or_p2() -> None:
    made = plan(gpu(slots=4))
    for number, level in enumerate((Level.P1, Level.P2, Level.P3, Level.AUTO)):
        made.offered(ask(number, level), float(number))
    victims = [cancelled(made.offered(ask(n, Level.P0), 10)) for n in range(10, 13)]
    assert victims == [[(2, False)], [(3, False)], []]


def test_first_byte_or_preempted_is_decided_once() -> None:
    made = plan(gpu())
    made.offered(ask(0), 0)
    assert made.began(0)
    assert cancelled(made.offered(ask(1, Level.P0), 1)) == []  # too late: it is left alone
    made.released(0, 2)
    made.released(1, 3)
    made.offered(ask(2), 4)
    assert cancelled(made.offered(ask(3, Level.P0), 5)) == [(2, False)]
    assert not made.began(2)  # too late for the other side


@pytest.mark.parametrize(
    ("policy", "before", "after"),
    [
        (Preemption.NEVER, [], []),
        (Preemption.BEFORE_FIRST_BYTE, [(0, False)], []),
        (Preemption.AFTER_FIRST_BYTE, [(0, False)], [(0, True)]),
    ],
)
def test_the_policy_of_the_backend(
    policy: Preemption, before: list[tuple[int, bool]], after: list[tuple[int, bool]]
) -> None:
    made = plan(gpu(preemption=policy))
    made.offered(ask(0), 0)
    assert cancelled(made.offered(ask(1, Level.P0), 1)) == before
    made = plan(gpu(preemption=policy))
    made.offered(ask(0), 0)
    made.began(0)
    assert cancelled(made.offered(ask(1, Level.P0), 1)) == after


def test_the_victim_goes_to_the_cpu_at_once_or_waits_before_the_others_of_its_level() -> None:
    made = plan(gpu(), cpu())
    victim = _preempt(made, 0)
    assert dispatched(made.offered(victim, 12)) == [(100, "cpu")]
    alone = plan(gpu())
    victim = _preempt(alone, 0)
    alone.offered(ask(50, arrived=1.0), 12)
    assert alone.offered(victim, 13) == []
    assert dispatched(alone.released(1, 14)) == [(100, "gpu")]


def test_nobody_is_a_victim_more_than_twice() -> None:
    made = plan(gpu())
    made.offered(ask(0, preempted=2), 0)
    assert cancelled(made.offered(ask(1, Level.P0), 1)) == []
    assert dispatched(made.released(0, 2)) == [(1, "gpu")]


def test_a_victim_that_ends_by_itself_leaves_its_slot_to_the_p0() -> None:
    made = plan(gpu())
    made.offered(ask(0), 0)
    made.offered(ask(1, Level.P0), 1)
    assert dispatched(made.released(0, 2)) == [(1, "gpu")]


def _preempt(made: Scheduler, number: int) -> SlotRequest:
    """Run a background request, let a P0 take its slot; the victim as it comes back."""
    made.offered(ask(number), 0)
    made.offered(ask(number + 1, Level.P0), 10)
    made.released(number, 11)
    return ask(100, arrived=float(number), preempted=1)


def test_a_p0_of_v1_takes_no_slot_for_one_of_api_that_could_not_use_it() -> None:
    """The same model on an Ollama and on an OpenAI server: a victim there is of no use to a request by /api."""
    made = plan(gpu("ollama", slots=2), gpu("openai", slots=2, openai=True))
    for number in (1, 2):
        made.offered(ask(number, Level.P0), 0)
    for number in (3, 4):
        made.offered(ask(number, Level.P3, ollama=False), 0)
    assert cancelled(made.offered(ask(5, Level.P0), 1)) == []
    assert len(cancelled(made.offered(ask(6, Level.P0, ollama=False), 1))) == 1
    made.withdrawn(6, 1)
    assert cancelled(made.offered(ask(7, Level.P0, ollama=False), 2)) == [], "that slot is on its way"
