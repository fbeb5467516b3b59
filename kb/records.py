"""Where a process writes down what it is doing: intents, kept answers, the queue, turns, and itself as a place.

files     SQLite in the data folder; one process owns it, and turns are given within the process
mongodb   shared by all processes of an installation; turns are claims, and a process that ends leaves nothing
"""

from __future__ import annotations

import contextlib
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kb import mongo, settings
from kb.erasure import closed, places
from kb.ingest import document_locks, mongo_locks
from kb.ingest import mongo as shared_ledger
from kb.ingest import sqlite as ledger
from kb.queue import mongo as shared_queue
from kb.queue import sqlite as queue

_MARGIN = 0.625
"""Of the time after which a process is taken for gone: before it, it has stopped, and its last call has ended."""
_ANSWERS = 100_000
"""Answers of the extraction model that are kept, of all clients; one that is gone is asked for again."""


@dataclass(frozen=True)
class Records:
    """`claims` is None where one process alone writes; otherwise its `run` has to run."""

    ledger: ledger.Ledger | shared_ledger.Ledger
    queue: queue.Queue | shared_queue.Queue
    turns: document_locks.Port
    places: places.Places
    claims: mongo_locks.Turns | None = None


def known_for(config: settings.Settings) -> float | None:
    """Seconds for which one of several processes may act on what it asked MongoDB; None where there is only one."""
    return config.turn_seconds * (1 - _MARGIN) if config.shared else None


def shut(config: settings.Settings) -> closed.Closed:
    """The closed scopes of a process. One of several takes no writes while it cannot ask which they are."""
    return closed.Closed(time.monotonic, known_for=known_for(config))


async def opened(
    config: settings.Settings,
    database: mongo.Database,
    clock: Callable[[], datetime],
    stack: contextlib.AsyncExitStack,
) -> Records:
    """Open them as the settings say; they end with `stack`. Raises `kb.errors.Misconfigured` or `kb.errors.Away`."""
    name = config.name or socket.gethostname()
    limit, per_client = config.queue_limit, config.queue_client_limit
    max_bytes, client_bytes = config.queue_bytes, config.queue_client_bytes
    if config.shared:
        life = config.turn_seconds
        # Another process than the one of the same name before it.
        me = f"{name}/{uuid.uuid4().hex}"
        owners = mongo_locks.Turns(database, me, clock, time.monotonic, life=life, margin=life * _MARGIN)
        place = places.Places(database, me, "Process", name, clock, time.monotonic, life=life)
        book = shared_ledger.Ledger(database, clock, max_answers=_ANSWERS)
        jobs = shared_queue.Queue(
            database, me, clock, limit=limit, per_client=per_client, max_bytes=max_bytes, client_bytes=client_bytes
        )
        return Records(book, jobs, owners, place, owners)
    kept = ledger.Ledger(config.data_dir / "ingest.sqlite", clock, max_answers=_ANSWERS)
    stack.push_async_callback(kept.close)
    await kept.prepare()
    waiting = queue.Queue(
        config.data_dir / "queue.sqlite",
        clock,
        limit=limit,
        per_client=per_client,
        max_bytes=max_bytes,
        client_bytes=client_bytes,
    )
    stack.push_async_callback(waiting.close)
    await waiting.prepare()
    # There is one such folder in an installation, whatever pod has it.
    place = places.Places(database, "files", "Files", name, clock, time.monotonic)
    return Records(kept, waiting, document_locks.Turns(), place)
