"""The wait queue: clients take turns, every waiter is called, and the order depends on the set of waiters only."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.pendingtask.slots.fair_share import AGED_EVERY, Standing, Turns, Waiter, WaitQueue, arrange
from crds.order import HIGH, LINK, USUAL, Order
from crds.order import of as order_of
from tests import thorough
from tests.controllers import build

NEVER = float("-inf")


def waiter(number: int, client: str, *, position: int = 99, lane: int = 1, urgency: int = 1, since: int = 0) -> Waiter:
    return Waiter(Order(lane, position, urgency, number, f"n/{number:04}", client), since, f"u{number}")


waiters = st.lists(
    st.builds(
        lambda client, position, lane, urgency, since: (client, position, lane, urgency, since),
        st.sampled_from("abcd"),
        st.sampled_from([1, 2, 99]),
        st.sampled_from([0, 1, 1]),
        st.integers(0, 1),
        st.integers(0, 20),
    ),
    max_size=25,
).map(
    lambda found: [
        waiter(number, client, position=position, lane=lane, urgency=urgency, since=since)
        for number, (client, position, lane, urgency, since) in enumerate(found)
    ]
)


def filled(some: Sequence[Waiter], turns: Turns | None = None) -> WaitQueue:
    queue = WaitQueue(turns)
    for one in some:
        queue.enter(one)
    return queue


def naive(some: Sequence[Waiter], held: Counter[str], last: dict[str, int], aged_before: float) -> list[str]:
    """The rule as the module's docstring says it, one waiter after the other."""
    left, out, since_aged, held = list(some), [], 0, Counter(held)
    while left:
        aged = [one for one in left if one.order.lane == 1 and one.since < aged_before]
        due = bool(aged) and since_aged >= AGED_EVERY - 1
        place = min(one.order[:2] for one in left)
        pool = aged if due else [one for one in left if one.order[:2] == place]

        def within(one: Waiter, due: bool = due) -> tuple[object, ...]:
            return (one.since, *one.order) if due else one.order[2:]

        firsts = [
            min((one for one in pool if one.order.client == client), key=within)
            for client in {one.order.client for one in pool}
        ]
        chosen = min(firsts, key=lambda one: (held[one.order.client], last.get(one.order.client, -1), within(one)))
        if aged:
            since_aged = 0 if due else since_aged + 1
        left.remove(chosen)
        held[chosen.order.client] += 1
        out.append(chosen.uid)
    return out


@given(waiters, st.lists(st.sampled_from("abcd"), max_size=6), st.lists(st.sampled_from("abcd"), max_size=6), st.data())
def test_the_order_is_the_rule_whatever_the_order_of_entering(
    some: list[Waiter], held: list[str], took: list[str], data: st.DataObject
) -> None:
    turns = Turns()
    for client in took:
        turns.took(client)
    last = {client: turns.last(client) for client in took}
    aged_before = data.draw(st.sampled_from([NEVER, 5, 100]))
    wanted = naive(some, Counter(held), last, aged_before)
    for entered in (some, data.draw(st.permutations(some))):
        queue = filled(entered, turns)
        assert [uid for uid, _ in queue.call(len(some) + 1, Counter(held), aged_before)] == wanted
        assert len(queue) == 0
        assert arrange(entered, Standing(Counter(held), turns.known(), 0, aged_before)) == wanted


@given(waiters, st.data())
def test_leaving_and_entering_again_elsewhere_changes_nothing_for_the_others(
    some: list[Waiter], data: st.DataObject
) -> None:
    queue = filled(some)
    for one in data.draw(st.lists(st.sampled_from(some), max_size=10)) if some else ():
        queue.leave(one.uid)
        queue.enter(Waiter(one.order._replace(position=3), 0, one.uid))
        queue.call(0, Counter("a"), 10)
        queue.leave(one.uid)
        queue.enter(one)
    assert [uid for uid, _ in queue.call(99, {}, 10)] == naive(some, Counter(), {}, 10)


@given(waiters.filter(bool), st.integers(1, 3))
def test_called_one_by_one_and_all_at_once_come_in_the_same_order(some: list[Waiter], count: int) -> None:
    """When those called keep their places meanwhile."""
    wanted = [uid for uid, _ in filled(some).call(99, {}, NEVER)]
    queue, got, held = filled(some), list[str](), Counter[str]()
    while len(queue):
        for uid, order in queue.call(count, held, NEVER):
            got.append(uid)
            held[order.client] += 1
    assert got == wanted


def test_a_flood_of_one_client_holds_up_another_by_one_place() -> None:
    queue = filled([waiter(number, "flood") for number in range(10_000)] + [waiter(10_001, "small")])
    held = Counter({"flood": 10})
    assert [order.client for _, order in queue.call(1, held, NEVER)] == ["small"]


@pytest.mark.parametrize("seconds", [{"a": 60, "b": 60, "c": 60}, {"a": 600, "b": 60, "c": 5}])
def test_three_clients_of_different_load_share_the_slots(seconds: dict[str, int]) -> None:
    """The first has always 500 waiting, the second 5, the third now and then one, and four slots are shared."""
    rng = random.Random(7)
    queue, clock, number = WaitQueue(), 0, 0
    running: list[tuple[int, str]] = []
    held_for, waited, since = Counter[str](), dict[str, list[int]](), dict[str, int]()
    backlog = {"a": 500, "b": 5}
    for _ in range(3000):
        for client in "abc":
            lacking = backlog.get(client, 0) - sum(one.order.client == client for one in queue.waiters())
            for _ in range(lacking if client != "c" else rng.random() < 0.02):
                number += 1
                queue.enter(waiter(number, client, since=clock))
                since[f"u{number}"] = clock
        for end, client in [one for one in running if one[0] <= clock]:
            running.remove((end, client))
        held = Counter(client for _, client in running)
        for uid, order in queue.call(4 - len(running), held, NEVER):
            queue.took(order.client)
            running.append((clock + seconds[order.client], order.client))
            waited.setdefault(order.client, []).append(clock - since[uid])
        held_for.update(client for _, client in running)
        clock += 5
    assert held_for["b"] > 0.6 * held_for["a"], "the one with a hundred times the load gets no more"
    assert max(waited["c"]) <= 2 * max(seconds.values()), "for a run of another client, and for one of its own"
    assert len(waited["c"]) > 20


@given(st.integers(0, 2**32))
def test_no_waiter_waits_for_ever(seed: int) -> None:
    """However many of better position come: once aged, a waiter goes within a number of places that is known."""
    rng = random.Random(seed)
    queue = WaitQueue()
    queue.enter(waiter(0, "old", position=99, since=0))
    for number in range(1, 6):
        queue.enter(waiter(number, "older", position=99, since=0))
    for place in range(2 * AGED_EVERY + 2):
        for extra in range(rng.randint(1, 3)):
            queue.enter(waiter(100 + 10 * place + extra, rng.choice("xyz"), position=1, since=50))
        if "u0" in {uid for uid, _ in queue.call(1, {}, 10)}:
            return
    raise AssertionError("it waits still")


def test_after_the_restart_the_turn_is_where_it_was() -> None:
    turns = Turns()
    turns.took("a")
    some = [waiter(1, "a"), waiter(2, "b"), waiter(3, "c")]
    assert [uid for uid, _ in filled(some, turns).call(3, {}, NEVER)] == ["u2", "u3", "u1"]


@given(st.lists(st.sampled_from("abcdef"), max_size=thorough.examples(60)))
def test_turns_remember_the_last_one_of_each(took: list[str]) -> None:
    turns = Turns()
    for client in took:
        turns.took(client)
    known = sorted(set(took), key=turns.last)
    assert known == sorted(set(took), key=lambda client: len(took) - took[::-1].index(client))
    assert turns.last("nobody") < min((turns.last(client) for client in took), default=1)


def test_links_come_after_other_tasks_of_their_client_and_age_like_them() -> None:
    mail, late = waiter(1, "a", urgency=USUAL), waiter(50, "a", urgency=USUAL)
    links = [waiter(number, "a", urgency=LINK) for number in range(2, 40)]
    other = waiter(60, "b", urgency=LINK)
    order = arrange([mail, *links, late, other], Standing({"b": 1}))
    assert order[:2] == [mail.uid, late.uid]
    assert other.uid in order[:4], "clients still take turns"
    aged = arrange([*links, late], Standing(aged_before=10.0))
    assert links[0].uid in aged[: AGED_EVERY + 1]


def test_a_task_of_a_link_is_last_until_a_rule_makes_it_urgent() -> None:
    spec = {"type": "LinkProcessing"}
    assert order_of(build.task(spec=spec)).urgency == LINK
    assert order_of(build.task()).urgency == USUAL
    assert order_of(build.task(spec=spec, status={"route": {"decision": "ExecuteHigh", "reason": "x"}})).urgency == HIGH
