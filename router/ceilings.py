"""Who may claim which priority: claims above a client's ceiling are lowered to it and counted, never refused.

Any client can claim P0, so claims need a limit. The ceilings stand in the GpuBackends (`spec.ceilings`) and hold for
the whole router.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from crds import gpubackend
from crds.priority import Priority
from router.priority import LEVELS, Level


class Ceilings:
    """An exact client before the longest pattern; of several backends' words about one client the lowest counts."""

    def __init__(self, entries: Iterable[gpubackend.Ceiling]) -> None:
        self._exact: dict[str, Level] = {}
        patterns: dict[str, Level] = {}
        for entry in entries:
            into = patterns if "*" in entry.client else self._exact
            level = LEVELS[Priority(entry.priority)]
            into[entry.client] = max(level, into.get(entry.client, level))
        self._patterns = tuple(
            (re.compile(".*".join(map(re.escape, text.split("*")))), level)
            for text, level in sorted(patterns.items(), key=lambda item: (-len(item[0]), item[0]))
        )
        self.stated = bool(self._exact or self._patterns)

    def clamp(self, client: str, level: Level) -> Level:
        """The level that `client` gets for its claim."""
        ceiling = self._exact.get(client)
        if ceiling is None:
            found = (highest for pattern, highest in self._patterns if pattern.fullmatch(client))
            ceiling = next(found, Level.P0)
        return max(level, ceiling)
