"""What would happen to a request, and why: the scheduler's rules in words, without a request.

The verdict is the scheduler's own (`Scheduler.outlook`), and so are the reasons; this module puts them into words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import Field

from contracts import openapi
from crds import priority as scale
from crds.gpubackend import Capability
from router import affinity, outlook, priority, scheduler, status
from router.aliases import NONE, Aliases
from router.backends import book
from router.effects import Reason
from router.fleet import Unfit
from router.host import Host
from router.priority import Level
from router.proxy import hygiene, permit, stall
from router.proxy.message import Own, Reply, Request
from router.proxy.refusal import Refusal


class Choice(status.Wire):
    """One backend and what speaks for or against it."""

    backend: str
    eligible: bool = Field(description="may serve the request, now or when a slot is free")
    free: bool = Field(description="would take it at once")
    why: str


class Explanation(status.Wire):
    """The fate of a request that came now."""

    model: str = Field(description="the normalised name, aliases resolved")
    priority: str
    priority_from: str = Field(description="header, model table or nothing (Auto)")
    verdict: str = Field(description="Dispatch, Queue or Refuse")
    backend: str | None = Field(default=None, description="where it would run, if at once")
    ahead: int = Field(default=0, description="requests in the queue for this model that are at least as urgent")
    why: str
    longest_hold_seconds: float | None = Field(
        default=None,
        description="its answer is ended so many seconds after the first byte, if it holds a GPU for so long; null for "
        "no bound",
    )
    quarantined: int = Field(
        default=0,
        description="requests and schemas for this model that are refused because they ended its runner",
    )
    candidates: list[Choice]


def _none(model: str) -> int:
    return 0


def _unbounded(*, internal: bool) -> float:
    return stall.NEVER


def explain(
    plan: scheduler.Scheduler,
    backends: book.Book,
    model: str,
    header: str | None,
    need: Capability,
    now: float,
    *,
    clamp: Callable[[Level], Level],
    ollama: bool = True,
    session: str = "",
    aliases: Aliases = NONE,
    owners: bool = True,
    hold: float = stall.NEVER,
    quarantined: Callable[[str], int] = _none,
) -> Explanation:
    """For a request that names `model` as a client spells it, with this priority header. `need` is what it asks for,
    `ollama` whether by /api or by /v1; `owners`: reservations name their owners, as in the status. `hold` is its
    longest hold of a GPU in seconds, `quarantined` counts the requests and schemas for a model that are refused for
    what they do to its runner."""
    name = aliases.resolve(model)
    claimed = priority.level(header, name, backends.table)
    level = clamp(claimed)
    source = _source(header, name, backends)
    if level is not claimed:
        source += f", lowered from {claimed.label} to the client's ceiling"
    talk = affinity.session(name, session, 0)
    request = scheduler.SlotRequest(-1, name, level, now, need=need, client="explain", session=talk, ollama=ollama)
    fate, prospects = plan.outlook(request, now)
    entries = {entry.name: entry for entry in backends.entries()}
    last = plan.affinity.last(request.session)
    seen = [
        _choice(p, request, entries, chosen=p.host is fate, last=p.host.backend.name == last, owners=owners)
        for p in prospects
    ]
    ahead = sum(r.level <= level and plan.line(r) == plan.line(request) for r in plan.waiting())
    where = None
    if isinstance(fate, Host):
        verdict, where, why = "Dispatch", fate.backend.name, "a slot is free there"
    elif fate is Reason.QUEUE_FULL:
        verdict, why = "Refuse", "the queue is full of requests that are at least as urgent"
    elif fate is not None:
        verdict, why = "Refuse", "no backend may serve it"
    elif not any(one.eligible for one in seen):
        verdict, why = "Queue", "it waits for a backend to come back"
    else:
        verdict = "Queue"
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
        longest_hold_seconds=None if hold == stall.NEVER else hold,
        quarantined=quarantined(name),
        candidates=seen,
    )


def _source(header: str | None, model: str, backends: book.Book) -> str:
    if header and scale.parse(header) is not None:
        return "header"
    entry = backends.table.find(model)
    if entry is not None and entry.priority is not None:
        return "model table"
    return "nothing (Auto)"


_APIS = ("api", "v1")
_UNFIT = {
    Unfit.UNKNOWN_MODELS: "its models are not known yet",
    Unfit.NO_MODEL: "does not have the model",
    Unfit.OTHER_API: "speaks OpenAI's API alone, and the request comes by /api",
    Unfit.TRIPPED: "requests for the model failed there in a row, or it is busy",
    Unfit.BROKEN: "the model could not be loaded there, again and again",
    Unfit.CPU_NOT_ALLOWED: "a GPU serves the model, and cpuAllowed is not set",
}


def _choice(
    prospect: outlook.Prospect,
    request: scheduler.SlotRequest,
    entries: Mapping[str, book.Entry],
    *,
    chosen: bool,
    last: bool,
    owners: bool,
) -> Choice:
    host, model = prospect.host, request.model
    name, slots = host.backend.name, len(host.running.get(model, ()))
    free = chosen
    if prospect.unfit is Unfit.AWAY:
        entry = entries.get(name)
        drains = entry is not None and entry.spec.drain
        why = "drains" if drains else (entry.reason if entry is not None else "") or "its circuit is open"
    elif prospect.unfit is Unfit.INCAPABLE:
        assert request.need is not None
        why = f"spec.capabilities does not name {request.need.value}"
    elif prospect.unfit is not None:
        why = _UNFIT[prospect.unfit]
    elif not prospect.later:
        why = f"a CPU: {request.level.label} goes there while every GPU is away or reserved for other models"
    elif not prospect.admitted:
        assert host.reservation is not None
        owner = host.reservation.named(owners=owners)
        why = f"reserved{' by ' if owner else ''}{owner}: background waits until it is due"
    elif host.residency is not None and not host.residency.warm(model):
        why = "its model set has to be loaded first"
    elif not host.room(model):
        why = f"{slots} of {host.limit} slots in use" if slots else "as many models or requests as it may have"
    elif host.full() and not chosen:
        why = "as many models as it may have; requests for another one go first"
    else:
        free, why = True, f"{host.limit - slots} slots free"
    if last:
        why += ", and the conversation's last turn ran there"
    return Choice(backend=name, eligible=prospect.later, free=free, why=why)


def routes(
    plan: scheduler.Scheduler,
    backends: book.Book,
    *,
    now: Callable[[], float],
    aliases: Aliases = NONE,
    owners: bool = True,
    held: Callable[..., float] = _unbounded,
    quarantined: Callable[[str], int] = _none,
) -> Mapping[str, Own]:
    """`GET /router/explain?model=&priority=&need=`. `owners` as for `report.Report`, `held` as `stall.Limits.held`,
    `quarantined` as for `explain`."""

    async def show(request: Request) -> Reply:
        query = request.query
        if not query.get("model"):
            raise Refusal(400, "the query needs model, for example /router/explain?model=qwen3:8b&priority=P2")
        try:
            need = Capability(query.get("need") or Capability.GENERATE)
        except ValueError:
            raise Refusal(400, f"need is one of {', '.join(Capability)}") from None
        if (api := query.get("api") or "api") not in _APIS:
            raise Refusal(400, f"api is one of {', '.join(_APIS)}")
        if (rights := request.identity.rights) is not None:
            permit.model_of(rights, request, query["model"], aliases.resolve(query["model"]))
        name = query.get("client") or request.identity.name or request.link.peer

        def clamp(level: Level) -> Level:
            lowered = backends.ceilings.clamp(name, level)
            ceiling = request.identity.ceiling
            return lowered if ceiling is None else max(lowered, priority.LEVELS[ceiling])

        own = hygiene.internal(request) if (word := query.get("internal")) is None else word.lower() in hygiene.YES
        header, talk = query.get("priority"), query.get("session", "")
        said = explain(
            plan,
            backends,
            query["model"],
            header,
            need,
            now(),
            clamp=clamp,
            ollama=api == "api",
            session=talk,
            aliases=aliases,
            owners=owners,
            hold=held(internal=own),
            quarantined=quarantined,
        )
        return Reply(body=said.model_dump_json(by_alias=True).encode())

    return {"/router/explain": show}


def operation() -> openapi.Operation:
    """For the OpenAPI document."""
    parameters = {
        "model": "the model as a client spells it",
        "priority": "the value of X-Ollama-Priority",
        "need": "generate (default), embed or vision",
        "api": "api (default) or v1: which paths it comes by; an OpenAI backend serves /v1 alone",
        "session": "the value of X-Session-Id",
        "internal": "true for a request of Jervis's own, whose hold of a GPU is bounded; as the asking one by default",
        "client": "for whom, as far as ceilings are concerned; the asking client by default",
    }
    return openapi.Operation(
        "GET",
        "/router/explain",
        "What would happen to a request, without one",
        {
            200: openapi.Answer("What would happen, and why", openapi.json(Explanation)),
            400: openapi.Answer("A parameter is missing or unknown"),
        },
        [openapi.parameter(name, text=text, required=name == "model") for name, text in parameters.items()],
    )
