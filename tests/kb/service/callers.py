"""Who calls the service: tokens of a file, tokens of runs, and the gate that knows both. What a caller is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from contracts.tokens import runtoken, token_file
from crds import scope
from crds.pendingtask import Mode
from crds.priority import Priority
from kb import client
from kb.erasure import closed
from kb.service.access import rates
from kb.service.http import access
from tests.kb import scopes

BEGIN, HOUR = datetime(2026, 3, 1, tzinfo=UTC), timedelta(hours=1)
"""From when and how long the token of a run holds."""
NOW = BEGIN + HOUR / 2
KEYS = runtoken.ring([b"k" * 48])
SHOP = scopes.SHOP.model_dump(by_alias=True)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


TOKENS: list[dict[str, Any]] = [
    {"name": "shop", "sha256": digest("shop-token"), "write": True, "scopes": [SHOP]},
    {"name": "reader", "sha256": digest("reader-token"), "scopes": [{"clientId": "acme"}]},
    {"name": "operator", "sha256": digest("operator-token"), "write": True, "scopes": [{"clientId": "*"}]},
]


def write(folder: Path, *more: Mapping[str, Any]) -> Path:
    """The file of these tokens, and of `more`."""
    path = folder / "tokens.yaml"
    path.write_text(json.dumps({"tokens": [*TOKENS, *more]}))
    return path


def gate(
    tokens: Path | None = None,
    *,
    now: Callable[[], datetime] = lambda: NOW,
    shut: closed.Closed | None = None,
    lives: Callable[[runtoken.Claims], None] = lambda claims: None,
) -> access.Gate:
    """It knows the tokens of runs, and asks for one where there is a file of tokens."""
    book = None if tokens is None else token_file.Book(tokens)
    verifier = runtoken.Verifier(lambda: KEYS, now, runtoken.KNOWLEDGE_BASE, lives)
    return access.Gate(book, rates.Rates(0, 1), lambda: 0.0, shut, verifier)


def signed(
    where: scope.Scope = scopes.SHOP,
    *,
    now: Callable[[], datetime] = lambda: BEGIN,
    lifetime: timedelta = HOUR,
    audience: tuple[str, ...] = runtoken.AUDIENCE,
    **more: Any,
) -> str:
    """The token of a run."""
    usual: dict[str, Any] = {"task_uid": "0b7f", "namespace": "team-a", "attempt": 2, "ceiling": Priority.P3}
    run = runtoken.Run(scope=where, mode=Mode.BACKGROUND, **(usual | more))
    return runtoken.Signer(lambda: KEYS, now).sign(run, lifetime, audience)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def refused(answer: httpx.Response, what: str = "field") -> tuple[int, str]:
    """Status and field of a refusal, or another one of its parts."""
    return answer.status_code, answer.json()["error"][what]


def operations(document: Mapping[str, Any]) -> dict[str, set[str]]:
    """By method, what an OpenAPI document describes; paths without the prefix of the API."""
    pairs = [(method, path) for path, item in document["paths"].items() for method in item]
    methods = {method for method, _ in pairs}
    return {one.upper(): {path.removeprefix("/api/v1/") for method, path in pairs if method == one} for one in methods}


async def rejected(call: Awaitable[object]) -> client.Rejected:
    """What a call of the typed client is refused with."""
    with pytest.raises(client.Rejected) as caught:
        await call
    return caught.value
