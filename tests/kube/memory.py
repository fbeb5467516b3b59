"""A Lease in memory with the apiserver's version checks, as several processes reach it; time is virtual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from crds import errors
from kube import lease

T = TypeVar("T")


class Store:
    """The record. `away` makes it fail like a network; `closed` counts how often it was given back."""

    def __init__(self) -> None:
        self.record: lease.Record | None = None
        self.version = 0
        self.away = False
        self.closed = 0

    def read(self) -> lease.Record | None:
        """The record, or None when there is none."""
        self._answer()
        return self.record

    def write(self, record: lease.Record) -> lease.Record:
        """Raises `ContestedError` for a version that is not the stored one."""
        self._answer()
        if record.version != (self.record.version if self.record else ""):
            raise lease.ContestedError("changed")
        self.version += 1
        self.record = replace(record, version=str(self.version))
        return self.record

    def close(self) -> None:
        """Nothing is asked any more."""
        self.closed += 1

    def _answer(self) -> None:
        if self.away:
            raise errors.Operational("away")


class Way(Store):
    """One process's way to a store that others use too. `cut`: nothing gets through. `meanwhile` has what happens once
    while the next request is under way: ("read" or "write", "there" or "back")."""

    def __init__(self, to: Store) -> None:
        super().__init__()
        self._to, self.cut = to, False
        self.meanwhile: dict[tuple[str, str], Callable[[], object]] = {}

    def read(self) -> lease.Record | None:
        """As it is when the request arrives."""
        return self._pass("read", self._to.read)

    def write(self, record: lease.Record) -> lease.Record:
        """What arrives is written, even when the answer is lost."""
        return self._pass("write", lambda: self._to.write(record))

    def _pass(self, verb: str, call: Callable[[], T]) -> T:
        self.meanwhile.pop((verb, "there"), lambda: None)()
        if self.cut:
            raise errors.Operational("cut off")
        try:
            return call()
        finally:
            self.meanwhile.pop((verb, "back"), lambda: None)()
            if self.cut:
                raise errors.Operational("the answer was lost")
