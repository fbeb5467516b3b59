"""`python -m kb` whose migration of the graph file stops at each of its reports until the test lets it go on.

MIGRATION_STEPS is a folder: after the report of N rows done it goes on once there is a file N or a file ALL.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kb import __main__ as root
from kb.graph import sqlite as graph_sqlite
from tests.kb.graph import graph_files

FILE = Path(__file__)
STEPS, ALL = "MIGRATION_STEPS", "all"
Store = graph_sqlite.Store


class Stepwise(Store):
    """The store of the service, except that it waits after its reports."""

    def __init__(self, path: Path, *, migrated: Callable[[int, int], None], **more: Any) -> None:
        self._closes = threading.Event()
        steps = Path(os.environ[STEPS])

        def report(done: int, total: int) -> None:
            migrated(done, total)
            while not any((steps / name).exists() for name in (ALL, str(done))) and not self._closes.is_set():
                time.sleep(0.01)

        super().__init__(path, migrations=graph_files.MIGRATIONS, migrated=report, **more)

    async def close(self) -> None:
        closing = asyncio.create_task(super().close())
        # From its first step on no further batch begins, so that the thread may go on.
        await asyncio.sleep(0)
        self._closes.set()
        await closing


if __name__ == "__main__":
    graph_sqlite.Store = Stepwise  # type: ignore[misc, assignment]
    sys.exit(root.main())
