"""GPU backends that stopped serving: for `patience` seconds they count as there, with none of their slots free.

One probe that fails, or an object that is replaced, is no reason to start users' runs without a GPU. When the runs that
are there have to move is another matter (`controllers.pendingtask.served`).
What is remembered is lost with the process; the bound of runs without a GPU holds without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Absence:
    """By name. `patience` and all times are in seconds; `monotonic` is the clock."""

    def __init__(self, monotonic: Callable[[], float], patience: float) -> None:
        self._monotonic, self.patience = monotonic, patience
        self._offered: dict[str, int] = {}
        self._left: dict[str, tuple[int, float]] = {}

    def offered(self, slots: Mapping[str, int]) -> bool:
        """Note what is offered now, by name, without zeros. True when a backend offers nothing any more that did."""
        now = self._monotonic()
        left = {name: (count, now) for name, count in self._offered.items() if name not in slots}
        self._left = {name: one for name, one in (self._left | left).items() if name not in slots}
        self._offered = dict(slots)
        return bool(left)

    def expected(self) -> Mapping[str, int]:
        """Backends that offer nothing and are expected back -> the slots that they had."""
        now = self._monotonic()
        self._left = {name: one for name, one in self._left.items() if now < one[1] + self.patience}
        return {name: count for name, (count, _) in self._left.items()}
