"""The workers of the queue: urgent ones that take nothing else, and general ones that take whatever is first.

A bulk job holds its worker for as long as the models need; the urgent workers keep a person's document from waiting for
that (seed 001 "Dual Semaphore", for the queue).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from crds import errors, priority
from kb import errors as kb_errors
from kb import loops, metrics
from kb.queue import job

log = structlog.get_logger(__name__)

# Seed 001 "Exponential Retry for Operational Errors": 5 s doubling to 5 min, for ever.
_FIRST = 5.0
_LONGEST = 300.0
# Seconds after which an idle worker looks again on its own: jobs that were postponed become due.
_IDLE = 1.0


class Doer(Protocol):
    """What does the jobs: `kb.ingest.pipeline.Pipeline`."""

    async def perform(self, asked: job.Job, request: str) -> None:
        """Do it and drop the job, permanent failures included. Raises `crds.errors.Operational` to be called again."""
        ...


def delay(attempts: int, asked: float | None) -> float:
    """Seconds to wait after that many failures; what the other side asked for counts up to the longest wait."""
    return max(min(_FIRST * 2.0 ** min(attempts, 20), _LONGEST), min(asked or 0.0, _LONGEST))


class Workers:
    """`general` workers for every job and `urgent` ones for priorities 0 to 2."""

    def __init__(
        self,
        queue: job.Queue,
        doer: Doer,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        *,
        general: int = 2,
        urgent: int = 2,
    ) -> None:
        self._queue = queue
        self._doer = doer
        self._meters = meters
        self._clock = clock
        self._general = general
        self._urgent = urgent
        self._running: set[str] = set()
        self._claiming = asyncio.Lock()
        self._news = asyncio.Event()

    @property
    def running(self) -> frozenset[str]:
        """The documents that are being worked on."""
        return frozenset(self._running)

    def wake(self) -> None:
        """A job was put."""
        self._news.set()

    async def run(self) -> None:
        """Work until cancelled; a job that was cut off stays in the queue."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._general):
                group.create_task(self._serve(None, counting=number == 0))
            group.create_task(self._hold())
            for _ in range(self._urgent):
                group.create_task(self._serve(priority.Priority(priority.URGENT), counting=False))

    async def step(self, most: priority.Priority | None = None) -> job.Job | None:
        """Try the first job that is due; None when there is none."""
        tried = await self._take(most)
        return None if tried is None else tried[0]

    async def _take(self, most: priority.Priority | None) -> tuple[job.Job, bool] | None:
        """The first job that is due, and whether it was done."""
        async with self._claiming:
            found = await self._queue.next(self._clock(), skip=self._running, most=most)
            if found is None:
                return None
            asked, request = found
            self._running.add(asked.document_id)
        done = False
        try:
            done = await self._perform(asked, request)
            return asked, done
        finally:
            self._running.discard(asked.document_id)
            if not done:
                await self._release(asked.document_id)

    async def _release(self, document_id: str) -> None:
        try:
            await self._queue.release(document_id)
        except errors.Operational as error:
            log.info("a job is not given back before its claim ends", document=document_id, reason=error.message)

    async def _hold(self) -> None:
        """Let other processes know what this one still works on."""
        while True:
            await asyncio.sleep(job.CLAIM.total_seconds() / 4)
            if self._running:
                try:
                    await self._queue.hold(self._running, self._clock())
                except errors.Operational as error:
                    log.warning("jobs cannot be held", reason=error.message)

    async def _serve(self, most: priority.Priority | None, *, counting: bool) -> None:
        while True:
            self._news.clear()
            try:
                tried = await self._take(most)
                if counting:
                    await self._count()
            except errors.Operational as error:
                log.warning("the queue cannot be read", reason=error.message)
                tried = None
            except Exception:  # noqa: BLE001 -- the edge of a loop; `failed` logs it
                loops.failed("queue", self._meters)
                tried = None
            if tried is None or not tried[1]:
                # Where one job met a router that is away, the next thousand would too: one try a second is enough.
                try:
                    async with asyncio.timeout(_IDLE):
                        await self._news.wait()
                except TimeoutError:
                    continue

    async def _perform(self, asked: job.Job, request: str) -> bool:
        """Whether it was done or, for good, failed; it is postponed otherwise."""
        try:
            with self._meters.stages.labels("queued").time():
                await self._doer.perform(asked, request)
        except errors.Operational as error:
            wait = delay(asked.attempts, error.retry_after)
            until = self._clock() + timedelta(seconds=wait)
            await self._queue.postpone(asked.document_id, asked.revision, error.message, until)
            unfit = isinstance(error, kb_errors.Unconfigured)
            self._meters.jobs.labels("misconfigured" if unfit else "postponed").inc()
            log.info("postponed", document=asked.document_id, attempts=asked.attempts + 1, reason=error.message)
            return False
        except errors.Permanent as error:
            # The doer has recorded why and dropped the job.
            self._meters.jobs.labels("failed").inc()
            log.warning("failed", document=asked.document_id, reason=error.message)
        except Exception:
            # The edge of a job, as a handler's is of a request: a bug that one document meets must not end the process,
            # which would meet it again first thing after its restart. It stays in the queue, where it is seen.
            until = self._clock() + timedelta(seconds=_LONGEST)
            reason = "an unexpected error; the service's log has its traceback"
            await self._queue.postpone(asked.document_id, asked.revision, reason, until)
            self._meters.jobs.labels("broken").inc()
            log.exception("broken", document=asked.document_id)
            return False
        else:
            self._meters.jobs.labels("done").inc()
        return True

    async def _count(self) -> None:
        depth = await self._queue.depth()
        for urgency in priority.Priority:
            self._meters.queued.labels(f"P{int(urgency)}").set(depth.get(urgency, 0))
