"""One SQLite file, used from asyncio without ever blocking the loop.

One thread owns the writing connection (SQLite has one writer anyway), a few threads own a reading connection each.
WAL lets readers go on beside the writer. A transaction that was written is there after a power cut too, unless its
caller does without; then it is there after a crash of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import structlog

from kb import errors

log = structlog.get_logger("kb")
_Result = TypeVar("_Result")

# sqlite3 has one exception class for a full disk and for our own broken SQL; these primary codes mean the former.
_AWAY = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,  # closed while it migrated
    }
)


# Of SQLite's machine between two looks at the clock: less than a millisecond.
_INSTRUCTIONS = 10_000

ERASED = """client = :client AND (:project = '' OR project = :project)
    AND (:project <> '' OR :grp = '' OR (project = '' AND grp = :grp))"""
"""`crds.scope.Scope.covers` over the columns client, project and grp of a row."""


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Be the one process that writes the files of `folder`; a killed one leaves nothing that has to be cleaned up.

    Raises `errors.Misconfigured` while another one is.
    """
    with (folder / "writer.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise errors.Misconfigured(
                f"another process writes in {folder}",
                field="dataDir",
                remedy="Give each writing process a directory of its own, or wait until the other one has ended.",
            ) from error
        yield


# Of one connection, as far as it is used. With SQLite's own 2 MiB a question reads its pages from the file each time.
_CACHE_KIBIBYTES = 32 << 10


def plain(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """A cursor whose rows are tuples: without names, where a question reads thousands of them."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor


@dataclass(frozen=True)
class Rewrite:
    """A migration of many rows, in batches of one transaction each: a process that was killed loses one of them.

    `begin` makes place and returns how many rows the batches take in all. `batch` gets how many it may take, and the
    place at which the one before ended (-1 at first); it returns how many it took, one at least, and where it ended.
    """

    begin: Callable[[sqlite3.Connection], int]
    batch: Callable[[sqlite3.Connection, int, int], tuple[int, int]]
    end: Callable[[sqlite3.Connection], None]


Migration = Callable[[sqlite3.Connection], None] | Rewrite
# While a Rewrite runs: `by` is the schema version of the program that began it, whose tables it fills.
_MIGRATING = "CREATE TABLE migrating (place INTEGER, done INTEGER, total INTEGER, by INTEGER)"


# Less than a second's work, which is what a kill costs. The keys of new rows are hashes, so that a smaller batch
# touches almost as many pages: of 340,000 rows, with 1,000 a migration took 48 s, with 5,000 28 s, in one go 17 s.
BATCH = 5_000


def report_nothing(done: int, total: int) -> None:
    """For files whose migration needs no observer."""


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # a full disk and an interrupt have ended it already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


class Database:
    """A file with a schema of one `version`, kept in `user_version`; below zero while rows of that version are moved.

    `migrations` lead from a version to the next one; a file of a version from which none leads is refused. Of a
    `Rewrite` each batch has up to `batch` rows, and `migrated` is called with (rows done, rows in all) when it begins
    or goes on and after each batch, on the writing thread.
    `read_seconds` is what a question may take, from when it is asked; None is no limit.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        *,
        version: int,
        readers: int = 2,
        read_seconds: float | None = None,
        migrations: Mapping[int, Migration] | None = None,
        batch: int = BATCH,
        migrated: Callable[[int, int], None] = report_nothing,
    ) -> None:
        self._path = path
        self._schema = schema
        self._version = version
        self._migrations = migrations or {}
        self._batch = batch
        self._migrated = migrated
        self._writer = futures.ThreadPoolExecutor(1, thread_name_prefix=f"{path.stem}-write")
        self._readers = futures.ThreadPoolExecutor(readers, thread_name_prefix=f"{path.stem}-read")
        # One of these at a time: they may be long, and must not keep the others waiting.
        self._broad = futures.ThreadPoolExecutor(1, thread_name_prefix=f"{path.stem}-broad")
        self._read_seconds = read_seconds
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()

    async def write(self, work: Callable[[sqlite3.Connection], _Result], *, durable: bool = True) -> _Result:
        """Run `work` in one transaction: all of it becomes visible at its end, or none. Raises `errors.Away`.

        A `durable` one is on the disk when this returns. The others, for what can be made again, save waiting for it;
        the next durable one takes them along.
        """
        return await self._run(self._writer, lambda: self._transact(work, durable=durable))

    async def read(self, work: Callable[[sqlite3.Connection], _Result], *, broad: bool = False) -> _Result:
        """Run `work` on one consistent view of the file. Raises `errors.Away`, or `errors.TooLong` after its time.

        A `broad` question looks at much of the file; it waits for other broad ones, and the rest does not wait for it.
        """
        pool, seconds = self._broad if broad else self._readers, self._read_seconds
        if seconds is None:
            return await self._run(pool, lambda: self._view(work))
        deadline = time.monotonic() + seconds
        return await self._run(pool, lambda: self._view_until(deadline, seconds, work))

    async def prepare(self) -> None:
        """Create the schema, or check the version of the one that is there. Raises `errors.Misconfigured`."""
        await self.write(lambda connection: None)

    async def close(self) -> None:
        """Wait for running work, then close every connection. A migration stops; the next start goes on."""
        self._closing.set()
        await asyncio.to_thread(self._close)

    async def _run(self, pool: futures.ThreadPoolExecutor, work: Callable[[], _Result]) -> _Result:
        # Shielded: a cancelled request must not abandon a running transaction half observed; it ends on its thread.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(pool, self._guard, work))

    def _guard(self, work: Callable[[], _Result]) -> _Result:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in _AWAY:
                raise errors.Away("disk", f"{self._path.name}: {error}") from error
            raise

    def _transact(self, work: Callable[[sqlite3.Connection], _Result], *, durable: bool) -> _Result:
        connection = self._connection(create=True)
        connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        with _transaction(connection):
            return work(connection)

    def _view(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        connection = self._connection(create=False)
        connection.execute("BEGIN")
        try:
            return work(connection)
        finally:
            connection.execute("ROLLBACK")

    def _view_until(self, deadline: float, seconds: float, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        if time.monotonic() >= deadline:
            raise errors.TooLong(self._path.stem, seconds)
        connection = self._connection(create=False)
        connection.set_progress_handler(lambda: time.monotonic() >= deadline, _INSTRUCTIONS)
        try:
            return self._view(work)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise errors.TooLong(self._path.stem, seconds) from error
            raise
        finally:
            connection.set_progress_handler(None, 0)

    def _connection(self, *, create: bool) -> sqlite3.Connection:
        known: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if known is not None:
            return known
        # check_same_thread is off for `close` alone; each connection is used by the thread that opened it.
        connection = sqlite3.connect(self._path, timeout=5.0, isolation_level=None, check_same_thread=False)
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KIBIBYTES}")
            if create:
                # What an erasure deletes is overwritten, and not only marked as free; some builds of SQLite only mark.
                connection.execute("PRAGMA secure_delete=ON")
                self._create(connection)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._open.append(connection)
        self._local.connection = connection
        return connection

    def _create(self, connection: sqlite3.Connection) -> None:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            connection.executescript(f"BEGIN;{self._schema};PRAGMA user_version={self._version};COMMIT;")
            return
        connection.set_progress_handler(self._closing.is_set, _INSTRUCTIONS)
        while abs(found) < self._version and (migration := self._migrations.get(abs(found))) is not None:
            log.info("migrating", file=self._path.name, version=abs(found), to=self._version)
            if isinstance(migration, Rewrite):
                self._rewrite(connection, found, migration)
            else:
                # One transaction with its version number, so that one that breaks off is simply repeated.
                with _transaction(connection):
                    migration(connection)
                    connection.execute(f"PRAGMA user_version={found + 1}")
            found = abs(found) + 1
        connection.set_progress_handler(None, 0)
        if found != self._version:
            raise errors.Misconfigured(
                f"{self._path} has schema version {found}, this program needs {self._version}",
                field="dataDir",
                remedy="Point the setting at an empty directory and ingest again, or run the version that wrote it.",
            )

    def _rewrite(self, connection: sqlite3.Connection, found: int, migration: Rewrite) -> None:
        """From version `found`, or if that is below zero on from where an earlier process was."""
        if found > 0:
            with _transaction(connection):
                total = migration.begin(connection)
                connection.execute(_MIGRATING)
                connection.execute("INSERT INTO migrating VALUES (-1, 0, ?, ?)", (total, self._version))
                connection.execute(f"PRAGMA user_version={-found}")
        place, done, total, by = connection.execute("SELECT place, done, total, by FROM migrating").fetchone()
        if by != self._version:
            raise errors.Misconfigured(
                f"{self._path} is half migrated from version {abs(found)} by a program of version {by}; "
                f"this one has version {self._version}",
                field="dataDir",
                remedy="Run the program that began it until it serves, then this one.",
            )
        log.info("rewriting", file=self._path.name, version=abs(found), done=done, total=total)
        if total:
            self._migrated(done, total)
        while done < total:
            if self._closing.is_set():
                raise errors.Away("disk", f"{self._path.name} is closed while it is migrated")
            with _transaction(connection):
                rows, place = migration.batch(connection, self._batch, place)
                done += rows
                connection.execute("UPDATE migrating SET place = ?, done = ?", (place, done))
            self._migrated(done, total)
        with _transaction(connection):
            migration.end(connection)
            connection.execute("DROP TABLE migrating")
            connection.execute(f"PRAGMA user_version={abs(found) + 1}")

    def _close(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        self._broad.shutdown()
        with self._lock:
            for connection in self._open:
                connection.close()
            self._open.clear()
