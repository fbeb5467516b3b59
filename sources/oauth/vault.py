"""Refresh tokens that replaced the one of a Secret, in MongoDB, and whose turn it is to use one.

A row is named by a hash of the Secret's own values and sealed by a key made of them (`grant.Grant.key`): who writes
another Secret begins anew, and MongoDB alone gives no token. A claim lets one process at a time spend a refresh token,
which some providers take once; it ends by itself after `lasts` seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

from clients.mongo import AFTER, ASCENDING, Duplicate, translate_errors
from sources.oauth import grant

ROWS = "source_tokens"
KEPT = timedelta(days=400)
"""Without use; no provider keeps an unused refresh token for longer than a year."""


@dataclass(frozen=True, slots=True)
class Turn:
    """`refresh` is the newest refresh token."""

    of: grant.Grant
    holder: str
    refresh: str


class Vault:
    """`database` is one of `mongo.client`."""

    def __init__(self, database: Any, *, lasts: float = 60.0) -> None:
        self._rows, self._lasts = database[ROWS], timedelta(seconds=lasts)

    async def prepare(self) -> None:
        """Make the index. Raises `mongo.Unavailable`."""
        with translate_errors("make an index"):
            await self._rows.create_index([("forgetAt", ASCENDING)], expireAfterSeconds=0)

    async def claim(self, of: grant.Grant, holder: str, now: datetime) -> Turn | None:
        """None: another process has its turn. Raises `mongo.Unavailable`."""
        free = [{"until": {"$lt": now}}, {"until": None}]
        values = {"holder": holder, "until": now + self._lasts, "forgetAt": now + KEPT}
        with translate_errors("claim a refresh token"):
            try:
                row = await self._rows.find_one_and_update(
                    {"_id": of.id, "$or": free}, {"$set": values}, upsert=True, return_document=AFTER
                )
            except Duplicate:
                return None
        return Turn(of, holder, _opened(of, row.get("sealed")) or of.refresh_token)

    async def end(self, turn: Turn, refresh: str = "") -> bool:
        """The turn is over, and `refresh` is the refresh token from now on, "" where it stays; False where the turn had
        ended by itself, and nothing was written. Raises `mongo.Unavailable`."""
        sealed = {"sealed": Fernet(turn.of.key).encrypt(refresh.encode())} if refresh else {}
        with translate_errors("write a refresh token"):
            done = await self._rows.update_one(
                {"_id": turn.of.id, "holder": turn.holder}, {"$set": {"until": None, "holder": "", **sealed}}
            )
        return bool(done.matched_count)


def _opened(of: grant.Grant, sealed: bytes | None) -> str:
    if not sealed:
        return ""
    try:
        return Fernet(of.key).decrypt(bytes(sealed)).decode()
    except InvalidToken:
        return ""  # damaged: the Secret's own may still do
