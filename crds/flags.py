"""The feature flags of runs: what a release turns on, and what a task may choose for itself by annotations. Pure.

Source: seed 000 "Feature Flags": all default to false. An annotation counts where the namespace's limit `taskFlags`
permits it; one that does not count is named, with the remedy, and ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

_WORDS = {"true": True, "false": False}


class Flag(StrEnum):
    """By the names of the chart's values."""

    DELEGATION_GRAPH = "useDelegationGraph"
    SPECIALIST_AGENTS = "useSpecialistAgents"
    DAG_EXECUTION = "useDagExecution"
    PROCEDURAL_MEMORY = "useProceduralMemory"

    @property
    def annotation(self) -> str:
        """On a PendingTask: "true" or "false"."""
        return f"jervis.dev/{self._joined('-')}"

    @property
    def variable(self) -> str:
        """In the environment of a run: true or false."""
        return f"JERVIS_{self._joined('_').upper()}"

    def _joined(self, mark: str) -> str:
        return "".join(f"{mark}{one.lower()}" if one.isupper() else one for one in self.value)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a task's annotations say. `ignored`: the annotations that do not count, as sentences with a remedy each."""

    values: Mapping[Flag, bool] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


def chosen(annotations: Mapping[str, str], namespace: str, *, permitted: bool) -> Chosen:
    """The flags that a task of that namespace chooses."""
    values: dict[Flag, bool] = {}
    ignored: list[str] = []
    for flag in Flag:
        said = annotations.get(flag.annotation)
        if said is None:
            continue
        if said not in _WORDS:
            ignored.append(f"{flag.annotation} is {said[:40]!r}; write true or false.")
        elif permitted:
            values[flag] = _WORDS[said]
        else:
            ignored.append(
                f"{flag.annotation} is not for namespace {namespace}; leave it out, or ask for taskFlags in the chart"
                " value admission.namespaces."
            )
    return Chosen(values, tuple(ignored))
