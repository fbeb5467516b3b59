"""Processes that outlive the command which started them, known by a record of pid, start time and boot.

A pid alone is reused by the kernel; the record's start time (clock ticks since boot, field 22 of /proc/PID/stat) and
boot id make sure that only the very process which we started is ever signalled.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import errors

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Identity:
    """One process of one boot."""

    pid: int
    started: int  # clock ticks after boot
    boot: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The identity of a live process; None when it is gone or a zombie."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = stat.rpartition(")")[2].split()
        if fields[0] in "ZX":
            return None
        return cls(pid, int(fields[19]), _BOOT_ID.read_text().strip())

    def alive(self) -> bool:
        return Identity.of(self.pid) == self

    def stop(self, grace: float) -> None:
        """SIGTERM, then SIGKILL after `grace` seconds; returns when the process is gone."""
        for sign, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
            if not self.alive():
                return
            try:
                os.kill(self.pid, sign)
            except ProcessLookupError:
                return
            deadline = time.monotonic() + patience
            while self.alive() and time.monotonic() < deadline:
                _reap(self.pid)
                time.sleep(0.02)
        if self.alive():
            raise errors.Failure(f"process {self.pid} ignores SIGKILL (it hangs in the kernel): reboot the machine")


@dataclass(frozen=True)
class Daemon:
    """A named process with its record and its log in one directory."""

    name: str
    directory: Path

    @property
    def record(self) -> Path:
        return self.directory / f"{self.name}.pid.json"

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"

    def identity(self) -> Identity | None:
        """The live process of this record, or None."""
        try:
            found = Identity(**json.loads(self.record.read_text()))
        except (FileNotFoundError, ValueError, TypeError):  # a torn record names no process
            return None
        return found if found.alive() else None

    def start(
        self, argv: Sequence[str | Path], env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> None:
        """Start it unless it runs already. `prefix` is a program that ends by exec-ing argv (nsenter, setpriv)."""
        if self.identity() is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                [*prefix, *map(str, argv)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        identity = Identity.of(child.pid)
        child.returncode = 0  # it outlives us on purpose: Popen must not warn that it still runs
        if identity is None:
            raise errors.NotReady(f"{self.name} ended at once:\n{self.tail()}")
        unfinished = self.record.with_suffix(".new")
        unfinished.write_text(json.dumps(dataclasses.asdict(identity)))
        unfinished.replace(self.record)

    def stop(self, grace: float = 10.0) -> None:
        """Stop it if it runs and forget it."""
        identity = self.identity()
        if identity is not None:
            identity.stop(grace)
        self.record.unlink(missing_ok=True)

    def wait(self, ready: Callable[[], bool], seconds: float) -> None:
        """Poll `ready` until it says yes.

        Raises NotReady with the end of the log when the process dies or the time is over.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if self.identity() is None:
                raise errors.NotReady(
                    f"{self.name} died while it was starting; its log ({self.log}) ends:\n{self.tail()}"
                )
            if time.monotonic() > deadline:
                raise errors.NotReady(
                    f"{self.name} is not ready after {seconds:.0f} s; {self.log} ends:\n{self.tail()}"
                )
            time.sleep(0.05)

    def tail(self, lines: int = 12) -> str:
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 8192))
                return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(no log)"


def _reap(pid: int) -> None:
    """Take the exit status when the process is our own child, so that it does not stay a zombie."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
