"""The file, and what is asked of every partition of a viewer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from crds import scope
from kb import sqlite
from kb.graph import codec, model, statements

_LAST_CHARACTER, _URN_CHARS = chr(0x10FFFF), 1024


class File:
    """What reading and writing stand on: one file at `path`.

    A question may take `seconds` (None: no limit) and read `hub` rows at one node. For `migrations`, `batch` and
    `migrated` see `kb.sqlite.Database`.
    """

    def __init__(
        self,
        path: Path,
        *,
        seconds: float | None = None,
        hub: int = model.HUB,
        migrations: Mapping[int, sqlite.Migration] | None = None,
        batch: int = sqlite.BATCH,
        migrated: Callable[[int, int], None] = sqlite.report_nothing,
    ) -> None:
        self._hub = hub
        self._database = sqlite.Database(
            path,
            statements.SCHEMA,
            version=statements.VERSION,
            read_seconds=seconds,
            migrations=migrations,
            batch=batch,
            migrated=migrated,
        )

    async def prepare(self) -> None:
        await self._database.prepare()

    async def ready(self) -> None:
        await self._database.read(lambda connection: connection.execute("SELECT 1").fetchone())

    async def close(self) -> None:
        await self._database.close()

    async def _rows(
        self, statement: str, viewer: scope.Scope, *, history: bool = False, broad: bool = False, **values: Any
    ) -> list[sqlite3.Row]:
        """The rows of the present, and with `history` after them those of replaced versions."""
        asked = [{"moment": None, **view, **values} for view in views(viewer, history=history)]
        return await self._database.read(
            lambda connection: [row for bound in asked for row in connection.execute(statement, bound)], broad=broad
        )


def views(viewer: scope.Scope, *, history: bool) -> list[dict[str, Any]]:
    """What a statement binds of its viewer, once for each partition that it is asked of."""
    return [codec.viewer_of(viewer, history=past) for past in ((False, True) if history else (False,))]


def last(beginning: str) -> str:
    """No source URN that begins so comes after it."""
    return beginning + _LAST_CHARACTER * _URN_CHARS
