"""The line of requests that wait for one model: by level, then by arrival; leaving it anywhere costs O(1)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from router.priority import Level


class Request(NamedTuple):
    """What the scheduler knows of a request. `arrived` is in seconds of the caller's clock."""

    id: int
    model: str
    level: Level
    arrived: float = 0.0
    avoid: frozenset[str] = frozenset()
    """Backends that already failed this request."""
    metered: bool = True
    """False for questions about a model (`/api/show`) that take no slot."""


class Line:
    """Requests for one model.

    Requests that avoid a backend are kept apart: they are few (retries have a budget) and each must be asked whether a
    backend suits it, while of the others a whole level is eligible or not.
    """

    __slots__ = ("_fresh", "_retried")

    def __init__(self) -> None:
        self._fresh: tuple[OrderedDict[int, Request], ...] = tuple(OrderedDict() for _ in Level)
        self._retried: tuple[OrderedDict[int, Request], ...] = tuple(OrderedDict() for _ in Level)

    def __len__(self) -> int:
        return sum(map(len, self._fresh)) + sum(map(len, self._retried))

    def __iter__(self) -> Iterator[Request]:
        for retried, fresh in zip(self._retried, self._fresh, strict=True):
            yield from retried.values()
            yield from fresh.values()

    def push(self, request: Request) -> None:
        """To the end of its level."""
        self._lane(request)[request.id] = request

    def remove(self, request: Request) -> None:
        """It hung up. KeyError if it is not here."""
        del self._lane(request)[request.id]

    def take(self, level_suits: Callable[[Level], bool], request_suits: Callable[[Request], bool]) -> Request | None:
        """Take out the first one that suits: `request_suits` is asked for retried requests, `level_suits` for others.

        A retried request goes before a fresh one of its level: it has waited before.
        """
        for level in Level:
            for request in self._retried[level].values():
                if request_suits(request):
                    del self._retried[level][request.id]
                    return request
            if self._fresh[level] and level_suits(level):
                return self._fresh[level].popitem(last=False)[1]
        return None

    def _lane(self, request: Request) -> OrderedDict[int, Request]:
        return (self._retried if request.avoid else self._fresh)[request.level]
