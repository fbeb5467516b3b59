"""When each node of a round began and ended, how it went and what it took: for `kubectl jervis trace`, live.

Kept on the task's fence (`orchestrator_fences`), and gone with it: `steps.r<round>.<node>: {startedAt, endedAt, status,
llmCalls, tokens}`. A node that is repeated begins anew and keeps what its earlier tries took. The notes are written
beside the work: no node waits for one, several that wait are one write, and one that cannot be written is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import structlog

import crds.errors
from orchestrator_job import errors
from orchestrator_job.model import telemetry
from orchestrator_job.run import rounds
from orchestrator_job.store import fence, mongo

NOTED = frozenset(
    (
        *("intake", "evidence", "plan", "plan_delegations", "follow", "design", "goals", "plan_steps", "evaluate"),
        *("consult", "respond", "synthesize", "approve", "finalize"),
    )
)
"""The nodes; a delegation has metrics of its own."""
SECONDS = 2.0
"""Most time for the last notes at the end of a run."""
_log = structlog.get_logger("orchestrator_job.run.node_records")


class Steps:
    """Those of the task whose fence it is; `now` is in UTC."""

    def __init__(self, database: mongo.Database, guard: fence.Fence, now: Callable[[], datetime]) -> None:
        self._database = database
        self._guard = guard
        self._now = now
        self._set: dict[str, Any] = {}
        self._unset: dict[str, Any] = {}
        self._more: dict[str, int] = {}
        self._writing: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def around(self, name: str, round_number: int, used: telemetry.Usage) -> Iterator[None]:
        """Around a node whose usage is counted in `used`."""
        if name not in NOTED:
            yield
            return
        own = f"steps.r{round_number}.{name}"
        self._set[f"{own}.startedAt"] = self._now()
        for field in ("endedAt", "status"):
            self._set.pop(f"{own}.{field}", None)
            self._unset[f"{own}.{field}"] = ""
        self._write()
        status = "FAILED"
        try:
            yield
            status = "COMPLETED"
        except (errors.NeedsApproval, rounds.Overtaken, asyncio.CancelledError):
            status = "INTERRUPTED"
            raise
        finally:
            for field, value in (("endedAt", self._now()), ("status", status)):
                self._unset.pop(f"{own}.{field}", None)
                self._set[f"{own}.{field}"] = value
            for field, count in (("llmCalls", used.calls), ("tokens", used.tokens)):
                if count:
                    self._more[f"{own}.{field}"] = self._more.get(f"{own}.{field}", 0) + count
            self._write()

    async def flush(self) -> None:
        """Write what is left, for a bounded time."""
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=SECONDS)
            self._writing.cancel()

    def _write(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._written())

    async def _written(self) -> None:
        while self._set or self._unset or self._more:
            changes = {"$set": self._set, "$unset": self._unset, "$inc": self._more}
            self._set, self._unset, self._more = {}, {}, {}
            change = {name: fields for name, fields in changes.items() if fields}
            own = {"_id": self._guard.task_uid, "epoch": self._guard.epoch}
            try:
                await self._database.update(fence.COLLECTION, own, change)
            except crds.errors.JervisError as error:
                _log.warning("the times of a node were not kept", reason=error.message)
