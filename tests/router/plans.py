"""Short words for tests of the scheduler: backends, requests, and what came of an event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from router.effects import Cancel, Dispatch, Effect, Load, Reason, Refuse, Unload, WriteStatus
from router.host import Backend
from router.priority import Level
from router.reservation import Answer, Reservation
from router.residency import LoadableSet, Member
from router.scheduler import Scheduler
from router.waiting import SlotRequest

M = frozenset({"m:latest"})
GIB = 2**30


def gpu(name: str = "gpu", slots: int = 1, **more: Any) -> Backend:
    """A GPU that loads what it is asked for."""
    return replace(Backend(name, num_parallel=slots, models=M), **more)


def cpu(name: str = "cpu", slots: int = 1, **more: Any) -> Backend:
    """A CPU."""
    return gpu(name, slots, gpu=False, **more)


def sets(**named: Iterable[str]) -> tuple[LoadableSet, ...]:
    """Model sets by name; a model is `name` or `name=GiB`."""
    built = []
    for name, models in named.items():
        members = []
        for model in models:
            text, _, size = model.partition("=")
            urgency = 0 if name == "orchestrator" else 3
            members.append(Member(text, int(float(size) * GIB) if size else None, urgency=urgency))
        built.append(LoadableSet(name, tuple(members)))
    return tuple(built)


def owned(name: str = "gpu", slots: int = 1, **more: Any) -> Backend:
    """A GPU of 24 GiB whose two sets take turns: `big` for the orchestrator, `small` and `embed` for the background."""
    pair = more.pop("sets", None) or sets(orchestrator=["big=20"], background=["small=6", "embed=5"])
    models = frozenset(member.name for one in pair for member in one.members)
    return gpu(name, slots, models=models, sets=pair, vram=24 * GIB, max_loaded=4, **more)


def plan(*backends: Backend, cpu_allowed: bool = True, **more: Any) -> Scheduler:
    """A scheduler with these backends at time 0."""
    made = Scheduler(**more)
    made.reconfigured(backends, 0.0, lambda model: cpu_allowed)
    return made


def ask(number: int, level: Level = Level.P3, model: str = "m:latest", **more: Any) -> SlotRequest:
    """A request that arrives at the second of its number, unless told otherwise."""
    return SlotRequest(number, model, level, **{"arrived": float(number), **more})


def offer(made: Scheduler, *requests: SlotRequest, now: float) -> None:
    """Requests that come one after the other; what follows from them is not looked at."""
    for request in requests:
        made.offered(request, now)


def served(made: Scheduler, running: int, times: int, now: float) -> list[int]:
    """Who gets the slot of `running`, who gets it next, and so on."""
    order = []
    for _ in range(times):
        ((running, _backend),) = dispatched(made.released(running, now))
        order.append(running)
    return order


def reserved(answer: Answer) -> Reservation:
    """The reservation that an answer is about."""
    assert answer.reservation is not None
    return answer.reservation


def dispatched(effects: Iterable[Effect]) -> list[tuple[int, str]]:
    """(request, backend) of everybody who may run."""
    return [(e.request.id, e.backend) for e in effects if isinstance(e, Dispatch)]


def refused(effects: Iterable[Effect]) -> list[tuple[int, Reason]]:
    """(request, reason) of everybody who was refused."""
    return [(e.request.id, e.reason) for e in effects if isinstance(e, Refuse)]


def moves(effects: Iterable[Effect]) -> list[tuple[str, str]]:
    """("load" or "unload", model) in order."""
    return [
        ("load" if isinstance(e, Load) else "unload", e.model)
        for e in effects
        if isinstance(e, Load) or type(e) is Unload
    ]


def cancelled(effects: Iterable[Effect]) -> list[tuple[int, bool]]:
    """(request, visibly) of everybody who must give way."""
    return [(e.request.id, e.visible) for e in effects if isinstance(e, Cancel)]


def written(effects: Iterable[Effect]) -> list[WriteStatus]:
    """What statuses should say."""
    return [e for e in effects if isinstance(e, WriteStatus)]


def warm(made: Scheduler, effects: Iterable[Effect], now: float, backend: str = "gpu") -> list[Effect]:
    """Carry out every load and unload until there is none; everything that happened meanwhile."""
    happened: list[Effect] = []
    todo = list(effects)
    while todo:
        effect = todo.pop(0)
        happened.append(effect)
        if isinstance(effect, Load):
            todo += made.loaded(backend, effect.model, now)
        elif type(effect) is Unload:
            todo += made.unloaded(backend, effect.model, now)
    return happened
