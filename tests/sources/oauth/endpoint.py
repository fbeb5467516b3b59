"""A token endpoint of our own: refresh tokens that are used once, or for ever, and a GitHub App's installations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests import httpserver

CLIENT, WORD = "client-of-the-test", "client-secret-of-the-test"
FIRST = "refresh-token-0"
_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PRIVATE_KEY = _KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
).decode()


class Endpoint:
    """`good` are the refresh tokens that it takes; `rotates`: each is replaced when it is used. `grants` are the access
    tokens that it gave. `answer` is given in place of all that: (status, body, headers)."""

    def __init__(self) -> None:
        self.url, self.now = "", datetime(2026, 11, 26, 12, tzinfo=UTC)
        self.good, self.rotates, self.lasts = {FIRST}, True, 3600
        self.grants: list[str] = []
        self.spent: list[str] = []
        self.answer: tuple[int, str, dict[str, str]] | None = None
        self.replies: asyncio.Event | None = None
        """Wait for it before an answer."""
        self.app_calls = 0

    def secret(self, **more: str) -> dict[str, str]:
        return {
            "token_url": f"{self.url}/token", "client_id": CLIENT, "client_secret": WORD, "refresh_token": FIRST, **more
        }  # fmt: skip

    def app(self, **more: str) -> dict[str, str]:
        url = f"{self.url}/app/installations/7/access_tokens"
        return {"token_url": url, "app_id": "42", "installation_id": "7", "private_key": PRIVATE_KEY, **more}

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        if self.replies is not None:
            await self.replies.wait()
        if self.answer is not None:
            status, body, headers = self.answer
            return web.Response(status=status, text=body, headers=headers)
        if (form["client_id"], form["client_secret"]) != (CLIENT, WORD):
            return web.json_response({"error": "invalid_client", "error_description": "who?"}, status=401)
        assert form["grant_type"] == "refresh_token"
        old = str(form["refresh_token"])
        self.spent.append(old)
        if old not in self.good:
            # As a provider that takes a token once: whose token comes twice may have been stolen.
            self.good.clear()
            said = {"error": "invalid_grant", "error_description": f"token {old} is revoked"}
            return web.json_response(said, status=400)
        access = f"access-token-{len(self.grants)}"
        self.grants.append(access)
        more: dict[str, Any] = {}
        if self.rotates:
            self.good.remove(old)
            more["refresh_token"] = f"refresh-token-{len(self.spent)}"
            self.good.add(more["refresh_token"])
        return web.json_response({"access_token": access, "token_type": "Bearer", "expires_in": self.lasts, **more})

    async def _install(self, request: web.Request) -> web.Response:
        self.app_calls += 1
        date = {"Date": format_datetime(self.now, usegmt=True)}
        signed = request.headers["Authorization"].removeprefix("Bearer ")
        claims = jwt.decode(
            signed, _KEY.public_key(), algorithms=["RS256"], options={"verify_exp": False, "verify_iat": False}
        )
        now = self.now.timestamp()
        if self.answer is not None:
            status, body, headers = self.answer
            return web.Response(status=status, text=body, headers=headers)
        if not (claims["iat"] <= now < claims["exp"] <= claims["iat"] + 600 and claims["iss"] == "42"):
            said = {"message": "'Issued at' claim ('iat') must be an Integer representing the time of the assertion"}
            return web.json_response(said, status=401, headers=date)
        access = f"installation-token-{len(self.grants)}"
        self.grants.append(access)
        ends = (self.now + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        return web.json_response({"token": access, "expires_at": ends}, status=201, headers=date)


@asynccontextmanager
async def running() -> AsyncIterator[Endpoint]:
    """Served on loopback."""
    made = Endpoint()
    app = web.Application()
    app.router.add_post("/token", made._token)
    app.router.add_post("/app/installations/7/access_tokens", made._install)
    async with httpserver.serving(app) as made.url:
        try:
            yield made
        finally:
            if made.replies is not None:
                made.replies.set()
