"""Settings per client: how long before a deadline work begins, and which persons are "we".

The default applies to a client without an entry, and to a value missing in an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Terms:
    """`lead` is SCHEDULE_LEAD_DAYS of the seed; `team`: names and mail addresses of "we"."""

    lead: timedelta = timedelta(days=2)
    team: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Clients:
    """Terms by clientId."""

    default: Terms = Terms()
    known: Mapping[str, Terms] = field(default_factory=dict)

    def of(self, client_id: str) -> Terms:
        """The terms of a client."""
        return self.known.get(client_id, self.default)
