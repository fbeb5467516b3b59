"""The scheduler: examples of each rule, and random histories against what must always hold."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from router.priority import OVERFLOW, Level
from router.scheduler import Backend, Granted, Queued, Reason, Refused, Request, Scheduler

_M = frozenset({"m:latest"})


def _gpu(name: str = "gpu", slots: int = 1, **more: object) -> Backend:
    return _backend(name, slots, more)


def _backend(name: str, slots: int, more: dict[str, object]) -> Backend:
    fields = {"name": name, "num_parallel": slots, "models": _M} | more
    return Backend(**fields)  # type: ignore[arg-type]  # keyword names are checked by the dataclass itself


def _cpu(name: str = "cpu", slots: int = 1, **more: object) -> Backend:
    return _backend(name, slots, {"gpu": False} | more)


def _ask(
    number: int, level: Level = Level.P3, *, model: str = "m:latest", avoid: frozenset[str] = frozenset()
) -> Request:
    return Request(number, model, level, float(number), avoid)


def test_free_gpu_before_cpu_and_queue_when_both_are_full() -> None:
    plan = Scheduler([_cpu(), _gpu()])
    outcomes = [plan.offered(_ask(n)) for n in range(4)]
    assert [getattr(o, "backend", None) for o in outcomes] == ["gpu", "cpu", None, None]
    assert [r.id for r in plan.waiting()] == [2, 3]


@pytest.mark.parametrize("level", list(Level))
def test_who_overflows_to_the_cpu_while_the_gpu_is_busy(level: Level) -> None:
    plan = Scheduler([_gpu(), _cpu()])
    plan.offered(_ask(0))
    assert isinstance(plan.offered(_ask(1, level)), Granted) == (level in OVERFLOW)


def test_a_model_that_must_not_run_on_a_cpu_waits_while_there_is_a_gpu_and_runs_there_when_there_is_none() -> None:
    plan = Scheduler([_gpu(), _cpu()], cpu_allowed=lambda model: False)
    plan.offered(_ask(0))
    assert isinstance(plan.offered(_ask(1)), Queued)
    assert plan.reconfigured([_gpu(available=False), _cpu()]) == [Granted(_ask(1), "cpu")]


def test_order_is_by_level_then_by_arrival() -> None:
    plan = Scheduler([_gpu()])
    plan.offered(_ask(0))
    levels = [Level.P3, Level.P1, Level.AUTO, Level.P0, Level.P2, Level.P3, Level.P0]
    for number, level in enumerate(levels, start=1):
        plan.offered(_ask(number, level))
    served, running = [], 0
    for _ in levels:
        (granted,) = plan.released(running)
        running = granted.request.id
        served.append(running)
    assert served == [4, 7, 2, 5, 3, 1, 6]


def test_loaded_before_idle_before_name() -> None:
    assert Scheduler([_gpu("a"), _gpu("b", loaded=_M)]).offered(_ask(0)) == Granted(_ask(0), "b")
    plan = Scheduler([_gpu("a", 2), _gpu("b", 2)])
    assert [plan.offered(_ask(n)) for n in range(4)] == [
        Granted(_ask(0), "a"),
        Granted(_ask(1), "a"),  # where its model is loaded by now
        Granted(_ask(2), "b"),
        Granted(_ask(3), "b"),
    ]


def test_slots_are_per_model() -> None:
    plan = Scheduler([_backend("gpu", 1, {"models": frozenset({"m:latest", "n:latest"})})])
    assert isinstance(plan.offered(_ask(0)), Granted)
    assert isinstance(plan.offered(_ask(1, model="n:latest")), Granted)
    assert isinstance(plan.offered(_ask(2)), Queued)


def test_unmetered_requests_take_no_slot_and_wait_for_none() -> None:
    plan = Scheduler([_gpu()])
    plan.offered(_ask(0))
    assert isinstance(plan.offered(_ask(1)._replace(metered=False)), Granted)
    assert plan.in_flight("gpu") == 2
    assert plan.released(1) == []


@pytest.mark.parametrize(
    ("backends", "model", "reason"),
    [
        ([], "m:latest", Reason.NO_BACKEND),
        ([_gpu()], "other:latest", Reason.UNKNOWN_MODEL),
        ([_gpu(available=False)], "m:latest", Reason.UNAVAILABLE),
        ([_gpu(available=False)], "", Reason.UNAVAILABLE),
        ([_gpu(models=None, available=False)], "other:latest", Reason.UNAVAILABLE),
    ],
)
def test_refusals(backends: list[Backend], model: str, reason: Reason) -> None:
    assert Scheduler(backends).offered(_ask(0, model=model)) == Refused(_ask(0, model=model), reason)


def test_a_request_that_every_backend_failed_is_refused() -> None:
    plan = Scheduler([_gpu("a"), _gpu("b")])
    assert plan.offered(_ask(0, avoid=frozenset({"a"}))) == Granted(_ask(0, avoid=frozenset({"a"})), "b")
    tried = _ask(1, avoid=frozenset({"a", "b"}))
    assert plan.offered(tried) == Refused(tried, Reason.EXHAUSTED)
    assert not plan.possible(tried)


def test_a_queue_has_an_end() -> None:
    plan = Scheduler([_gpu()], max_waiting=2)
    outcomes = [plan.offered(_ask(n)) for n in range(4)]
    assert outcomes[3] == Refused(_ask(3), Reason.QUEUE_FULL)


def test_a_backend_that_comes_back_under_its_name_still_carries_what_runs_there() -> None:
    plan = Scheduler([_gpu()])
    plan.offered(_ask(0))
    plan.reconfigured([])
    plan.reconfigured([_gpu()])
    assert isinstance(plan.offered(_ask(1)), Queued)
    assert plan.released(0) == [Granted(_ask(1), "gpu")]


def test_waiters_are_refused_when_their_last_backend_goes() -> None:
    plan = Scheduler([_gpu()])
    for number in range(3):
        plan.offered(_ask(number))
    outcomes = plan.reconfigured([_gpu(available=False)])
    assert [(o.request.id, getattr(o, "reason", None)) for o in outcomes] == [
        (1, Reason.UNAVAILABLE),
        (2, Reason.UNAVAILABLE),
    ]
    assert not list(plan.waiting())


class History(RuleBasedStateMachine):
    """Requests come, end and hang up while backends come, go and change; a model of the truth is kept beside."""

    alive = Bundle("alive")

    def __init__(self) -> None:
        super().__init__()
        self.views: dict[str, Backend] = {}
        self.allowed = True
        self.plan = Scheduler(cpu_allowed=lambda model: self.allowed)
        self.number = 0
        self.waiting: dict[int, Request] = {}
        self.running: dict[int, tuple[Request, str]] = {}

    def note(self, outcomes: list[Granted | Refused]) -> None:
        """Every outcome is about somebody who waited."""
        for outcome in outcomes:
            request = self.waiting.pop(outcome.request.id)
            if isinstance(outcome, Granted):
                self.running[request.id] = (request, outcome.backend)

    @rule(
        target=alive,
        level=st.sampled_from(Level),
        model=st.sampled_from(["m:latest", "n:latest"]),
        avoid=st.frozensets(st.sampled_from(["a", "b", "c"]), max_size=2),
    )
    def offer(self, level: Level, model: str, avoid: frozenset[str]) -> object:
        """A request comes."""
        self.number += 1
        request = Request(self.number, model, level, float(self.number), avoid)
        outcome = self.plan.offered(request)
        if isinstance(outcome, Refused):
            assert not self.can_run(request)
            return multiple()
        if isinstance(outcome, Granted):
            assert self.views[outcome.backend].available
            self.running[request.id] = (request, outcome.backend)
        else:
            self.waiting[request.id] = request
        return request.id

    @rule(number=consumes(alive))
    def end(self, number: int) -> None:
        """It ends, or hangs up, whichever fits its state."""
        if number in self.running:
            del self.running[number]
            self.note(list(self.plan.released(number)))
        else:
            self.waiting.pop(number, None)
            self.note(list(self.plan.withdrawn(number)))

    @rule(number=consumes(alive))
    def hang_up(self, number: int) -> None:
        """The client goes."""
        self.running.pop(number, None)
        self.waiting.pop(number, None)
        self.note(list(self.plan.withdrawn(number)))

    @rule(
        name=st.sampled_from(["a", "b", "c"]),
        gpu=st.booleans(),
        slots=st.integers(1, 3),
        available=st.booleans(),
        models=st.sampled_from([None, _M, _M | {"n:latest"}]),
    )
    def change(self, name: str, gpu: bool, slots: int, available: bool, models: frozenset[str] | None) -> None:
        """A backend comes or changes."""
        self.views[name] = Backend(name, gpu, slots, available, models)
        self.note(self.plan.reconfigured(self.views.values()))

    @rule(name=st.sampled_from(["a", "b", "c"]))
    def remove(self, name: str) -> None:
        """A backend goes."""
        self.views.pop(name, None)
        self.note(self.plan.reconfigured(self.views.values()))

    @rule(allowed=st.booleans())
    def allow(self, allowed: bool) -> None:
        """The table of models changes."""
        self.allowed = allowed
        self.note(self.plan.reconfigured(self.views.values(), lambda model: self.allowed))

    def eligible(self, request: Request) -> list[Backend]:
        """The rule, written the long way."""
        able = [
            b
            for b in self.views.values()
            if b.available and request.model in (b.models or ()) and b.name not in request.avoid
        ]
        gpus = [b for b in able if b.gpu]
        if gpus and not (self.allowed and request.level in OVERFLOW):
            return gpus
        return able

    def can_run(self, request: Request) -> bool:
        """Anywhere at all, slots aside."""
        return bool(self.eligible(request))

    def used(self) -> Counter[tuple[str, str]]:
        """Slots in use."""
        return Counter((backend, request.model) for request, backend in self.running.values())

    @invariant()
    def nobody_is_lost_or_served_twice(self) -> None:
        """The scheduler and the model agree on who waits and how many run."""
        assert {r.id for r in self.plan.waiting()} == set(self.waiting)
        assert not set(self.waiting) & set(self.running)
        per_backend = Counter(backend for _, backend in self.running.values())
        assert {n: self.plan.in_flight(n) for n in "abc"} == {n: per_backend[n] for n in "abc"}

    @invariant()
    def nobody_waits_beside_a_free_slot(self) -> None:
        """Work is never held back; and everybody who waits could run somewhere."""
        used = self.used()
        for request in self.waiting.values():
            backends = self.eligible(request)
            assert backends
            for backend in backends:
                assert used[backend.name, request.model] >= backend.num_parallel


class Slots(History):
    """The same histories with backends that only come: then slots are never exceeded at any time."""

    @rule(name=st.sampled_from(["a", "b", "c"]))
    def remove(self, name: str) -> None:
        """Nothing: see `change`."""

    @rule(name=st.sampled_from(["a", "b", "c"]), gpu=st.booleans(), slots=st.integers(1, 3))
    def change(self, name: str, gpu: bool, slots: int) -> None:
        """A backend comes once."""
        self.views.setdefault(name, Backend(name, gpu, slots, True, _M | {"n:latest"}))
        self.note(self.plan.reconfigured(self.views.values()))

    @invariant()
    def never_more_than_num_parallel(self) -> None:
        """Per model and backend."""
        for (backend, _), count in self.used().items():
            assert count <= self.views[backend].num_parallel

    def note(self, outcomes: list[Granted | Refused]) -> None:
        """And nobody overtakes: who is served goes before everybody else that this backend could have taken."""
        for outcome in outcomes:
            if isinstance(outcome, Granted):
                backend = self.views[outcome.backend]
                chosen = outcome.request
                for other in self.waiting.values():
                    if other.id != chosen.id and other.model == chosen.model and backend in self.eligible(other):
                        assert chosen.level <= other.level
                        fresh = not chosen.avoid and not other.avoid
                        assert chosen.level < other.level or not fresh or chosen.id < other.id
            super().note([outcome])


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestSlots = Slots.TestCase
TestSlots.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
