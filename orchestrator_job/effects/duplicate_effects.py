"""Whether a task has had an effect already, and what its agents are shown of the effects that it has had. Pure.

An agent that takes over the task of another one, or that works beside it, may want the same mail again. Its prompt
says what was done; that it is not done twice is decided here, from the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator_job.effects import effect_digest
from orchestrator_job.model import prompt_budget
from orchestrator_job.store import delegation_progress

LEFT = "It may have been done already, and a person decided to leave it at that."
_UNREPORTED = "An earlier round, which did not come to its end, has done the same, or may have."
_SHOWN = 500
"""Characters of one effect in a prompt."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """`asks`: a person decides; else the call is not carried out. `why` is for the person or for the model."""

    asks: bool
    why: str


def found(
    intent: Mapping[str, Any], delegation_id: str, taken_over: str, others: Iterable[Mapping[str, Any]]
) -> Repeated | None:
    """None where the effect is another one. `others` are entries of the ledger about effects of the task that were
    begun; `taken_over` is the delegation whose task this one has taken over, or empty.

    The same again (tool, Connection and all arguments) is done once within a round, however often models ask for it,
    and a person decides about it in a later one, whatever permits say. One with the same aims in other words is for a
    person where the task is the same, which was taken over.
    """
    number = delegation_progress.round_of(delegation_id)
    begun = [one for one in others if not (one["state"] == "done" and (one.get("result") or {}).get("failed"))]
    digest_ = intent.get(effect_digest.DIGEST)
    same = {
        delegation_progress.round_of(str(one["step"])): one
        for one in begun
        if digest_ and one["intent"].get(effect_digest.DIGEST) == digest_
    }
    if number in same:
        return Repeated(False, f"This task has done it already, and it was not done again. {line(same[number])}")
    for one in begun:
        if taken_over and _within(str(one["step"]), taken_over) and _alike(one["intent"], intent):
            return Repeated(True, f"The agent that had this task before has done this in other words. {line(one)}")
    if not same:
        return None
    return Repeated(True, f"This task has done the same in an earlier round. {line(same[max(same)])}")


def unreported(intent: Mapping[str, Any], earlier: Iterable[Mapping[str, Any]]) -> Repeated | None:
    """Of effects that no round has reported (`Ledger.unreported`): the user who goes on does not know of them. One with
    the same aims is for a person, whatever its words."""
    same = [one for one in earlier if _alike(one["intent"], intent) and not (one.get("result") or {}).get("failed")]
    return Repeated(True, f"{_UNREPORTED} {line(same[0])}") if same else None


def _alike(was: Mapping[str, Any], intent: Mapping[str, Any]) -> bool:
    same = all(was.get(key) == intent.get(key) for key in ("tool", "connection", "aims"))
    return same and bool(intent.get("aims"))


def done(entries: Iterable[Mapping[str, Any]], delegation_id: str) -> list[str]:
    """A line for each effect of the task that the delegation `delegation_id` does not have in its own talk."""
    return [line(one) for one in entries if not _within(str(one["step"]), delegation_id)]


def line(entry: Mapping[str, Any]) -> str:
    """An effect of the ledger for a model or a person."""
    intent, receipt = entry["intent"], entry.get("result") or {}
    aims = ", ".join(f"{name} {value}" for name, value in (intent.get("aims") or {}).items())
    # What was begun and has no receipt yet is under way, or a process died in it.
    said = receipt.get("text", "done") if entry.get("state", "done") == "done" else "begun, and perhaps done"
    said = LEFT if receipt.get("skipped") else said
    return prompt_budget.cut(f"{intent['tool']} {aims}: {said}", _SHOWN)


def _within(step: str, delegation_id: str) -> bool:
    return step == delegation_id or step.startswith(f"{delegation_id}.")
