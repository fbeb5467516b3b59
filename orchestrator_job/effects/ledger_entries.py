"""What the ledger of effects keeps entries of: an effect, its receipt, the name of its entry. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

CHECK = "Check whether it took place. Approve it to have it done again, reject it to leave it."
"""What a person can do about an effect that may have happened."""
Receipt = dict[str, Any]


def about(step: str, ordinal: int) -> str:
    """The name of an entry within its task, which a decision carries."""
    return f"{step}/{ordinal}"


@dataclass(frozen=True, slots=True)
class Answered:
    """A round that has ended with its answer to the user; 0: there is none. `heard` are the ids of the messages and
    answers that there were by then."""

    round: int = 0
    heard: frozenset[str] = frozenset()


class Effect(Protocol):
    """One external effect."""

    @property
    def repeatable(self) -> bool:
        """Whether performing it twice under the same key has the same result as once."""
        ...

    def intent(self) -> Mapping[str, Any]:
        """A short description for readers of the ledger."""
        ...

    async def find(self, key: str) -> Receipt | None:
        """The receipt if the effect exists under `key`, else None."""
        ...

    async def perform(self, key: str) -> Receipt:
        """Perform the effect, stored with `key` so that `find` sees it; returns the receipt. Raises NotBegun where
        nothing was sent, and any other error where it may have happened."""
        ...
