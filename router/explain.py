"""What would happen to a request, and why: the scheduler's rules in words, without a request.

It reads the scheduler's book and changes nothing. Its verdict follows the order of `scheduler.Scheduler.offered`; a
test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field

from crds import priority as scale
from crds.gpubackend import Capability
from router import fleet, models, priority, scheduler, status
from router.backends import book
from router.host import Host
from router.priority import Level
from router.proxy.message import Reply, Request
from router.proxy.refusal import Refusal
from router.proxy.server import Own


class Candidate(status.Wire):
    """One backend and what speaks for or against it."""

    backend: str
    eligible: bool = Field(description="may serve the request, now or when a slot is free")
    free: bool = Field(description="would take it at once")
    why: str


class Explanation(status.Wire):
    """The fate of a request that came now."""

    model: str = Field(description="the normalised name")
    priority: str
    priority_from: str = Field(description="header, model table or nothing (Auto)")
    verdict: str = Field(description="Dispatch, Queue or Refuse")
    backend: str | None = Field(default=None, description="where it would run, if at once")
    ahead: int = Field(default=0, description="requests in the queue for this model that are at least as urgent")
    why: str
    candidates: list[Candidate]


def explain(
    plan: scheduler.Scheduler,
    backends: book.Book,
    model: str,
    header: str | None,
    need: Capability,
    now: float,
    *,
    clamp: Callable[[Level], Level],
) -> Explanation:
    """For a request that names `model` as a client spells it, with this priority header. `need` is what it asks for."""
    name = models.normalise(model)
    claimed = priority.level(header, name, backends.table)
    level = clamp(claimed)
    source = _source(header, name, backends)
    if level is not claimed:
        source += f", lowered from {claimed.label} to the client's ceiling"
    request = scheduler.Request(0, name, level, now, need=need, client="explain")
    hosts = list(plan.hosts())
    entries = {entry.name: entry for entry in backends.entries()}
    gpus = any(h.backend.gpu and _fits(h, request, entries, now) == "" and not fleet.closed(h, name) for h in hosts)
    owned = any(h.backend.gpu and name in (h.backend.models or ()) for h in hosts)
    on_cpu = not owned or backends.table.cpu_allowed(name)
    seen = [_candidate(host, request, entries, now, gpus=gpus, on_cpu=on_cpu) for host in hosts]
    rivals = [r for r in plan.waiting() if (r.model, r.need) == (name, need) and r.level <= level]
    ahead = len(rivals)
    # Those ahead who wait for the GPU do not stand in the way to a CPU.
    free = [
        host
        for host, one in zip(hosts, seen, strict=True)
        if one.free and all(not host.backend.gpu and _waits_for_gpu(rival, gpus=gpus) for rival in rivals)
    ]
    if not any(one.eligible for one in seen) and plan.awaited(request, now):
        verdict, where, why = "Queue", None, "it waits for a backend to come back"
    elif not any(one.eligible for one in seen):
        verdict, where, why = "Refuse", None, "no backend may serve it"
    elif free:
        best = min(
            free,
            key=lambda h: (not h.backend.gpu, not h.has(name), h.load / h.backend.weight, h.backend.name),
        )
        verdict, where, why = "Dispatch", best.backend.name, "a slot is free there"
    else:
        verdict, where = "Queue", None
        why = (
            f"{ahead} requests are ahead of it"
            if ahead
            else "; ".join(f"{o.backend}: {o.why}" for o in seen if o.eligible)
        )
    return Explanation(
        model=name,
        priority=level.label,
        priority_from=source,
        verdict=verdict,
        backend=where,
        ahead=ahead,
        why=why,
        candidates=seen,
    )


def _source(header: str | None, model: str, backends: book.Book) -> str:
    if header and scale.parse(header) is not None:
        return "header"
    entry = backends.table.find(model)
    if entry is not None and entry.priority is not None:
        return "model table"
    return "nothing (Auto)"


def _fits(host: Host, request: scheduler.Request, entries: Mapping[str, book.Entry], now: float) -> str:
    """Why it cannot serve that at all; empty when it can."""
    backend = host.backend
    if request.model and request.model not in (backend.models or ()):
        return "its models are not known yet" if backend.models is None else "does not have the model"
    if not backend.available:
        entry = entries.get(backend.name)
        if entry is not None and entry.spec.drain:
            return "drains"
        return (entry.reason if entry is not None else "") or "its circuit is open"
    if request.need is not None and request.need not in backend.capabilities:
        return f"spec.capabilities does not name {request.need.value}"
    if request.model in backend.tripped:
        return "requests for the model failed there in a row, or it is busy"
    if host.residency is not None and host.residency.broken(request.model, now):
        return "the model could not be loaded there, again and again"
    return ""


def _waits_for_gpu(request: scheduler.Request, *, gpus: bool) -> bool:
    """A GPU may serve it, and a CPU that is free changes nothing about that."""
    return gpus and request.level not in priority.OVERFLOW and request.need is not Capability.EMBED


def _candidate(
    host: Host,
    request: scheduler.Request,
    entries: Mapping[str, book.Entry],
    now: float,
    *,
    gpus: bool,
    on_cpu: bool,
) -> Candidate:
    backend, model = host.backend, request.model
    eligible, free = False, False
    if why := _fits(host, request, entries, now):
        return Candidate(backend=backend.name, eligible=False, free=False, why=why)
    if not backend.gpu and not on_cpu:
        why = "a GPU serves the model, and cpuAllowed is not set"
    elif not backend.gpu and _waits_for_gpu(request, gpus=gpus):
        why = f"{request.level.label} waits for the GPU"
    elif backend.gpu and host.lease is not None and request.level > Level.P2:
        eligible, why = True, f"reserved by {host.lease.owner}: background waits until it is due"
    elif host.residency is not None and not host.residency.warm(model):
        eligible, why = True, "its model set has to be loaded first"
    elif not host.room(model):
        slots = len(host.running.get(model, ()))
        eligible = True
        why = f"{slots} of {host.limit} slots in use" if slots else "as many models or requests as it may have"
    else:
        eligible, free, why = True, True, f"{host.limit - len(host.running.get(model, ()))} slots free"
    return Candidate(backend=backend.name, eligible=eligible, free=free, why=why)


def routes(plan: scheduler.Scheduler, backends: book.Book, *, now: Callable[[], float]) -> Mapping[str, Own]:
    """`GET /router/explain?model=&priority=&need=`."""

    async def show(request: Request) -> Reply:
        query = request.query
        if not query.get("model"):
            raise Refusal(400, "the query needs model, for example /router/explain?model=qwen3:8b&priority=P2")
        try:
            need = Capability(query.get("need") or Capability.GENERATE)
        except ValueError:
            raise Refusal(400, f"need is one of {', '.join(Capability)}") from None
        name = query.get("client") or request.identity.name or request.link.peer

        def clamp(level: Level) -> Level:
            lowered = backends.ceilings.clamp(name, level)
            ceiling = request.identity.ceiling
            return lowered if ceiling is None else max(lowered, priority.LEVELS[ceiling])

        said = explain(plan, backends, query["model"], query.get("priority"), need, now(), clamp=clamp)
        return Reply(body=said.model_dump_json(by_alias=True).encode())

    return {"/router/explain": show}


def openapi() -> tuple[dict[str, Any], dict[str, Any]]:
    """Paths and schemas."""
    schema = Explanation.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
    parts = schema.pop("$defs", {})

    def parameter(name: str, text: str, *, required: bool = False) -> dict[str, Any]:
        return {"name": name, "in": "query", "required": required, "description": text, "schema": {"type": "string"}}

    answers = {"200": "What would happen, and why", "400": "A parameter is missing or unknown"}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Explanation"}}}
    path = {
        "get": {
            "summary": "What would happen to a request, without one",
            "parameters": [
                parameter("model", "the model as a client spells it", required=True),
                parameter("priority", "the value of X-Ollama-Priority"),
                parameter("need", "generate (default), embed or vision"),
                parameter("client", "for whom, as far as ceilings are concerned; the asking client by default"),
            ],
            "responses": {
                code: {"description": text, **({"content": content} if code == "200" else {})}
                for code, text in answers.items()
            },
        }
    }
    return {"/router/explain": path}, {**parts, "Explanation": schema}
