"""Since when is a backend missing? One probe that fails, or an object that is replaced, is no reason to move a run."""

from __future__ import annotations

from collections.abc import Callable

PATIENCE_SECONDS = 10.0


class Absence:
    """By name, from the first time that somebody asked for one that was not there; forgotten after a restart."""

    def __init__(self, monotonic: Callable[[], float], patience: float = PATIENCE_SECONDS) -> None:
        self._monotonic, self._patience = monotonic, patience
        self._since: dict[str, float] = {}

    def gone_in(self, name: str, *, present: bool) -> float | None:
        """Seconds until it has been missing for long enough, 0 from then on; None while it is present."""
        if present:
            self._since.pop(name, None)
            return None
        now = self._monotonic()
        return max(0.0, self._since.setdefault(name, now) + self._patience - now)
