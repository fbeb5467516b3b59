"""Which documents a question is about: kinds, sources, a span of time, and the moment whose knowledge is asked for.

Both stores translate a `Selection` into their own filters; `admits` is the rule and the oracle of their tests. Time is
when the source says that it happened (`observedAt`). A document without it satisfies no span (`since`, `until`),
because it may have happened at another time; it is part of the knowledge of every moment (`as_of`), because it may have
been known already. A version of a document is part of the knowledge from its beginning, which is that time
unless another one is given, until the next version begins (decision 0059).

This module is pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
LABEL_CHARS = 256
"""Of the text `key=value` of a label at most; what is longer cannot be filtered by."""
ALWAYS = -(1 << 52)
"""The beginning, in milliseconds, of what is part of the knowledge of every moment."""


@dataclass(frozen=True)
class Selection:
    """None means no restriction; an empty tuple admits nothing.

    `labels`: groups of labels, of each of which a document must have one. The vectors know a document's labels; the
    graph knows those of documents that were ingested since schema 5 (SQLite), and admits the others.
    `sources`: source URNs; one that ends with `*` stands for all that begin so. `since` and `until` are inclusive.
    """

    kinds: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    labels: tuple[tuple[str, ...], ...] = ()

    def carries(self, labels: Collection[str]) -> bool:
        """Whether a document with these labels (`labels` of this module) has one of each group that is asked for."""
        return all(any(one in labels for one in group) for group in self.labels)

    def admits(
        self,
        kind: str,
        source_urn: str,
        observed_ms: int | None,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> bool:
        """Whether a document of this kind and source, observed then (see `millis`), is selected.

        `since_ms` and `until_ms` bound the version; None: it begins when it was observed, and is the last.
        """
        if self.kinds is not None and kind not in self.kinds:
            return False
        if self.sources is not None and not any(_matches(source_urn, pattern) for pattern in self.sources):
            return False
        moment, begun = self.moment(), observed_ms if since_ms is None else since_ms
        if moment is not None:
            too_new, too_old = begun is not None and begun > moment, until_ms is not None and until_ms <= moment
            if too_new or too_old:
                return False
        if observed_ms is None:
            return not self.dated
        earliest, latest = self.span()
        return (earliest is None or observed_ms >= earliest) and (latest is None or observed_ms <= latest)

    @property
    def dated(self) -> bool:
        """Whether documents without a time are left out."""
        return self.since is not None or self.until is not None

    def span(self) -> tuple[int | None, int | None]:
        """The first and the last millisecond that a dated document may be observed in."""
        return (millis(self.since) if self.since else None, millis(self.until) if self.until else None)

    def moment(self) -> int | None:
        """The millisecond whose knowledge is asked for; None is now."""
        return None if self.as_of is None else millis(self.as_of)


ALL = Selection()
_KEY = re.compile(r"(?:[^\\=]|\\.)*", re.DOTALL)


def labels(metadata: Mapping[str, object]) -> tuple[str, ...]:
    """What a document's own metadata can be filtered by: `key=value` of every text, number and truth value in it.

    Keys of objects inside are joined by dots, each element of a list counts; texts longer than 256 characters do not.
    `=` within a key has a backslash before it, so the first one without ends the key: no key stands for another.
    """
    return tuple(sorted({f"{key}={value}" for key, value in _values((), metadata) if len(value) <= LABEL_CHARS}))


def _values(path: tuple[str, ...], value: object) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [one for name, inner in value.items() for one in _values((*path, _escaped(name)), inner)]
    if isinstance(value, list):
        return [one for inner in value for one in _values(path, inner)]
    if value is None:
        return []
    return [(".".join(path), value if isinstance(value, str) else json.dumps(value))]


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("=", "\\=")


def key(label: str) -> str:
    """The path of a label, as its keys are: what stands before the first `=` that ends it."""
    found = _KEY.match(label)
    return re.sub(r"\\(.)", r"\1", found[0], flags=re.DOTALL) if found is not None else ""


def escapes(metadata: object) -> bool:
    """Whether a key within is not written as it is in labels, or is empty: until 2026-11 such a key could stand for
    another one."""
    if isinstance(metadata, Mapping):
        return any(not name or _escaped(name) != name or escapes(inner) for name, inner in metadata.items())
    return isinstance(metadata, list) and any(map(escapes, metadata))


def millis(moment: datetime) -> int:
    """Milliseconds since 1970-01-01 UTC of an aware datetime, rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def moment(observed_at: str) -> int | None:
    """The milliseconds of an RFC 3339 text; None for ""."""
    return millis(datetime.fromisoformat(observed_at)) if observed_at else None


def _matches(source_urn: str, pattern: str) -> bool:
    return source_urn.startswith(pattern[:-1]) if pattern.endswith("*") else source_urn == pattern


def utc(moment: datetime) -> datetime:
    """The moment in UTC; as it is where that is before the year 1 or after 9999."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return moment
