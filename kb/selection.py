"""Which documents a question is about: kinds, sources, a span of time, and the moment whose knowledge is asked for.

Both stores translate a `Selection` into their own filters; `admits` is the rule and the oracle of their tests. Time is
when the source says that it happened (`observedAt`). A document without it satisfies no span (`since`, `until`),
because nobody can say that it happened then; it is part of the knowledge of every moment (`as_of`), because nobody can
say that it was not known yet.

This module is pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Selection:
    """None means no restriction; an empty tuple admits nothing.

    `sources`: source URNs; one that ends with `*` stands for all that begin so. `since` and `until` are inclusive.
    """

    kinds: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None

    def admits(self, kind: str, source_urn: str, observed_ms: int | None) -> bool:
        """Whether a document of this kind and source, observed then (see `millis`), is selected."""
        if self.kinds is not None and kind not in self.kinds:
            return False
        if self.sources is not None and not any(_matches(source_urn, pattern) for pattern in self.sources):
            return False
        if observed_ms is None:
            return self.since is None and self.until is None
        earliest, latest = self.span()
        return (earliest is None or observed_ms >= earliest) and (latest is None or observed_ms <= latest)

    @property
    def dated(self) -> bool:
        """Whether documents without a time are left out."""
        return self.since is not None or self.until is not None

    def span(self) -> tuple[int | None, int | None]:
        """The first and the last millisecond that a dated document may be observed in."""
        ends = [end for end in (self.until, self.as_of) if end is not None]
        return (millis(self.since) if self.since else None, millis(min(ends)) if ends else None)


ALL = Selection()


def millis(moment: datetime) -> int:
    """Milliseconds since 1970-01-01 UTC of an aware datetime, rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def moment(observed_at: str) -> int | None:
    """The milliseconds of an RFC 3339 text; None for ""."""
    return millis(datetime.fromisoformat(observed_at)) if observed_at else None


def _matches(source_urn: str, pattern: str) -> bool:
    return source_urn.startswith(pattern[:-1]) if pattern.endswith("*") else source_urn == pattern
