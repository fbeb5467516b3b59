"""What runs leave in MongoDB while they work -> the tree of a run and the artifacts of a result. Pure.

A delegation is found in `delegation_metrics` ({delegationId, parentDelegationId, agentName, round, status?, startTime,
endTime, tokenCount, llmCalls, success, confidence?, needsVerification?}), in `orchestrator_journal` ({delegation,
kind, value, at}) before it has ended, and in the fence of its task, which counts it before it begins. The other nodes
of a round are in the fence ({steps: {r<round>: {<node>: {startedAt, endedAt?, status?, llmCalls?, tokens?}}}}). Nothing
of it is trusted to be complete: a run may be killed between any two writes. Source: seed 000 "DelegationMetrics".
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from contracts.api.history import Artifact, Effect, Step, Trace
from controllers.archive.query import rfc3339
from crds import scope

Document = Mapping[str, Any]

_STATUSES = frozenset({"PENDING", "RUNNING", "COMPLETED", "FAILED", "INTERRUPTED"})
_NODES = {
    "intake": "intake",
    "consult": "consult",
    "evidence": "evidence",
    "plan": "plan",
    "plan_delegations": "plan",
    "ask_procedure": "ask",
    "follow": "follow",
    "design": "design",
    "goals": "goals",
    "plan_steps": "plan_steps",
    "evaluate": "evaluate",
    "respond": "respond",
    "synthesize": "synthesis",
    "approve": "approve",
    "finalize": "finalize",
}
"""Nodes of the graph in their order -> the last part of their steps' ids."""
_PARTS = tuple(dict.fromkeys(_NODES.values()))
_DELEGATED = _PARTS.index("evaluate") - 0.5
"""The place of delegations among them."""
_ANSWERED = ("consult", "respond", "synthesis")
_ID = re.compile(rf"r(\d+)\.({'|'.join(_PARTS)}|d\d+(\.\d+)*)")
_ASKED = ".approval"
"""Ends the step of the ledger that has the decisions on a delegation's calls."""
_AGENTS = {"plan": "plan_delegations", "synthesis": "synthesize"}
"""What is shown as the agent of a part that only the journal knows."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The documents of one task: its fence and its result (empty without one), and those of three collections."""

    fence: Document = field(default_factory=dict)
    result: Document = field(default_factory=dict)
    metrics: Sequence[Document] = ()
    journal: Sequence[Document] = ()
    ledger: Sequence[Document] = ()


def of(uid: str, owner: Document, stored: Stored) -> Trace:
    """The tree; `owner` has the task's namespace and name."""
    measured = {str(one.get("delegationId", "")): one for one in stored.metrics}
    entries: dict[str, list[Document]] = {}
    for one in stored.journal:
        entries.setdefault(str(one.get("delegation", "")), []).append(one)
    effects: dict[str, dict[int, Effect]] = {}
    # The decision on a call comes before its effect, and stands under a step of its own.
    for one in sorted(stored.ledger, key=lambda one: not str(one.get("step", "")).endswith(_ASKED)):
        step = str(one.get("step", ""))
        of_one = effects.setdefault(step.removesuffix(_ASKED), {})
        ordinal = _number(one.get("ordinal"))
        of_one[ordinal] = _effect(one, ordinal, asked=step.endswith(_ASKED) or ordinal in of_one)
    spent: Document = stored.fence.get("spent") or {}
    counted = [str(name) for one in spent.values() for name in one.get("delegations") or ()]
    nodes = _nodes(stored.fence, stored.result)
    named = dict.fromkeys([*counted, *measured, *entries, *(name for name in effects if _delegates(name))])
    steps = [
        _step(name, measured.get(name, {}), entries.get(name, ()), effects.get(name, {}))
        for name in named
        if _ID.fullmatch(name) and name not in nodes
    ]
    steps += nodes.values()
    rounds = [int(name[1:]) for name in spent if re.fullmatch(r"r\d+", name)]
    latest = max([*rounds, *(step.round for step in steps)], default=0)
    used: Document = spent.get(f"r{latest}") or {}
    return Trace(
        uid=uid,
        namespace=str(owner.get("namespace", "")),
        name=str(owner.get("name", "")),
        attempt=_number(stored.fence.get("attempt")),
        round=latest,
        llm_calls=_number(used.get("llmCalls")),
        tokens=_number(used.get("tokens")),
        steps=tuple(sorted(steps, key=_place)),
    )


def scope_of(found: Document) -> scope.Scope:
    """The scope of a task, of a document of the archive or of what is known of one that lives."""
    spec: Document = (found.get("object") or {}).get("spec") or found.get("scope") or {}
    names = ("clientId", "projectId", "groupId")
    return scope.Scope.model_validate({name: spec.get(name) or "" for name in names})


def artifacts(result: Document) -> dict[str, str]:
    """What a document of `task_results` names: key -> the delegation that made it, "" for none; each key once.

    Those of the result, of its delegations, and the texts that show the whole of effects that wait for approval.
    """
    by: dict[str, str] = {}
    for output in _listed(result.get("delegations")):
        if isinstance(output, Mapping):
            for key in _listed(output.get("artifacts")):
                by.setdefault(str(key), str(output.get("delegationId", "")))
    named = [str(key) for key in _listed(result.get("artifacts"))]
    waiting = [one for one in _listed(result.get("waiting")) if isinstance(one, Mapping)]
    named += [str(one["detailsRef"]) for one in waiting if one.get("detailsRef")]
    return {key: by.get(key, "") for key in dict.fromkeys([*named, *by]) if key}


def changed_files(result: Document) -> tuple[str, ...]:
    """Paths that it names as changed, each once."""
    outputs = [one for one in _listed(result.get("delegations")) if isinstance(one, Mapping)]
    lists = [_listed(one.get("changedFiles")) for one in (result, *outputs)]
    return tuple(dict.fromkeys(str(path) for listed in lists for path in listed))


def listed(found: Mapping[str, str], sizes: Mapping[str, int]) -> tuple[Artifact, ...]:
    """`found` as `artifacts` gives it; `sizes` in bytes of those that are stored."""
    return tuple(Artifact(key=key, delegation=by, bytes=sizes.get(key)) for key, by in found.items())


def _nodes(fence: Document, result: Document) -> dict[str, Step]:
    """The steps of the graph's own nodes by their ids."""
    found: dict[str, Step] = {}
    for label, noted in (fence.get("steps") or {}).items():
        if not re.fullmatch(r"r\d+", label) or not isinstance(noted, Mapping):
            continue
        number = int(label[1:])
        for node, about in noted.items():
            if node not in _NODES or not isinstance(about, Mapping) or not about.get("startedAt"):
                continue
            part = _NODES[node]
            ended = _time(about.get("endedAt"))
            said = str(about.get("status", ""))
            sure = result.get("confidence") if part in _ANSWERED and result.get("round") == number else None
            found[f"{label}.{part}"] = Step(
                id=f"{label}.{part}",
                round=number,
                agent=node,
                status=said if said in _STATUSES else "COMPLETED" if ended else "RUNNING",
                started_at=_time(about.get("startedAt")),
                ended_at=ended,
                llm_calls=_number(about.get("llmCalls")),
                tokens=_number(about.get("tokens")),
                confidence=float(sure) if isinstance(sure, int | float) else None,
            )
    return found


def _step(name: str, measured: Document, entries: Sequence[Document], effects: Mapping[int, Effect]) -> Step:
    round_number, kind = int(name[1:].partition(".")[0]), name.partition(".")[2]
    kinds = Counter(str(one.get("kind", "")) for one in entries)
    times = sorted(_time(one.get("at")) for one in entries if one.get("at"))
    begun = _begun(entries)
    started = _time(measured.get("startTime")) or (times[0] if times else "")
    ended = _time(measured.get("endTime"))
    confidence = measured.get("confidence")
    return Step(
        id=name,
        parent=_parent(name, measured),
        round=round_number,
        agent=_AGENTS.get(kind) or str(measured.get("agentName") or begun.get("agent") or ""),
        status=_status(measured, started, ended),
        started_at=started,
        ended_at=ended,
        llm_calls=_number(measured.get("llmCalls")) or kinds["reply"],
        tool_calls=kinds["result"],
        tokens=_number(measured.get("tokenCount")),
        confidence=float(confidence) if isinstance(confidence, int | float) else None,
        needs_verification=bool(measured.get("needsVerification")),
        effects=tuple(effects[ordinal] for ordinal in sorted(effects)),
    )


def _begun(entries: Sequence[Document]) -> Document:
    """What the journal says of the beginning of a delegation: its agent, before there are metrics of it."""
    text = next((one.get("value") for one in entries if one.get("kind") == "begun"), None)
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    return found if isinstance(found, Mapping) else {}


def _status(measured: Document, started: str, ended: str) -> str:
    said = str(measured.get("status", ""))
    if said in _STATUSES:
        return said
    if ended:
        return "COMPLETED" if measured.get("success") else "FAILED"
    return "RUNNING" if started else "PENDING"


def _effect(entry: Document, ordinal: int, *, asked: bool) -> Effect:
    intent: Document = entry.get("intent") or {}
    what = str(intent.get("tool") or next(iter(intent.values()), ""))
    state = str(entry.get("state", ""))
    if str(entry.get("step", "")).endswith(_ASKED):
        decided = entry.get("result") if state == "done" else None
        state = str(decided.get("verdict", "")) if isinstance(decided, Mapping) else "asked"
    return Effect(ordinal=ordinal, what=what, state=state, asked=asked or entry.get("askedBy") is not None)


def _parent(name: str, measured: Document) -> str:
    said = str(measured.get("parentDelegationId") or "")
    above = name.rpartition(".")[0]
    return said or (above if _delegates(above) else "")


def _delegates(name: str) -> bool:
    return re.fullmatch(r"r\d+\.d\d+(\.\d+)*", name) is not None


def _place(step: Step) -> tuple[int, float, tuple[int, ...]]:
    """By round; the nodes in their order, the delegations by number with each below its parent."""
    kind = step.id.partition(".")[2]
    if kind in _PARTS:
        return step.round, _PARTS.index(kind), ()
    return step.round, _DELEGATED, tuple(int(part) for part in kind.lstrip("d").split("."))


def _time(found: Any) -> str:
    return rfc3339(found) if isinstance(found, datetime) else str(found or "")


def _number(found: Any) -> int:
    return int(found) if isinstance(found, int | float) else 0


def _listed(found: Any) -> Sequence[Any]:
    return found if isinstance(found, list | tuple) else ()
