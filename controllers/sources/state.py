"""What the polls of a Connection came to: written by the sources process, read by the operator. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

REASONS = ("CredentialsRejected", "Misconfigured", "Unreachable", "KnowledgeBaseAway", "PollFailed")
"""Why a poll failed: reasons of the condition Ready."""


@dataclass(frozen=True, slots=True)
class State:
    """What the last polls came to. `failures` in a row; `reason` (CamelCase) and `message` of the last one, "" after a
    success; `rejected`: the source refused the credentials. `items` by state. `refused`: a sentence about items whose
    tasks the apiserver refuses, or ""."""

    polled_at: datetime | None = None
    succeeded_at: datetime | None = None
    failures: int = 0
    reason: str = ""
    message: str = ""
    rejected: bool = False
    items: Mapping[str, int] | None = None
    cursor: str = ""
    refused: str = ""
    generation: int = 0
