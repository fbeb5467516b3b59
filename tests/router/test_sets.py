"""Model sets on a GPU whose memory the router owns: one load, few changes, nobody served by half a model."""

from __future__ import annotations

from router.effects import Load, Reason, Unload
from router.priority import Level
from router.reservation import Durations
from tests.router import plans
from tests.router.plans import ask, cancelled, cpu, dispatched, moves, owned, plan, refused, sets, warm

_BOTH = frozenset({"small", "embed"})


def test_three_hundred_requests_for_a_cold_model_cause_one_load() -> None:
    made = plan(owned(slots=4))
    effects = [e for n in range(300) for e in made.offered(ask(n, model="small", arrived=0.0), 0)]
    assert moves(effects) == [("load", "embed")] or moves(effects) == [("load", "small")]
    assert dispatched(effects) == []
    happened = warm(made, effects, 1)
    assert sorted(moves(happened)) == [("load", "embed"), ("load", "small")]
    assert len(dispatched(happened)) == 4


def test_who_waits_for_a_model_gets_it_before_the_rest_of_its_set() -> None:
    made = plan(owned())
    assert moves(made.offered(ask(0, model="small"), 0)) == [("load", "small")]


def test_a_load_carries_the_context_and_the_time_that_the_backend_says() -> None:
    made = plan(owned(durations=Durations(longest=1800), keep_alive=2100))
    (load,) = [e for e in made.offered(ask(0, Level.P1, "big"), 0) if isinstance(e, Load)]
    assert (load.backend, load.num_ctx, load.keep_alive) == ("gpu", None, 2100)
    assert made.owns("gpu", "big") == (2100, None, "orchestrator")
    assert made.owns("gpu", "other") is None


def test_a_change_is_drain_unload_and_load_in_that_order() -> None:
    made = plan(owned(loaded=_BOTH))
    assert dispatched(made.offered(ask(0, model="small"), 0)) == [(0, "gpu")]
    made.began(0)
    effects = made.offered(ask(1, Level.P0, "big"), 40)
    assert moves(effects) == [("unload", "embed")]  # nobody uses it
    assert made.unloaded("gpu", "embed", 41) == []
    assert made.offered(ask(2, model="small"), 41) == []  # nothing new begins on what leaves
    effects = made.released(0, 42)
    assert (moves(effects), dispatched(effects)) == ([("unload", "small")], [])
    effects = made.unloaded("gpu", "small", 43)
    assert (moves(effects), dispatched(effects)) == ([("load", "big")], [])
    assert dispatched(made.loaded("gpu", "big", 60)) == [(1, "gpu")]


def test_sets_that_fit_side_by_side_are_not_thrown_out() -> None:
    pair = sets(orchestrator=["big=12"], background=["small=6"], vision=["eye=10"])
    made = plan(owned(sets=pair, loaded=frozenset({"small"})))
    assert moves(warm(made, made.offered(ask(0, Level.P1, "big"), 0), 1)) == [("load", "big")]
    made.released(0, 2)
    happened = warm(made, made.offered(ask(1, Level.P0, "eye"), 40), 41)
    assert moves(happened) == [("unload", "small"), ("load", "eye")]  # the longest there goes, and only it


def test_without_sizes_sets_take_turns() -> None:
    made = plan(owned(sets=sets(a=["x"], b=["y"]), loaded=frozenset({"x"})))
    assert moves(warm(made, made.offered(ask(0, Level.P0, "y"), 40), 40)) == [("unload", "x"), ("load", "y")]


def test_what_is_loaded_without_belonging_to_the_new_set_leaves_too() -> None:
    made = plan(owned(loaded=frozenset({"stranger"})))
    assert moves(warm(made, made.offered(ask(0, Level.P1, "big"), 40), 40)) == [
        ("unload", "stranger"),
        ("load", "big"),
    ]


def test_background_alone_changes_nothing_until_it_is_due() -> None:
    made = plan(owned(loaded=frozenset({"big"})))
    made.offered(ask(0, Level.P1, "big"), 0)
    assert made.offered(ask(1, Level.P3, "small", arrived=0.0), 0) == []
    made.ticked(541)
    assert moves(made.released(0, 542)) == [("unload", "big")]


def test_an_empty_gpu_takes_anybody_and_an_idle_one_goes_back_to_its_background_set() -> None:
    assert moves(plan(owned()).offered(ask(0, Level.P3, "small"), 0)) == [("load", "small")]
    made = plan(owned(loaded=frozenset({"big"})))
    assert moves(made.ticked(299)) == []
    assert moves(warm(made, made.ticked(300), 301)) == [("unload", "big"), ("load", "embed"), ("load", "small")]


def test_a_set_stays_for_a_while_and_its_own_requests_go_first() -> None:
    made = plan(owned(loaded=_BOTH))
    warm(made, made.offered(ask(0, Level.P1, "big", arrived=0.0), 40), 40)
    for number, arrived in enumerate((41.0, 41.0, 41.0, 43.0), start=1):
        made.offered(ask(number, Level.P1, "big", arrived=arrived), arrived)
    assert made.offered(ask(9, Level.P1, "small", arrived=42.0), 42) == []
    assert dispatched(made.released(0, 68)) == [(1, "gpu")]  # collected: who shares the model goes first
    assert dispatched(made.released(1, 69.5)) == [(2, "gpu")]  # 9 is due, but the set is not there for 30 s yet
    assert made.ticked(70) == []
    assert dispatched(made.released(2, 71)) == [(3, "gpu")]  # it was there before 9, which 4 was not
    effects = made.released(3, 72)  # nothing new begins on what leaves
    assert (dispatched(effects), moves(effects)) == ([], [("unload", "big")])
    assert (9, "gpu") in dispatched(warm(made, effects, 73))


def test_alternating_requests_change_sets_at_most_twice() -> None:
    made = plan(owned(sets=sets(a=["x"], b=["y"])))
    waiting = [ask(n, Level.P1, "xy"[n % 2], arrived=0.0) for n in range(60)]
    loads: list[str] = []
    running: list[int] = []
    pending = []
    for request in waiting:
        pending += made.offered(request, 0.0)
    now = 0.0
    for _ in range(200):
        happened = warm(made, pending, now)
        loads += [model for what, model in moves(happened) if what == "load"]
        running += [number for number, _ in dispatched(happened)]
        now += 1
        pending = made.ticked(now)
        if running:
            pending += made.released(running.pop(0), now)
    assert not running
    assert not list(made.waiting())
    assert len(loads) <= 3  # the first one and at most two changes


def test_a_waiter_that_hung_up_causes_no_change() -> None:
    made = plan(owned(loaded=_BOTH))
    made.reconfigured([owned(loaded=_BOTH)], 0, lambda model: True)
    plans.offer(made, ask(0, Level.P2, "small", arrived=0.0), ask(1, Level.P2, "small", arrived=0.0), now=5)
    made.offered(ask(2, Level.P2, "big", arrived=5.0), 5)
    made.withdrawn(2, 6)
    assert [moves(made.ticked(float(now))) for now in (10, 40, 200)] == [[], [], []]


def test_one_change_at_a_time() -> None:
    made = plan(owned(sets=sets(a=["x"], b=["y"], c=["z"]), loaded=frozenset({"x"})))
    assert moves(made.offered(ask(0, Level.P0, "y"), 40)) == [("unload", "x")]
    assert moves(made.offered(ask(1, Level.P0, "z"), 41)) == []
    assert moves(made.unloaded("gpu", "x", 42)) == [("load", "y")]
    assert dispatched(made.loaded("gpu", "y", 43)) == [(0, "gpu")]


def test_a_load_that_fails_is_tried_again_and_then_the_request_is_refused() -> None:
    made = plan(owned(sets=sets(a=["x"])))
    assert moves(made.offered(ask(0, Level.P1, "x", arrived=0.0), 0)) == [("load", "x")]
    assert moves(made.loaded("gpu", "x", 1, "answered 500")) == []
    assert moves(made.ticked(2)) == []
    assert moves(made.ticked(3)) == [("load", "x")]
    made.loaded("gpu", "x", 4, "answered 500")
    assert moves(made.ticked(8)) == [("load", "x")]
    assert refused(made.loaded("gpu", "x", 9, "answered 500")) == [(0, Reason.UNAVAILABLE)]
    assert refused(made.offered(ask(1, Level.P1, "x"), 10)) == [(1, Reason.UNAVAILABLE)]
    made.ticked(70)
    assert moves(made.offered(ask(2, Level.P1, "x"), 70)) == [("load", "x")]


def test_a_model_that_left_by_itself_is_loaded_again_when_it_is_asked_for() -> None:
    made = plan(owned(loaded=_BOTH))
    made.reconfigured([owned(loaded=frozenset({"embed"}))], 1)
    effects = made.offered(ask(0, Level.P1, "small"), 2)
    assert (dispatched(effects), moves(effects)) == ([], [("load", "small")])
    assert dispatched(made.loaded("gpu", "small", 3)) == [(0, "gpu")]


def test_a_model_that_does_not_leave_is_asked_again_and_holds_nobody_up_for_ever() -> None:
    made = plan(owned(loaded=frozenset({"small"})))
    assert moves(made.offered(ask(0, Level.P0, "big"), 40)) == [("unload", "small")]
    again = [moves(made.ticked(40.0 + second)) for second in (1, 5, 6, 10)]
    assert again == [[], [("unload", "small")], [], [("unload", "small")]]
    assert moves(made.ticked(101)) == [("load", "big")]


def test_after_a_restart_of_the_backend_its_memory_is_looked_at_anew() -> None:
    made = plan(owned(loaded=frozenset({"big"})))
    made.offered(ask(0, Level.P1, "big"), 0)
    made.reconfigured([owned(available=False)], 1)
    effects = made.reconfigured([owned()], 2)
    made.released(0, 2)
    assert moves(effects) == []
    assert moves(made.offered(ask(1, Level.P1, "big"), 3)) == [("load", "big")]


def test_two_gpus_hold_one_set_each_and_nothing_is_ever_thrown_out() -> None:
    made = plan(owned("a"), owned("b"))
    first = made.offered(ask(0, Level.P3, "small"), 0)
    assert {e.backend for e in first if isinstance(e, Load)} == {"a"}
    happened = warm(made, first, 1, "a")
    second = made.offered(ask(1, Level.P0, "big"), 2)
    assert {e.backend for e in second if isinstance(e, Load)} == {"b"}
    happened += warm(made, second, 3, "b")
    for number in range(2, 40):
        model, level = ("big", Level.P0) if number % 2 else ("small", Level.P3)
        happened += made.offered(ask(number, level, model), float(number))
    assert [m for m in moves(happened) if m[0] == "unload"] == []
    assert not cancelled(happened)


def test_what_another_gpu_holds_as_well_is_what_goes() -> None:
    made = plan(owned("a", loaded=_BOTH), owned("b", loaded=_BOTH))
    made.offered(ask(0, Level.P3, "small", arrived=0.0), 100)  # runs on a
    effects = made.offered(ask(1, Level.P1, "big", arrived=100.0), 100)
    assert {e.backend for e in effects if isinstance(e, Unload)} == {"b"}


def test_background_goes_to_the_cpu_while_its_set_is_not_in_memory() -> None:
    background = sets(background=["small", "embed"])
    made = plan(owned(loaded=frozenset({"big"})), cpu(models=_BOTH, sets=background, slots=1, max_in_flight=1))
    assert dispatched(made.offered(ask(0, Level.P3, "small"), 0)) == [(0, "cpu")]
    assert made.offered(ask(1, Level.P3, "small"), 0) == []
    assert dispatched(made.released(0, 1)) == [(1, "cpu")]


def test_vram_is_counted_once_for_a_model_that_two_sets_share() -> None:
    pair = sets(orchestrator=["big=12", "embed=5"], background=["small=6", "embed=5"])
    made = plan(owned(sets=pair, loaded=frozenset({"big", "embed"})))
    assert moves(warm(made, made.offered(ask(0, model="small"), 0), 0)) == [("load", "small")]
    apart = sets(orchestrator=["big=12", "embed=5"], background=["small=6", "other=5"])
    made = plan(owned(sets=apart, loaded=frozenset({"big", "embed"})))
    happened = warm(made, made.offered(ask(0, Level.P0, "small"), 0), 0)
    assert [what for what, _ in moves(happened)] == ["unload", "unload", "load", "load"]
