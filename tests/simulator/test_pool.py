"""The pure scheduler: any order of events keeps Ollama's promises."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import thorough
from tests.fakes.ollama import catalogue
from tests.fakes.ollama.runner import pool

GIB = 2**30
MODELS = [
    catalogue.describe(name, size=size * GIB, kv_bytes_per_token=0)
    for name, size in (("a:1", 4), ("b:1", 6), ("c:1", 9))
]
LIMITS = pool.Limits(
    vram=12 * GIB,
    num_parallel=2,
    max_loaded=2,
    max_queue=3,
    keep_alive=20.0,
    load_seconds_per_gib=1.0,
    unload_seconds=2.0,
)


def granted(events: list[pool.Event]) -> list[int]:
    return [event.ticket for event in events if event.what is pool.What.GRANTED and event.ticket is not None]


def test_a_load_takes_its_time_and_serves_everybody_who_waited() -> None:
    memory = pool.Pool(LIMITS)
    for ticket in (1, 2, 3):
        assert granted(memory.submit(pool.Ticket(ticket, MODELS[0], 4096), 0.0)) == []
    assert memory.next_wakeup() == 4.0
    assert granted(memory.tick(3.9)) == []
    assert granted(memory.tick(4.0)) == [1, 2]
    assert granted(memory.leave(1, 5.0)) == [3]


def test_a_cold_model_blocks_the_cold_ones_behind_it_but_not_the_loaded_ones() -> None:
    memory = pool.Pool(LIMITS)
    memory.submit(pool.Ticket(1, MODELS[0], 4096), 0.0)
    memory.tick(4.0)
    memory.submit(pool.Ticket(2, MODELS[2], 4096), 4.0)  # needs the memory of the first, which is in use
    memory.submit(pool.Ticket(3, MODELS[1], 4096), 4.0)  # would fit
    assert granted(memory.submit(pool.Ticket(4, MODELS[0], 4096), 4.0)) == [4]
    assert [ticket.id for ticket in memory.pending] == [2, 3]
    memory.leave(1, 5.0)
    events = memory.leave(4, 6.0)
    assert [event.what for event in events] == [pool.What.UNLOADED], "and the memory is free two seconds later"
    assert memory.next_wakeup() == 8.0
    assert [event.what for event in memory.tick(8.0)] == [pool.What.LOADING]
    assert granted(memory.tick(17.0)) == [2]


def test_warming_up_needs_no_slot() -> None:
    memory = pool.Pool(LIMITS)
    for ticket in (1, 2):
        memory.submit(pool.Ticket(ticket, MODELS[0], 4096), 0.0)
    memory.tick(4.0)
    assert granted(memory.submit(pool.Ticket(3, MODELS[0], 4096, load_only=True), 4.0)) == [3]
    assert granted(memory.submit(pool.Ticket(4, MODELS[0], 4096), 4.0)) == []


def test_the_last_keep_alive_holds() -> None:
    memory = pool.Pool(LIMITS)
    memory.submit(pool.Ticket(1, MODELS[0], 4096, keep_alive=100.0), 0.0)
    memory.tick(4.0)
    memory.submit(pool.Ticket(2, MODELS[0], 4096, keep_alive=1.0), 4.0)
    memory.leave(2, 5.0)
    memory.leave(1, 6.0)
    assert memory.next_wakeup() == 7.0
    assert [event.what for event in memory.tick(7.0)] == [pool.What.UNLOADED]


def test_who_waited_for_an_aborted_load_is_next_in_line() -> None:
    memory = pool.Pool(LIMITS)
    memory.submit(pool.Ticket(1, MODELS[0], 4096), 0.0)
    memory.submit(pool.Ticket(2, MODELS[0], 4096), 1.0)
    memory.submit(pool.Ticket(3, MODELS[1], 4096), 1.0)
    events = memory.leave(1, 2.0)
    assert [event.what for event in events] == [pool.What.ABORTED, pool.What.LOADING]
    assert granted(memory.tick(6.0)) == [2]
    assert granted(memory.tick(12.0)) == [3]


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "leave", "tick", "expel"]),
        st.integers(0, 2),
        st.sampled_from([4096, 8192]),
        st.sampled_from([None, 0.0, 5.0]),
        st.floats(0.0, 6.0),
    ),
    max_size=60,
)


@settings(max_examples=thorough.examples(150), deadline=None)
@given(ACTIONS)
def test_no_order_of_events_breaks_a_promise(actions: list[tuple[str, int, int, float | None, float]]) -> None:
    memory, now, count = pool.Pool(LIMITS), 0.0, 0
    open_tickets: set[int] = set()
    running: set[int] = set()

    def note(events: list[pool.Event]) -> None:
        for event in events:
            if event.what is pool.What.GRANTED and event.ticket is not None:
                assert event.ticket in open_tickets - running, "granted once, and only to somebody who waits"
                running.add(event.ticket)
            elif event.what is pool.What.REFUSED and event.ticket is not None:
                open_tickets.discard(event.ticket)

    def check() -> None:
        used = sum(runner.size for runner in memory.runners.values())
        assert used <= LIMITS.vram
        assert len(memory.runners) <= LIMITS.max_loaded
        assert len(memory.pending) <= LIMITS.max_queue + 1 + aborted
        for runner in memory.runners.values():
            assert len(runner.active) <= LIMITS.num_parallel
            assert runner.ready or not runner.active

    aborted = 0
    for what, choice, num_ctx, keep_alive, wait in actions:
        now += wait
        if what == "submit":
            count += 1
            open_tickets.add(count)
            note(memory.submit(pool.Ticket(count, MODELS[choice], num_ctx, keep_alive), now))
        elif what == "leave" and open_tickets:
            chosen = sorted(open_tickets)[choice % len(open_tickets)]
            waited = sum(len(runner.waiting) for runner in memory.runners.values())
            open_tickets.discard(chosen)
            running.discard(chosen)
            events = memory.leave(chosen, now)
            aborted += waited if any(event.what is pool.What.ABORTED for event in events) else 0
            note(events)
        elif what == "expel":
            note(memory.expel(MODELS[choice].key, now))
        else:
            note(memory.tick(now))
        check()

    for _ in range(4 * (count + 1)):  # everybody who does not hang up is served in the end
        for ticket in sorted(running & open_tickets):
            open_tickets.discard(ticket)
            running.discard(ticket)
            note(memory.leave(ticket, now))
        wakeup = memory.next_wakeup()
        now = max(now, wakeup if wakeup is not None else now)
        note(memory.tick(now))
        check()
    assert not open_tickets
    assert not memory.pending
