"""Text to vectors, through the router.

Texts of callers that wait at the same time travel together: while all slots are taken, what comes in gathers, and the
next free slot takes a full batch of the most urgent. Who comes alone is sent at once. An urgent caller never waits for
a slot, so that a question is not kept by bulk indexing.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Sequence

from crds import priority
from kb import errors, metrics
from kb.vectors import model
from router import client

# One request holds a model slot; small batches let a more urgent request in between.
BATCH = 32

_Waiting = tuple[str, "asyncio.Future[model.Vector]"]


class Embedder:
    """Embeds with one model, at most `parallel` requests of the background at once.

    Raises `router.client.Unavailable` or `router.client.Rejected` (unknown model).
    """

    def __init__(self, router: client.Client, name: str, meters: metrics.Metrics, *, parallel: int = 4) -> None:
        self._router = router
        self._model = name
        self._meters = meters
        self._parallel = parallel
        self._waiting: dict[priority.Priority, deque[_Waiting]] = {}
        self._running: set[asyncio.Task[list[model.Vector]]] = set()
        self._background = 0

    async def embed(self, texts: Sequence[str], urgency: priority.Priority) -> list[model.Vector]:
        """One vector per text, in order."""
        loop = asyncio.get_running_loop()
        asked: list[_Waiting] = [(text, loop.create_future()) for text in texts]
        self._waiting.setdefault(urgency, deque()).extend(asked)
        self._pump()
        try:
            vectors = [await future for _, future in asked]
        finally:
            # When one fails, or the caller is cancelled, nobody waits for the others any more.
            for _, future in asked:
                if future.done() and not future.cancelled():
                    future.exception()
                else:
                    future.cancel()
        dimensions = {len(vector) for vector in vectors}
        if len(dimensions) > 1 or 0 in dimensions:
            raise errors.Unusable(
                f"model {self._model!r} answers with vectors of {sorted(dimensions)} dimensions",
                field="embedModel",
                remedy="Set JERVIS_KB_EMBED_MODEL to an embedding model.",
            )
        return vectors

    def _pump(self) -> None:
        """Send whatever may be sent now."""
        for urgency in sorted(self._waiting):
            urgent = urgency <= priority.URGENT
            while (urgent or self._background < self._parallel) and (batch := self._take(urgency)):
                self._background += not urgent
                sending = self._router.embed(self._model, [text for text, _ in batch], urgency)
                task = asyncio.get_running_loop().create_task(sending)
                self._running.add(task)
                task.add_done_callback(functools.partial(self._sent, batch, urgent))

    def _take(self, urgency: priority.Priority) -> list[_Waiting]:
        waiting = self._waiting[urgency]
        batch: list[_Waiting] = []
        while waiting and len(batch) < BATCH:
            text, future = waiting.popleft()
            if not future.done():
                batch.append((text, future))
        return batch

    def _sent(self, batch: Sequence[_Waiting], urgent: bool, task: asyncio.Task[list[model.Vector]]) -> None:
        """Hand out what came back, whatever it is, and use the slot again."""
        self._running.discard(task)
        self._background -= not urgent
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            self._meters.embedded.inc(len(batch))
        vectors = [None] * len(batch) if error is not None or task.cancelled() else task.result()
        for (_, future), vector in zip(batch, vectors, strict=True):
            if future.done():
                continue
            if vector is not None:
                future.set_result(vector)
            elif error is not None:
                future.set_exception(error)
            else:
                future.cancel()
        self._pump()
