"""Loads and unloads that the scheduler asked for, carried out by requests that no client owns.

An empty `/api/generate` loads a model without generating, an empty `/api/embed` does so for a model that only embeds,
and keep_alive 0 unloads. Neither counts as done before /api/ps proves it. One task per backend and model; a load that
fails is reported to the scheduler, which decides whether to try again.

Source: Ollama's API page, "Load a model", "Unload a model".
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import structlog

from router.backends import book, records
from router.effects import Load, Unload, WriteStatus
from router.proxy.connection import Broken
from router.proxy.pool import Pool, Pools

_log = structlog.get_logger("router.warmup")

# Seconds between two looks at /api/ps, and until a model that was unloaded must have left it (Ollama waits up to 5 s
# for the memory).
_LOOK = 0.25
_LEAVES = 10.0
_ANSWERS = 5.0


class Warmer:
    """`loaded(backend, model, error)` and `unloaded(backend, model)` receive the outcome. `patience` bounds a load, in
    seconds. `windows` are those in tokens with which models are asked, for a backend that states none: a model that is
    loaded with another one would be loaded anew by its first request. `counts` gets `Spilled` for a load that left a
    part of the model outside the GPU's memory."""

    def __init__(
        self,
        backends: book.Book,
        pools: Pools,
        *,
        loaded: Callable[[str, str, str], None],
        unloaded: Callable[[str, str], None],
        patience: float,
        counts: Counter[str],
        windows: Mapping[str, int] | None = None,
    ) -> None:
        self._book, self._pools = backends, pools
        self._loaded, self._unloaded, self._patience = loaded, unloaded, patience
        self._tasks: set[asyncio.Task[None]] = set()
        self._counts = counts
        self._windows = windows or {}

    def perform(self, effect: Load | Unload | WriteStatus) -> None:
        """Begin what is to be loaded or unloaded; returns at once."""
        if isinstance(effect, WriteStatus):
            return
        work = self._load(effect) if isinstance(effect, Load) else self._unload(effect)
        task = asyncio.get_running_loop().create_task(work, name=f"{type(effect).__name__} {effect.model}")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("unexpected", task=task.get_name(), exc_info=error)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _load(self, effect: Load) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            error = await self._try(effect)
        except Exception as odd:  # noqa: BLE001  # a load that the scheduler never hears of would keep the memory reserved
            _log.error("load failed", backend=effect.backend, model=effect.model, exc_info=odd)
            error = f"unexpected: {odd!r}"
        seconds = round(loop.time() - begun, 2)
        if error:
            _log.warning("model not loaded", backend=effect.backend, model=effect.model, reason=error, seconds=seconds)
        else:
            _log.info("model loaded", backend=effect.backend, model=effect.model, seconds=seconds)
        self._loaded(effect.backend, effect.model, error)

    async def _try(self, effect: Load) -> str:
        """Empty when the model is in memory, else why not."""
        pool = self._pool(effect.backend)
        if pool is None:
            return "the backend is gone"
        body: dict[str, Any] = {"model": effect.model, "keep_alive": effect.keep_alive, "stream": False}
        num_ctx = effect.num_ctx or self._windows.get(effect.model)
        if num_ctx is not None:
            body["options"] = {"num_ctx": num_ctx}
        try:
            code, text = await pool.fetch("/api/generate", timeout=self._patience, body=orjson.dumps(body))
            if code == 400:  # a model that only embeds
                body["input"] = []
                code, text = await pool.fetch("/api/embed", timeout=self._patience, body=orjson.dumps(body))
            if code != 200:
                return f"answered {code}: {_said(text)}"
            loaded = await self._look(effect.backend, pool)
        except Broken as error:
            return error.message
        record = next((r for r in loaded if records.model(r) == effect.model), None)
        if record is None:
            return "/api/ps does not show it"
        if records.size(record, "size_vram") < records.size(record):
            self._counts["Spilled"] += 1
            _log.warning(
                "a part of the model is not in the GPU's memory: lower numCtx, or take models out of its set",
                backend=effect.backend, model=effect.model, size=record.get("size"), size_vram=record.get("size_vram"),
            )  # fmt: skip
        return ""

    async def _unload(self, effect: Unload) -> None:
        pool = self._pool(effect.backend)
        if pool is None:
            return
        body = orjson.dumps({"model": effect.model, "keep_alive": 0, "stream": False})
        try:
            code, text = await pool.fetch("/api/generate", timeout=self._patience, body=body)
            if code not in (200, 404):
                _log.warning("model not unloaded", backend=effect.backend, model=effect.model, reason=_said(text))
                return
            async with asyncio.timeout(_LEAVES):
                # Ollama does not report when the memory is free: only asking again helps.
                while any(  # noqa: ASYNC110  # see above
                    records.model(r) == effect.model for r in await self._look(effect.backend, pool)
                ):
                    await asyncio.sleep(_LOOK)
        except TimeoutError:
            _log.warning("model does not leave the memory", backend=effect.backend, model=effect.model)
            return
        except Broken as error:
            _log.warning("model not unloaded", backend=effect.backend, model=effect.model, reason=error.message)
            return
        _log.info("model unloaded", backend=effect.backend, model=effect.model)
        self._unloaded(effect.backend, effect.model)

    async def _look(self, backend: str, pool: Pool) -> tuple[records.Record, ...]:
        """/api/ps now; the book receives it too, so that no decision uses an older one."""
        code, text = await pool.fetch("/api/ps", timeout=_ANSWERS)
        if code != 200:
            raise Broken(f"/api/ps answered {code}")
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise Broken("/api/ps is not JSON") from error
        found = records.listed(document)
        if found is None:
            raise Broken("/api/ps is not a JSON object")
        self._book.resident(backend, found)
        return found

    def _pool(self, backend: str) -> Pool | None:
        entry = self._book.find(backend)
        return None if entry is None else self._pools.of(backend, entry.spec.url)


def _said(text: bytes) -> str:
    return text[:200].decode("utf-8", "replace")
