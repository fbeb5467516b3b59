"""What differs from client to client: how long before a deadline work begins, and who "we" are.

A client that is not listed, and a value that its entry leaves out, has the default of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Terms:
    """`lead` is SCHEDULE_LEAD_DAYS of the seed; `team` are names and mail addresses that are "we"."""

    lead: timedelta = timedelta(days=2)
    team: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Clients:
    """Terms by clientId."""

    default: Terms = Terms()
    known: Mapping[str, Terms] = field(default_factory=dict)

    def of(self, client_id: str) -> Terms:
        """The terms of that client."""
        return self.known.get(client_id, self.default)
