"""A process that was started before there was a task for it: it imports what a run needs, and asks for a task.

The wait is long and costs nothing: one request at a time, which the operator answers when the Job of this pod is
claimed. A task ends it, or a stop request (drained, as any run); an operator that refuses or is away is asked again.

Source of the wire format: `contracts.api.warm_assignment`.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pydantic
import structlog

from contracts.api import warm_assignment
from orchestrator_job.run import drain
from router import client as router_client

PAUSE_SECONDS = 1.0
"""After a failure; doubled up to LONGEST_PAUSE_SECONDS."""
LONGEST_PAUSE_SECONDS = 15.0
_ANSWER_SECONDS = warm_assignment.WAIT_SECONDS + 15.0
_NEEDED = (
    "orchestrator_job.run.lifecycle",
    "orchestrator_job.run.graph",
    "orchestrator_job.run.checkpoints",
    "orchestrator_job.run.delegation_wiring",
    "orchestrator_job.effects.tools.toolbox",
)
"""What a run imports, now or with its first delegation."""

_log = structlog.get_logger("orchestrator_job.run.warm_start")


def imports() -> None:
    """Import what a run needs, while no task waits for it."""
    for name in _NEEDED:
        importlib.import_module(name)


async def task(
    url: str, token: Callable[[], str | None], request: drain.Request, *, http: httpx.AsyncClient
) -> warm_assignment.Given:
    """Wait until the operator has a task for this pod. `token` is read before each request: the kubelet renews it.

    Raises Drained after a stop request.
    """
    asking = asyncio.ensure_future(_ask(url.rstrip("/") + warm_assignment.PATH, token, http))

    def stop(_: str) -> None:
        asking.cancel()

    request.listen(stop)
    try:
        return await asking
    except asyncio.CancelledError:
        if request.reason is None:
            raise
        raise drain.Drained(request.reason) from None


def keep(token: str, path: Path) -> str:
    """Write the run's token to a file that this process alone may read; its path, "" without a token."""
    if not token:
        return ""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(token)
    return str(path)


async def _ask(url: str, token: Callable[[], str | None], http: httpx.AsyncClient) -> warm_assignment.Given:
    pause = PAUSE_SECONDS
    timeout = httpx.Timeout(_ANSWER_SECONDS, connect=5)
    while True:
        try:
            shown = {"Authorization": f"Bearer {own}"} if (own := token()) else {}
            answer = await http.get(url, headers=shown, timeout=timeout)
            if answer.status_code == 204:
                pause = PAUSE_SECONDS
                continue
            if answer.status_code == 200:
                return warm_assignment.Given.model_validate_json(answer.content)
            reason = f"HTTP {answer.status_code}: {answer.text[:300]}"
        except (httpx.HTTPError, pydantic.ValidationError, router_client.Unavailable) as error:
            reason = repr(error)
        _log.info("no task yet", reason=reason)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
