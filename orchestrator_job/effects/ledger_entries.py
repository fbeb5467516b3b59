"""What the ledger of effects keeps entries of: an effect, its receipt, the name of its entry. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

CHECK = "Check whether it took place. Approve it to have it done again, reject it to leave it."
"""What a person can do about an effect that may have happened."""
APPROVAL = ".approval"
"""What the step of a decision has behind that of the delegation that the decision is for."""
Receipt = dict[str, Any]


def about(step: str, ordinal: int) -> str:
    """The name of an entry within its task, which a decision carries."""
    return f"{step}/{ordinal}"


class Allowed(TypedDict, total=False):
    """What an effect was done by: `by` is the kind, `name` that of the permit or the author of the approval, `permit`
    what its effects are counted by, `forTask`: a person allows the like for the rest of the task. `tool`, `connection`
    and `targets` are what it was, as permits name them."""

    by: str
    name: str
    permit: str
    forTask: bool
    tool: str
    connection: str
    targets: list[str]


@dataclass(frozen=True, slots=True)
class Used:
    """What has allowed effects of a task so far: permits, once for each effect, and what persons have allowed for the
    rest of the task."""

    permitted: tuple[Allowed, ...] = ()
    for_task: tuple[Allowed, ...] = ()


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
