"""What survives: reservations over a restart, those who wait for a GPU that goes, slots; and who may dispatch."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from crds import gpubackend
from crds.gpubackend import Capability
from router import dispatch, metrics, scheduler
from router.backends import book, environment
from router.effects import Announced, Effect, Held, Reason
from router.host import Backend
from router.priority import Level
from router.proxy import forward, message, parts, stall
from router.proxy.budget import Budget
from router.proxy.call import Call
from router.proxy.paths import Kind
from router.proxy.pool import Pool, Pools, Unreachable
from router.proxy.quarantine import Quarantine
from router.reservation import Verdict
from tests.router.plans import M, ask, dispatched, gpu, offer, owned, plan, refused, reserved, written

_HELD = Held("job", "id", 1000.0, "")


def _announced(effects: list[Effect]) -> list[tuple[str, bool]]:
    """Lease, and whether it is ready."""
    return [(one.lease_id, not one.error) for one in effects if isinstance(one, Announced)]


# Reservations.


@pytest.mark.parametrize("backend", [gpu(), owned()], ids=["without model sets", "with model sets"])
def test_a_reservation_is_taken_up_after_a_restart_on_every_kind_of_gpu(backend: Backend) -> None:
    held = _HELD._replace(model_set="orchestrator" if backend.sets else "")
    made = scheduler.Scheduler()
    made.restored("gpu", held)
    away = replace(backend, available=False)
    assert written(made.reconfigured([away], 1.0)) == []
    effects = made.reconfigured([backend], 2.0)
    assert [one.held for one in written(effects)] == [held]
    answer, _ = made.announced("stranger", "", "", "other", 3.0)
    assert answer.verdict is Verdict.TAKEN
    renewed, _ = made.announced("job", "", "id", "other", 4.0)
    assert reserved(renewed).id == "id"


@pytest.mark.parametrize("backend", [gpu(), owned()], ids=["without model sets", "with model sets"])
def test_a_reservation_that_ended_meanwhile_is_cleared_from_the_status(backend: Backend) -> None:
    made = scheduler.Scheduler()
    made.restored("gpu", _HELD)
    assert [one.held for one in written(made.reconfigured([backend], 1000.0))] == [None]


def test_who_announced_hears_that_the_backend_was_removed() -> None:
    made = plan(owned())
    answer, _ = made.announced("job", "", "", "id", 1.0)
    assert not reserved(answer).ready
    assert _announced(made.reconfigured([], 2.0)) == [("id", False)]


def test_who_announced_hears_of_a_lease_that_another_gpu_took_over() -> None:
    first, second = owned("a"), replace(owned("b"), loaded=frozenset({"big"}))
    made = plan(first)
    made.announced("job", "", "", "id", 1.0)
    made.reconfigured([replace(first, available=False), second], 2.0)
    answer, effects = made.announced("job", "", "id", "other", 3.0)
    assert (reserved(answer).backend, reserved(answer).ready) == ("b", True)
    assert _announced(effects) == [("id", True)]


def test_who_announced_hears_that_no_other_gpu_can_take_over() -> None:
    made = plan(owned("a"))
    made.announced("job", "", "", "id", 1.0)
    made.reconfigured([replace(owned("a"), available=False)], 2.0)
    answer, effects = made.announced("job", "", "id", "other", 3.0)
    assert answer.verdict is Verdict.UNAVAILABLE
    assert _announced(effects) == [("id", False)]


def test_a_gpu_that_cannot_load_what_it_is_reserved_for_is_reserved_no_more() -> None:
    made = plan(owned())
    made.announced("job", "", "", "id", 1.0)
    effects = made.loaded("gpu", "big", 2.0, "out of memory")
    assert _announced(effects)[0] == ("id", False)
    assert [one.held for one in written(effects)][-1] is None


# Waiting for what comes back.


def test_waiters_and_newcomers_wait_for_a_backend_for_as_long_as_the_grace() -> None:
    here, away = gpu(expected=True), gpu(expected=True, available=False)
    made = plan(here, grace=30.0)
    made.offered(ask(0), 0.0)
    made.offered(ask(1), 1.0)
    assert refused(made.reconfigured([away], 2.0)) == []
    assert refused(made.offered(ask(3), 3.0)) == []
    assert refused(made.ticked(31.9)) == []
    assert sorted(refused(made.ticked(32.0))) == [(1, Reason.UNAVAILABLE), (3, Reason.UNAVAILABLE)]
    assert refused(made.offered(ask(4), 33.0)) == [(4, Reason.UNAVAILABLE)]
    made.released(0, 34.0)
    assert made.reconfigured([here], 34.0) == []
    assert dispatched(made.offered(ask(5), 35.0)) == [(5, "gpu")]


def test_an_object_that_changes_its_address_or_is_replaced_loses_nobody() -> None:
    asked = gpu(expected=True)
    unknown = gpu("gpu", models=None, expected=True, available=False)  # as one is that was not probed yet
    for change in ([unknown], []):
        made = plan(asked, grace=30.0)
        offer(made, ask(0, Level.P0), ask(1, Level.P3), now=0.0)
        assert refused(made.reconfigured(change, 1.0)) == []
        assert refused(made.offered(ask(2, Level.P0), 1.5)) == []
        assert refused(made.reconfigured([unknown], 2.0)) == []
        made.released(0, 2.5)  # its connection broke
        assert dispatched(made.reconfigured([asked], 3.0)) == [(2, "gpu")]
        assert dispatched(made.released(2, 4.0)) == [(1, "gpu")]
        made.reconfigured([], 5.0)
        assert refused(made.offered(ask(3), 5.0)) == []
        assert [number for number, _ in refused(made.ticked(36.0))] == [3]


def test_no_request_waits_for_a_backend_that_drains_or_never_was_there_or_never_had_the_model() -> None:
    made = plan(gpu(), grace=30.0)
    made.reconfigured([gpu(available=False, expected=False)], 1.0)
    assert refused(made.offered(ask(2), 2.0)) == [(2, Reason.UNAVAILABLE)]
    made.reconfigured([gpu(available=False, expected=True)], 3.0)
    assert refused(made.offered(ask(4, model="other:latest"), 4.0)) == [(4, Reason.UNKNOWN_MODEL)]
    never = plan(gpu(available=False, expected=True), grace=30.0)
    assert refused(never.offered(ask(5), 5.0)) == [(5, Reason.UNAVAILABLE)]


def test_a_model_that_fails_is_kept_from_one_backend_and_then_tried_one_at_a_time() -> None:
    both = M | {"other:latest"}
    made = plan(gpu(slots=4, models=both, tripped=M, expected=True), grace=30.0)
    assert dispatched(made.offered(ask(1), 1.0)) == []
    assert dispatched(made.offered(ask(2, model="other:latest"), 2.0)) == [(2, "gpu")]
    made.offered(ask(3), 3.0)
    assert dispatched(made.reconfigured([gpu(slots=4, models=both, cautious=M, expected=True)], 4.0)) == [(1, "gpu")]
    assert dispatched(made.released(1, 5.0)) == [(3, "gpu")]


# Who decides.


async def test_a_router_that_lost_its_lease_dispatches_nothing_although_a_slot_comes_free() -> None:
    deciding = True
    made = plan(gpu())
    shell = dispatch.Dispatcher(made, now=lambda: 0.0, deciding=lambda: deciding)
    assert shell.offer(ask(1)) == "gpu"
    assert shell.offer(ask(2)) is None
    deciding = False
    shell.release(1)
    with pytest.raises(dispatch.Turned) as turned:
        await shell.granted(ask(2))
    assert turned.value.reason is Reason.STEPPED_DOWN
    assert made.in_flight("gpu") == 0
    assert shell.offer(ask(3)) is None
    with pytest.raises(dispatch.Turned):
        await shell.granted(ask(3))


# Slots.


async def test_an_attempt_that_fails_before_it_is_made_gives_its_slot_back() -> None:
    backends = book.Book(now=lambda: 0.0)
    backends.put("b", environment.parse({"url": "http://127.0.0.1:9", "kind": "GPU"}, "b"))
    entry = backends.find("b")
    assert entry is not None
    backends.observed(entry, book.Observation(True, tags=({"name": "m"},)))
    made = scheduler.Scheduler()
    shell = dispatch.Dispatcher(made, now=lambda: 0.0)
    shell.reconfigure(backends.views(), backends.table)

    def placed(backend: str) -> None:
        raise KeyError(backend)

    forwarder = forward.Forwarder(
        parts.Parts(
            book=backends,
            dispatcher=shell,
            pools=Pools(),
            watch=stall.Watch(now=lambda: 0.0),
            metrics=metrics.Metrics(CollectorRegistry(), now=lambda: 0.0),
            limits=stall.Limits(),
            budget=Budget(),
            quarantine=Quarantine(seconds=60, now=lambda: 0.0),
            numbers=itertools.count(1),
            now=lambda: 0.0,
            draining=lambda: False,
            placed=placed,
        )
    )
    request = message.Request(None, b"POST", b"/api/chat", b"", {})  # type: ignore[arg-type]  # no client is needed
    call = Call(request, "/api/chat", Kind.INFERENCE, "id", "m", "m:latest", Level.P0, True, 0.0, user=True)
    assert call.need is Capability.GENERATE
    with pytest.raises(KeyError):
        forwarder.launch(call)
    assert made.in_flight("b") == 0
    await asyncio.sleep(0)


# One object.


@pytest.mark.parametrize(
    "url",
    ["http://gpu\u2100.lab:11434", "http://[foo]:1", "http://[::1", "http://gpu:99999", "http://gpu:x", "ftp://gpu"],
)
def test_a_url_that_cannot_be_called_is_said_to_be_invalid(url: str) -> None:
    with pytest.raises(environment.Invalid, match="url"):
        environment.parse({"url": url, "kind": "GPU"}, "spec")


@given(st.text(max_size=40), st.text("[]:@/.%#?x1\u2100", max_size=20))
def test_any_url_is_read_or_invalid(text: str, odd: str) -> None:
    for url in (text, "http://" + odd, "http://" + text):
        try:
            spec = environment.parse({"url": url, "kind": "GPU"}, "spec")
        except environment.Invalid:
            continue
        assert isinstance(spec, gpubackend.Spec)
        Pools().of("b", spec.url)


async def test_a_host_that_is_no_name_is_unreachable() -> None:
    for host in ("gpu..lab", "x" * 70 + ".lab", "."):
        with pytest.raises(Unreachable):
            await Pool(f"http://{host}:9").connect()
