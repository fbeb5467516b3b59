"""What a service needs to take run tokens: their keys, and what the operator says of which runs there are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import structlog

from contracts.tokens import keyring, live_runs, runtoken
from crds import errors

log = structlog.get_logger(__name__)

_SECONDS = 2.0
"""Of one question; the answer is a list in the operator's memory."""
_REPLICAS = 4
"""Questions by connections of their own, of which one comes to the replica that leads."""
_PATIENCE = 15.0
"""Seconds without an answer that are worth a line of the log."""


@dataclass(frozen=True, slots=True)
class Runs:
    """`verifier` accepts run tokens while `follow()` runs, which never ends. None: tokens are good until they expire,
    also after their run."""

    verifier: runtoken.Verifier
    follow: Callable[[], Coroutine[Any, Any, None]] | None


def opened(
    folder: str, url: str, audience: str, *, monotonic: Callable[[], float], wall: Callable[[], datetime]
) -> Runs:
    """For the service `audience`, with the keys in `folder`; `url` is the operator's address of history, "" for none.
    Raises `runtoken.Unusable`."""
    keys = keyring.Keyring(Path(folder), monotonic)
    if not url:
        log.warning("run tokens outlive their runs", remedy="Set LIVE_RUNS_URL to the operator's address of history.")
        return Runs(runtoken.Verifier(keys, wall, audience), None)
    known = live_runs.Known(keys, monotonic, wall)
    return Runs(runtoken.Verifier(keys, wall, audience, known.check), partial(follow, known, url))


async def follow(
    known: live_runs.Known,
    url: str,
    every: float = live_runs.EVERY_SECONDS,
    *,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Ask `url`, the operator's address of history, every `every` seconds, for ever. What goes wrong for a while is
    logged once."""
    answered, told = monotonic(), False
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    # A connection that is kept leads to one replica, be it the one that leads or not.
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, trust_env=False, auto_decompress=False
    ) as http:
        while True:
            problem = ""
            for _ in range(_REPLICAS):
                problem = await _ask(known, http, f"{url.rstrip('/')}{live_runs.PATH}")
                if not problem:
                    break
            if not problem:
                answered = monotonic()
            if monotonic() - answered >= _PATIENCE and not told:
                told = True
                log.warning("live runs unknown", problem=problem)
            elif told and not problem:
                told = False
                log.info("live runs known")
            await pause(every)


async def _ask(known: live_runs.Known, http: aiohttp.ClientSession, url: str) -> str:
    """What went wrong; "" where the list was heard."""
    try:
        async with http.get(url, allow_redirects=False) as response:
            if response.status != 200:
                return f"{url}: status {response.status}"
            raw = await response.content.read(live_runs.MOST_BYTES + 1)
            while len(raw) <= live_runs.MOST_BYTES and (more := await response.content.read(live_runs.MOST_BYTES)):
                raw += more
        if len(raw) > live_runs.MOST_BYTES:
            return f"{url}: more than {live_runs.MOST_BYTES} bytes"
        known.hear(raw.decode("ascii"))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        return f"{url}: {type(error).__name__}: {error}"
    except errors.JervisError as error:
        return f"{url}: {error.message}"
    return ""
