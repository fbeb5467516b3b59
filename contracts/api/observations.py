"""Observations: on what a request of a process that watches a source is based."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from contracts.api import message
from crds import scope

OBSERVATION = "X-Jervis-Observation"
"""Header of a request: `NUMBER OBSERVER`."""
Observer = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]


class Observation(message.Request):
    """The number under which a process observes a source; it grows with each process that takes the source over."""

    observer: Observer
    number: int = Field(ge=0, lt=1 << 63)

    @property
    def header(self) -> str:
        """Its value of the header."""
        return f"{self.number} {self.observer}"


class Observed(message.Request):
    """A source is observed under a new number: what is based on a smaller one is refused from now on."""

    scope: scope.Scope
    observation: Observation
