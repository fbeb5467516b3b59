"""How many branches are known and how far behind they are, for the figures of the process that leads.

A branch is behind while the code of a newer commit is wanted, or by a newer extractor, which is read with its next
commit. Its age, where a commit is wanted, is the time since the last record of it: a branch that is being read has a
new one with every request, one that is not sent any more has not.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import structlog

import codegraph
from kb import errors, metrics
from kb.code import book

log = structlog.get_logger(__name__)
STATES = ("current", "behind", "first")


class BranchMetrics:
    """`clock` gives the time in UTC."""

    def __init__(self, known: book.Book, meters: metrics.Metrics, clock: Callable[[], datetime]) -> None:
        self._book, self._meters, self._clock = known, meters, clock

    async def run(self, *, interval: float) -> None:
        """Count every `interval` seconds until cancelled; then the figures are 0, as another process may lead."""
        try:
            while True:
                try:
                    await self.count()
                except errors.Away as error:
                    log.warning("branches not counted", reason=error.message)
                await asyncio.sleep(interval)
        finally:
            self._show(Counter(), 0.0)

    async def count(self) -> None:
        """Once. Raises `kb.errors.Away`."""
        counted: Counter[str] = Counter()
        oldest = now = self._clock()
        for commit, wanted, extractor, at in await self._book.states():
            current = commit == wanted and extractor == codegraph.VERSION
            counted["current" if commit and current else "behind" if commit else "first"] += 1
            oldest = oldest if commit == wanted else min(oldest, at)
        self._show(counted, (now - oldest).total_seconds())

    def _show(self, counted: Counter[str], stale: float) -> None:
        for state in STATES:
            self._meters.code_branches.labels(state).set(counted[state])
        self._meters.code_stale.set(stale)
