"""An application of the API behind a real socket, and tokens for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from contracts.tokens import runtoken, token_file
from crds import scope
from crds.pendingtask import Mode
from crds.priority import Priority
from sources.api import app, gate, routes
from tests import httpserver

NOW = datetime(2026, 11, 26, 12, 0, 0, tzinfo=UTC)
KEYS = runtoken.ring([b"a key of the tests of the API, 32 bytes"])
ACME = scope.Scope(client_id="acme", project_id="apollo")


def run_token(
    where: scope.Scope = ACME,
    *,
    namespace: str = "team-a",
    uid: str = "0b7f",
    audience: tuple[str, ...] = runtoken.AUDIENCE,
    now: datetime = NOW,
    keys: runtoken.Ring = KEYS,
    principals: tuple[str, ...] = (),
    repository: str = "",
    **more: Any,
) -> str:
    """A token of a run in `where`, or of the analysis of a repository; valid for an hour. `more` of `runtoken.Run`."""
    run = runtoken.Run(
        task_uid=uid,
        namespace=namespace,
        attempt=1,
        scope=where,
        mode=Mode.FOREGROUND,
        ceiling=Priority.P0,
        principals=principals,
        repository=repository,
        **more,
    )
    return runtoken.Signer(lambda: keys, lambda: now).sign(run, timedelta(hours=1), audience)


@asynccontextmanager
async def serving(
    served: Sequence[routes.Served],
    *,
    token: str = "",
    book: token_file.Book | None = None,
    now: datetime = NOW,
    lives: Callable[[runtoken.Claims], None] = lambda claims: None,
    **limits: Any,
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the API that shows `token`; `lives` as of `runtoken.Verifier`."""
    doors = gate.Gate(runtoken.Verifier(lambda: KEYS, lambda: now, runtoken.SOURCES, lives), book)
    built = app.build(served, doors, **{"max_body": 4096, "body_seconds": 5.0, **limits})
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpserver.serving(built) as base,
        httpx.AsyncClient(base_url=base, headers=headers, trust_env=False) as client,
    ):
        yield client
