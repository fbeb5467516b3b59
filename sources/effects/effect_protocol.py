"""One effect on its target, in three steps; what a tool of a type of Connection has to give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sources.core import port

Before = Mapping[str, Any]
"""What is noted about the target before it is changed: JSON that only the tool reads, without bodies."""
Result = Mapping[str, str]
"""Names and addresses of what was made."""


class Ambiguous(port.Unreachable):
    """The target may have acted: it was reached, and its answer was not."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the target says about an effect: its `result`, that it is certainly `absent`, or neither."""

    result: Result | None = None
    absent: bool = False


class Effect(Protocol):
    """Raises `port.Rejected` and `port.Misconfigured` where the target did nothing and a person has to act,
    `rest.Untouched` where it did nothing and may be asked again; any other `port.Unreachable` of `send` means that it
    may have acted."""

    async def prepare(self) -> Before:
        """Everything that comes before the change; nothing changes at the target."""
        ...

    async def send(self, before: Before) -> Result:
        """The change itself, never repeated here."""
        ...

    async def ask(self, before: Before) -> Evidence:
        """Whether an earlier `send` changed something."""
        ...

    async def settled(self) -> None:
        """What may follow once the ledger says Done. Raises nothing: the outcome stands."""
        return

    async def close(self) -> None:
        """Give connections back."""
        ...
