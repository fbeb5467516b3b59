"""The feature flags of runs: what a release turns on, and what a task may choose for itself by annotations. Pure.

Source: seed 000 "Feature Flags": all default to false. An annotation counts where the namespace's limit `taskFlags`
permits it; one that does not count is named, with the remedy, and ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from crds import pendingtask

_WORDS = {"true": True, "false": False}


class Flag(StrEnum):
    """By the names of the chart's values."""

    DELEGATION_GRAPH = "useDelegationGraph"
    SPECIALIST_AGENTS = "useSpecialistAgents"
    DAG_EXECUTION = "useDagExecution"
    PROCEDURAL_MEMORY = "useProceduralMemory"
    DECISION_AGENT = "useDecisionAgent"

    @property
    def annotation(self) -> str:
        """On a PendingTask: "true" or "false"."""
        return f"jervis.dev/{self._joined('-')}"

    @property
    def variable(self) -> str:
        """In the environment of a run: true or false."""
        return f"JERVIS_{self._joined('_').upper()}"

    @property
    def types(self) -> tuple[str, ...]:
        """Of the tasks that may choose it."""
        return (pendingtask.Type.USER_INPUT,) if self is Flag.DECISION_AGENT else tuple(pendingtask.Type)

    def _joined(self, mark: str) -> str:
        return "".join(f"{mark}{one.lower()}" if one.isupper() else one for one in self.value)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a task's annotations say. `ignored`: the annotations that do not count, as sentences with a remedy each."""

    values: Mapping[Flag, bool] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


def chosen(annotations: Mapping[str, str], namespace: str, kind: str, *, permitted: bool) -> Chosen:
    """The flags that a task of that namespace and type chooses."""
    values: dict[Flag, bool] = {}
    ignored: list[str] = []
    for flag in Flag:
        said = annotations.get(flag.annotation)
        if said is None:
            continue
        if said not in _WORDS:
            ignored.append(f"{flag.annotation} is {said[:40]!r}; write true or false.")
        elif kind not in flag.types:
            ignored.append(
                f"{flag.annotation} is for tasks whose spec.type is {' or '.join(flag.types)}, and this one is {kind};"
                " leave it out, or create the task with that type."
            )
        elif permitted:
            values[flag] = _WORDS[said]
        else:
            ignored.append(
                f"{flag.annotation} is not for namespace {namespace}; leave it out, or ask for taskFlags in the chart"
                " value admission.namespaces."
            )
    return Chosen(values, tuple(ignored))
