"""How urgent a request is: its header, else the table of models, else Auto.

Source: seed 000 "Priority Levels"; blueprint section 5. The words of the header are read by `crds.priority`.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from crds import priority
from router import models


class Level(IntEnum):
    """Order of service; smaller goes first. AUTO is a request without a label: it stands behind P2, which has no
    CPU to fall back to, and before P3, which its caller labelled as background."""

    P0 = 0
    P1 = 1
    P2 = 2
    AUTO = 3
    P3 = 4

    @property
    def label(self) -> str:
        """As metrics and the status document spell it."""
        return _LABELS[self]


_LABELS = ("P0", "P1", "P2", "Auto", "P3")

# A busy GPU sends these to a CPU backend where the model allows it (seed 000: P3 "GPU when free, CPU fallback", Auto
# "routes to GPU if free"). The others wait for the GPU as long as there is one.
OVERFLOW = frozenset({Level.AUTO, Level.P3})

LEVELS = {
    priority.Priority.P0: Level.P0,
    priority.Priority.P1: Level.P1,
    priority.Priority.P2: Level.P2,
    priority.Priority.P3: Level.P3,
}


class _Claim(NamedTuple):
    """What a header says: None leaves it to the table, `understood` is False for an undefined value."""

    level: Level | None
    understood: bool


def level(header: str | None, model: str, table: models.Table) -> Level:
    """The level of a request for a normalised `model` name.

    An unknown word in the header is no error (`understood` tells, for counting): the table decides then.
    """
    if header and (given := _claim(header).level) is not None:
        return given
    entry = table.find(model)
    if entry is None or entry.priority is None:
        return Level.AUTO
    return LEVELS[priority.Priority(entry.priority)]


def understood(header: str | None) -> bool:
    """False for a header with an undefined value."""
    return not header or _claim(header).understood


def _claim(header: str) -> _Claim:
    # Longer than any word that means something: a client tries something, which is not worth remembering.
    return _remembered(header) if len(header) <= _LONGEST else _read(header)


_LONGEST = 16


def _read(header: str) -> _Claim:
    given = priority.parse(header)
    if given is not None:
        return _Claim(LEVELS[given], True)
    return _Claim(None, header.strip().lower() in ("", "auto"))


_remembered = lru_cache(maxsize=256)(_read)
