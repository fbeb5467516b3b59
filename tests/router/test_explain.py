"""What /router/explain says is what the scheduler does."""

from __future__ import annotations

import copy
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from crds import gpubackend
from crds.gpubackend import Capability
from router import explain, models, scheduler
from router.backends import book
from router.effects import Dispatch, Refuse
from router.host import Backend
from router.priority import Level
from router.queue import QueueBounds
from tests import thorough
from tests.router import plans

_NAMES = ("m:latest", "n:latest")
_HEADERS = {"P0": Level.P0, "P1": Level.P1, "P2": Level.P2, "P3": Level.P3}


def _book(cpu_allowed: bool) -> book.Book:
    made = book.Book(now=lambda: 0.0)
    made.table = models.Table([gpubackend.ModelSpec(name=name, cpu_allowed=cpu_allowed) for name in _NAMES])
    return made


def _explain(
    plan: scheduler.Scheduler, header: str, *, cpu_allowed: bool, need: Capability, now: float, ollama: bool = True
) -> explain.Explanation:
    return explain.explain(plan, _book(cpu_allowed), "M", header, need, now, clamp=lambda level: level, ollama=ollama)


_SAMPLES = [plans.gpu(name) for name in "abc"] + [plans.gpu("o", openai=True)]
_SAMPLES += [plans.cpu(name) for name in "de"] + [plans.owned("s")]
_BACKENDS = st.builds(
    replace,
    st.sampled_from(_SAMPLES),
    available=st.booleans(),
    num_parallel=st.integers(1, 2),
    max_loaded=st.sampled_from([1, 2, 9]),
    max_in_flight=st.sampled_from([1, 2, 9]),
    models=st.sampled_from([None, frozenset(), plans.M, frozenset(_NAMES)]),
    capabilities=st.sampled_from([frozenset({Capability.GENERATE}), frozenset(Capability)]),
)


@settings(max_examples=thorough.examples(400), deadline=None)
@given(
    backends=st.lists(_BACKENDS, max_size=4, unique_by=lambda b: b.name),
    cpu_allowed=st.booleans(),
    before=st.lists(st.tuples(st.sampled_from(list(Level)), st.sampled_from(_NAMES)), max_size=8),
    reserve=st.booleans(),
    now=st.sampled_from([2.0, 700.0]),
    count=st.sampled_from([1, 4, 20]),
    header=st.sampled_from(list(_HEADERS)),
    need=st.sampled_from(list(Capability)),
    ollama=st.booleans(),
)
def test_the_verdict_is_what_would_happen(
    backends: list[Backend],
    cpu_allowed: bool,
    before: list[tuple[Level, str]],
    reserve: bool,
    now: float,
    count: int,
    header: str,
    need: Capability,
    ollama: bool,
) -> None:
    plan = plans.plan(*backends, cpu_allowed=cpu_allowed, bounds=QueueBounds(count=count))
    if reserve:
        plan.announced("somebody", "", "", "lease", 0.0)
    for number, (level, model) in enumerate(before, 1):
        plan.offered(plans.ask(number, level, model, need=Capability.GENERATE), 1.0)
    said = _explain(plan, header, cpu_allowed=cpu_allowed, need=need, now=now, ollama=ollama)
    request = scheduler.SlotRequest(999, "m:latest", _HEADERS[header], now, need=need, client="explain", ollama=ollama)
    effects = copy.deepcopy(plan).offered(request, now)
    mine = [effect for effect in effects if isinstance(effect, Dispatch | Refuse) and effect.request.id == 999]
    if not mine:
        assert said.verdict == "Queue", said
    elif isinstance(mine[0], Dispatch):
        assert (said.verdict, said.backend) == ("Dispatch", mine[0].backend), said
    else:
        assert said.verdict == "Refuse", said
    assert all(candidate.why for candidate in said.candidates)


def test_asking_changes_nothing() -> None:
    plan = plans.plan(plans.gpu(), plans.cpu())
    for number in range(6):
        plan.offered(plans.ask(number, Level.P1), 0.0)
    before = copy.deepcopy(plan)
    for header in _HEADERS:
        _explain(plan, header, cpu_allowed=True, need=Capability.GENERATE, now=1.0)
    assert [r.id for r in plan.waiting()] == [r.id for r in before.waiting()]
    assert [h.load for h in plan.hosts()] == [h.load for h in before.hosts()]


def test_the_reasons_name_what_stands_in_the_way() -> None:
    plan = plans.plan(
        plans.gpu("away", available=False),
        plans.gpu("other", models=frozenset({"n:latest"})),
        plans.gpu("busy"),
        plans.cpu("spare"),
        plans.gpu("vllm", openai=True),
    )
    plan.offered(plans.ask(1, Level.P1), 0.0)
    said = _explain(plan, "P1", cpu_allowed=True, need=Capability.GENERATE, now=1.0)
    assert (said.verdict, said.priority, said.priority_from) == ("Queue", "P1", "header")
    assert {c.backend: c.why for c in said.candidates} == {
        "away": "its circuit is open",
        "other": "does not have the model",
        "busy": "1 of 1 slots in use",
        "spare": "a CPU: P1 goes there while every GPU is away or reserved for other models",
        "vllm": "speaks OpenAI's API alone, and the request comes by /api",
    }
    moved = _explain(plan, "P3", cpu_allowed=True, need=Capability.GENERATE, now=1.0)
    assert (moved.verdict, moved.backend) == ("Dispatch", "spare")


def test_a_free_slot_is_no_promise_where_another_model_waits_for_its_turn() -> None:
    both = frozenset(_NAMES)
    plan = plans.plan(plans.gpu(slots=2, models=both, max_loaded=1))
    plan.offered(plans.ask(0, Level.P2), 0.0)
    plan.offered(plans.ask(1, Level.P1, "n:latest"), 1.0)
    said = _explain(plan, "P2", cpu_allowed=True, need=Capability.GENERATE, now=2.0)
    assert (said.verdict, said.candidates[0].free) == ("Queue", False)
    assert said.candidates[0].why == "as many models as it may have; requests for another one go first"
    assert _explain(plan, "P0", cpu_allowed=True, need=Capability.GENERATE, now=2.0).verdict == "Dispatch"
