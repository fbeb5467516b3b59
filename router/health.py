"""Probes: is a backend there, what does it have, what is in its memory.

`/api/version` and `/api/ps` every round, `/api/tags` every few rounds; of an OpenAI server `/health` and `/v1/models`.
One probe per backend in flight, never on the way of a request, and never a generation. A backend that is away is asked
less and less often. Beside its probes, `/api/show` is asked once about each model that a role uses.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson
import structlog

from crds import modelcheck
from crds.gpubackend import Engine
from router.backends import book, records
from router.proxy.connection import Broken
from router.proxy.pool import Pool, Pools, Refused, Unreachable

_log = structlog.get_logger("router.health")

_LONGEST_PAUSE = 60.0
"""Seconds between two attempts to have models described by a server that does not do so."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Seconds. `tolerance` probes may go unanswered before a backend counts as away; a refused connection counts at
    once."""

    interval: float = 2.0
    timeout: float = 2.0
    tags_every: int = 3
    longest: float = 10.0
    tolerance: int = 3


class Prober:
    """Keeps two tasks per entry of the book: one probes it, one asks about its models. `follow` is the book's
    listener."""

    def __init__(
        self,
        backends: book.Book,
        pools: Pools,
        rounds: Rounds,
        *,
        chance: Random,
        used: frozenset[str] = frozenset(),
    ) -> None:
        """`used` are the normalised names of models that roles use: of these Ollama is asked what they can do."""
        self._used = used
        self._book = backends
        self._pools = pools
        self._rounds = rounds
        self._chance = chance
        self._tasks: dict[str, tuple[book.Entry, list[asyncio.Task[None]]]] = {}
        self._first: dict[str, asyncio.Event] = {}

    def follow(self) -> None:
        """Start probing what is new, stop probing what is gone."""
        entries = {entry.name: entry for entry in self._book.entries()}
        for name, (entry, tasks) in list(self._tasks.items()):
            if entries.get(name) is not entry:
                for task in tasks:
                    task.cancel()
                del self._tasks[name]
                self._first.pop(name, None)
        self._pools.keep(set(entries))
        for name, entry in entries.items():
            if name not in self._tasks:
                asked = self._first[name] = asyncio.Event()
                create = asyncio.get_running_loop().create_task
                tasks = [create(self._run(entry, asked), name=f"probe {name}")]
                if entry.spec.engine is Engine.OLLAMA:
                    tasks.append(create(self._describe(entry), name=f"describe {name}"))
                self._tasks[name] = (entry, tasks)

    async def first_round(self, timeout: float) -> None:
        """Wait until every backend known now was asked once, at most `timeout` seconds."""
        waits = [event.wait() for event in self._first.values()]
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(*waits)
        except TimeoutError:
            _log.warning("starting although some backends have not been probed")

    async def close(self) -> None:
        """Stop all probes."""
        tasks = [task for _, of_entry in self._tasks.values() for task in of_entry]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, entry: book.Entry, asked: asyncio.Event) -> None:
        failures, rounds = 0, 0
        while True:
            try:
                seen = await probe(
                    self._pools.of(entry.name, entry.spec.url),
                    self._rounds.timeout,
                    engine=entry.spec.engine,
                    tags=rounds % self._rounds.tags_every == 0,
                )
            except Exception as error:  # noqa: BLE001  # an odd object or answer must not end its backend's probes
                _log.error("probe failed", backend=entry.name, exc_info=error)
                seen = book.Observation(reachable=False, reason=f"cannot be probed: {error!r}")
            if seen.reachable:
                failures, rounds = 0, rounds + 1
            else:
                # Everything is asked anew when it comes back: it may be another server.
                failures, rounds = failures + 1, 0
            if self._tell(entry, seen, failures):
                self._book.observed(entry, seen)
                asked.set()
            await asyncio.sleep(self._pause(entry, failures))

    async def _describe(self, entry: book.Entry) -> None:
        """Keep what is known of the models that roles use: each is asked about once for each digest of it."""
        digests: dict[str, object] = {}
        failures = 0
        while True:
            listed = entry.tags if entry.reachable and entry.tags is not None else ()
            there = {records.model(one): one for one in listed if records.model(one) in self._used}
            if entry.reachable:
                for name in entry.facts.keys() - there.keys():
                    del entry.facts[name]
            why = ""
            for name, record in there.items():
                digest = record.get("digest")
                if name in entry.facts and digests[name] == digest:
                    continue
                try:
                    entry.facts[name] = await self._facts(entry, records.name(record))
                    digests[name] = digest
                except Broken as error:
                    why = f"{name}: {error.message}"
            failures = failures + 1 if why else 0
            if failures == 1:
                _log.info("a model is not described", backend=entry.name, reason=why)
            await asyncio.sleep(min(self._rounds.interval * 2 ** min(failures, 10), _LONGEST_PAUSE))

    async def _facts(self, entry: book.Entry, name: str) -> modelcheck.Facts:
        pool, body = self._pools.of(entry.name, entry.spec.url), orjson.dumps({"model": name})
        return modelcheck.facts(await _document(pool, "/api/show", self._rounds.timeout, body=body))

    def _tell(self, entry: book.Entry, seen: book.Observation, failures: int) -> bool:
        """Whether to believe a round. A busy machine answers late now and then; that is not an outage."""
        if seen.reachable != entry.reachable and (seen.reachable or failures >= self._rounds.tolerance or seen.final):
            change = "backend is up" if seen.reachable else "backend is down"
            _log.info(change, backend=entry.name, reason=seen.reason)
        return seen.reachable or seen.final or failures >= self._rounds.tolerance or entry.reachable is None

    def _pause(self, entry: book.Entry, failures: int) -> float:
        base = self._rounds.interval
        if failures > self._rounds.tolerance:
            base = min(base * 2 ** min(failures - self._rounds.tolerance, 10), self._rounds.longest)
        # Ten routers that start together must not ask together for ever.
        return base * self._chance.uniform(0.9, 1.1)


class _WrongError(Broken):
    """It answered, and not what a server of its engine answers."""


async def probe(pool: Pool, timeout: float, *, tags: bool, engine: Engine = Engine.OLLAMA) -> book.Observation:
    """One round of questions; `tags` asks for the catalogue too, which of an OpenAI server is asked for always."""
    try:
        return await (_openai(pool, timeout) if engine is Engine.OPENAI else _ollama(pool, timeout, tags=tags))
    except _WrongError as error:
        return book.Observation(reachable=False, reason=error.message)
    except Broken as error:
        final, silent = isinstance(error, Unreachable), not isinstance(error, Refused)
        return book.Observation(reachable=False, reason=error.message, final=final, silent=silent)


async def _ollama(pool: Pool, timeout: float, *, tags: bool) -> book.Observation:
    about = await _document(pool, "/api/version", timeout)
    listed = records.listed(await _document(pool, "/api/tags", timeout)) if tags else None
    loaded = records.listed(await _document(pool, "/api/ps", timeout))
    return book.Observation(reachable=True, about=about, tags=listed, ps=loaded)


async def _openai(pool: Pool, timeout: float) -> book.Observation:
    # llama.cpp lists its model while it loads it, and vLLM after its engine has died: /health knows. Some have none.
    code, _ = await pool.fetch("/health", timeout=timeout)
    if code >= 500:
        raise _WrongError(f"/health answered {code}: the server loads its model, or has failed")
    document = await _document(pool, "/v1/models", timeout, what="a server with OpenAI's API")
    if not isinstance(document.get("data"), list):
        raise _WrongError("/v1/models has no list 'data': is this a server with OpenAI's API?")
    return book.Observation(reachable=True, tags=records.listed(document, "data"), ps=())


async def _document(
    pool: Pool, path: str, timeout: float, *, what: str = "an Ollama server", body: bytes | None = None
) -> dict[str, Any]:
    code, text = await pool.fetch(path, timeout=timeout, body=body)
    if code != 200:
        hint = f": is this {what}? Look at spec.engine" if code == 404 and body is None else ""
        raise _WrongError(f"{path} answered {code}{hint}")
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _WrongError(f"{path} is not JSON: is this {what}?") from error
    if not isinstance(document, dict):
        raise _WrongError(f"{path} is not a JSON object: is this {what}?")
    return document
