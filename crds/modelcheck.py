"""Is the model of each role there, and can it do what the role needs? By role and backend. Pure.

The router asks its backends and shows the result at /router/status; `kubectl jervis models --url` asks a server that
no installation knows. Both give what they read to `check`.

Source: Ollama's API page, "Show Model Information": `capabilities` (since 0.6.4) and `model_info`, whose keys begin
with `general.architecture`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from crds import modelaliases, modelnames, modelroles
from crds.gpubackend import Capability, Engine
from crds.modelroles import Need


class Verdict(StrEnum):
    """From good to bad."""

    OK = "Ok"
    UNKNOWN = "Unknown"
    """The server does not say, or was not asked yet."""
    LESS = "Less"
    """The role works, with less."""
    STOPS = "Stops"
    """What the role does, does not happen."""


_ORDER = list(Verdict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server says about one model. None: it does not say."""

    capabilities: frozenset[str] | None = None
    window: int | None = None
    """Tokens for which the model was trained; Ollama lowers a larger num_ctx to it."""
    dimensions: int | None = None
    """Numbers of a vector, where the model embeds."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One server. `listed` are the normalised names of the models that it serves, None: not known. By such a name
    `loads` has the window in tokens with which a GpuBackend loads the model, and `digests` the digest of its files, the
    same for copies. `away` says why it gets no requests at the moment, empty while it gets some."""

    name: str
    listed: frozenset[str] | None
    facts: Mapping[str, Facts]
    openai: bool = False
    loads: Mapping[str, int] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    away: str = ""
    capabilities: frozenset[Capability] = frozenset(Capability)


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class Row(_Wire):
    """One role on one backend."""

    role: str
    model: str
    backend: str
    verdict: Verdict
    present: bool | None = Field(default=None, description="null: the backend was not asked yet")
    served: bool = Field(default=False, description="whether requests of the role go there at the moment")
    window: int | None = Field(default=None, description="tokens that the model has there")
    needed: int = Field(default=0, description="tokens that the role asks for or needs")
    tools: bool | None = None
    thinking: bool | None = None
    vision: bool | None = None
    dimensions: int | None = Field(default=None, description="numbers of a vector")
    problems: tuple[str, ...] = ()


class RoleVerdict(_Wire):
    """One role over all backends: the best of those that serve it, and at most `Less` where they differ."""

    role: str
    model: str
    verdict: Verdict
    problem: str = Field(default="", description="what is wrong, in words; empty when nothing is")
    missing: str = Field(default="", description="the model that no backend has, without aliases")
    stops: str = Field(default="", description="what does not happen because of it")


class Report(_Wire):
    """All roles that have a model."""

    roles: tuple[RoleVerdict, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def stops(self) -> bool:
        """Whether something does not happen at all."""
        return any(one.verdict is Verdict.STOPS for one in self.roles)


def facts(show: Mapping[str, Any]) -> Facts:
    """From the answer of `POST /api/show`."""
    info = show.get("model_info")
    info = info if isinstance(info, Mapping) else {}
    kind = str(info.get("general.architecture", ""))
    capable = show.get("capabilities")
    capabilities = frozenset(map(str, capable)) if isinstance(capable, list) else None
    embeds = capabilities is not None and Need.EMBEDDING in capabilities
    return Facts(
        capabilities,
        _number(info.get(f"{kind}.context_length")),
        _number(info.get(f"{kind}.embedding_length")) if embeds else None,
    )


def check(
    roles: Iterable[modelroles.Assigned],
    backends: Sequence[Backend],
    aliases: modelaliases.Aliases = modelaliases.NONE,
    *,
    whole: bool = True,
) -> Report:
    """`aliases` are those of the router. `whole`: these are all backends; otherwise Ollama servers alone were asked."""
    roles = tuple(roles)
    windows = {aliases.resolve(assigned.model): assigned.num_ctx for assigned in roles}
    copies = {backend.name: _copies(backend, windows) for backend in backends}
    rows: list[Row] = []
    verdicts: list[RoleVerdict] = []
    for assigned in roles:
        name, engines = aliases.resolve(assigned.model), _engines(modelroles.role(assigned.role))
        able = [one for one in backends if (Engine.OPENAI if one.openai else Engine.OLLAMA) in engines]
        own = _agreeing([_row(assigned, name, one, copies[one.name].get(name, "")) for one in able])
        if Need.EMBEDDING in modelroles.role(assigned.role).needs:
            own = _of_one_file(own, {one.name: one.digests.get(name, "") for one in able})
        rows += own
        if own:
            key = modelnames.normalise(assigned.model)
            target = aliases.target(key) if key in aliases else assigned.model
            verdicts.append(_verdict(assigned, target, own))
        else:
            verdicts.append(_unserved(assigned, engines, whole=whole))
    return Report(roles=tuple(verdicts), rows=tuple(rows))


def _engines(role: modelroles.Role) -> tuple[Engine, ...]:
    """Those whose API has what the role asks: Ollama has no /v1/rerank, and `router.client` asks the others only for
    vectors beside that."""
    if Need.RERANK in role.needs:
        return (Engine.OPENAI,)
    return (Engine.OLLAMA, Engine.OPENAI) if Need.EMBEDDING in role.needs else (Engine.OLLAMA,)


def _capability(role: modelroles.Role) -> Capability:
    """What the router wants of a backend for its requests."""
    if Need.EMBEDDING in role.needs:
        return Capability.EMBED
    return Capability.VISION if Need.VISION in role.needs else Capability.GENERATE


def _copies(backend: Backend, windows: Mapping[str, int | None]) -> dict[str, str]:
    """The problem of each model that is another one's copy there, with another window, by normalised name. Ollama has
    one runner for both, and compares its options with each request.

    `windows` are those that are asked for, by the names that roles use.
    """
    loaded = {name: (backend.digests.get(name), backend.loads.get(name, windows[name])) for name in windows}
    problems = {}
    for name, (digest, window) in loaded.items():
        others = [other for other, (same, size) in loaded.items() if digest and same == digest and size != window]
        if others:
            problems[name] = (
                f"{others[0]} is the same model there, with another window: each change between them loads it anew"
            )
    return problems


def _row(assigned: modelroles.Assigned, name: str, backend: Backend, copied: str) -> Row:
    role = modelroles.role(assigned.role)
    needed = max(assigned.num_ctx or 0, role.window)
    known = {"role": role.name, "model": assigned.model, "backend": backend.name, "needed": needed}
    away = (f"no request goes to it now: {backend.away}",) if backend.away else ()
    if backend.listed is None:
        return Row(**known, verdict=Verdict.UNKNOWN, problems=away or ("the backend was not asked yet",))
    if name not in backend.listed:
        return Row(**known, verdict=Verdict.STOPS, present=False, problems=("it does not have the model",))
    if (capability := _capability(role)) not in backend.capabilities:
        problem = f"its spec.capabilities do not name {capability}"
        return Row(**known, verdict=Verdict.STOPS, present=True, problems=(problem,))
    if away:
        return Row(**known, verdict=Verdict.UNKNOWN, present=True, problems=away)
    said = backend.facts.get(name, Facts())
    window = min((one for one in (said.window, backend.loads.get(name)) if one is not None), default=None)
    made_for = assigned.num_ctx or role.window
    verdict, problems = _judged(role, said, window, made_for, openai=backend.openai)
    if copied:
        verdict, problems = max(verdict, Verdict.LESS, key=_ORDER.index), [*problems, copied]
    has = said.capabilities
    return Row(
        **known,
        verdict=verdict,
        present=True,
        served=True,
        window=window,
        tools=None if has is None else Need.TOOLS in has,
        thinking=None if has is None else "thinking" in has,
        vision=None if has is None else Need.VISION in has,
        dimensions=said.dimensions,
        problems=tuple(problems),
    )


def _judged(
    role: modelroles.Role, said: Facts, window: int | None, made_for: int, *, openai: bool
) -> tuple[Verdict, list[str]]:
    verdict, problems = Verdict.OK, []
    # A server with OpenAI's API lists its models, and that is all.
    if said.capabilities is None and not openai:
        verdict, problems = Verdict.UNKNOWN, ["the server does not say what the model can do"]
    if window is not None and window < max(made_for, role.window):
        verdict, said_window = Verdict.LESS, f"its window is {window} tokens there and"
        problems.append(
            f"{said_window} prompts are made for {made_for}: longer ones are refused"
            if window < made_for
            else f"{said_window} the role wants {role.window}: it is told less at a time"
        )
    if said.capabilities is not None:
        for need in role.wishes:
            if need not in said.capabilities:
                verdict = Verdict.LESS
                problems.append(f"it has no {need}")
        for need in role.needs:
            if need not in said.capabilities:
                verdict = Verdict.STOPS
                problems.append(f"it has no {need}")
    return verdict, problems


def _agreeing(rows: list[Row]) -> list[Row]:
    """Vectors of different lengths cannot be compared: one server with another length spoils the index."""
    lengths = sorted({row.dimensions for row in rows if row.dimensions is not None})
    if len(lengths) < 2:
        return rows
    words = "vectors have different lengths on different backends: " + ", ".join(map(str, lengths))
    return [
        row if row.dimensions is None else row.model_copy(
            update={"verdict": Verdict.STOPS, "problems": (*row.problems, words)}
        )
        for row in rows
    ]  # fmt: skip


def _of_one_file(rows: list[Row], digests: Mapping[str, str]) -> list[Row]:
    """Nor can vectors of different files, as long as they may be. `digests` by backend, empty: not known."""
    known = {row.backend for row in rows if row.served and digests[row.backend]}
    one_of_each = {digests[name]: name for name in sorted(known, reverse=True)}
    if len(one_of_each) < 2:
        return rows
    words = f"different files under that name on {' and '.join(sorted(one_of_each.values()))}"
    return [
        row if row.backend not in known else row.model_copy(
            update={"verdict": max(row.verdict, Verdict.LESS, key=_ORDER.index), "problems": (*row.problems, words)}
        )
        for row in rows
    ]  # fmt: skip


def _verdict(assigned: modelroles.Assigned, target: str, rows: list[Row]) -> RoleVerdict:
    """`target` is the name of the model that backends know."""
    role = modelroles.role(assigned.role)
    served = [row for row in rows if row.served]
    best = min(served or rows, key=lambda row: _ORDER.index(row.verdict))
    verdict, problems, missing = best.verdict, list(best.problems), ""
    if verdict is Verdict.STOPS and not any(row.present for row in rows):
        problems, missing = [f"no backend has {target}"], target
    # The router sends requests to each of them, whatever the model can do there.
    for row in served:
        others = [problem for problem in row.problems if problem not in best.problems]
        if others and row.verdict in (Verdict.LESS, Verdict.STOPS):
            verdict = max(verdict, Verdict.LESS, key=_ORDER.index)
            problems.append(f"on {row.backend}: {', '.join(others)}")
    return RoleVerdict(
        role=role.name,
        model=assigned.model,
        verdict=verdict,
        problem="; ".join(problems),
        missing=missing,
        stops=role.stops if verdict is Verdict.STOPS else "",
    )


def _unserved(assigned: modelroles.Assigned, engines: tuple[Engine, ...], *, whole: bool) -> RoleVerdict:
    known, named = {"role": assigned.role, "model": assigned.model}, " or ".join(engines)
    if not whole and Engine.OLLAMA not in engines:
        return RoleVerdict(**known, verdict=Verdict.UNKNOWN, problem=f"no server of engine {named} was asked")
    stops = modelroles.role(assigned.role).stops
    problem = f"there is no backend of engine {named} for it"
    return RoleVerdict(**known, verdict=Verdict.STOPS, problem=problem, stops=stops)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
