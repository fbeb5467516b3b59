"""Ask a nursery for processes, with the interface of `subprocess.Popen` as far as tests use it.

child = children.of("router").start(environment, log)
child.send_signal(signal.SIGTERM)
assert child.wait(20) == 0
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests import waiting

ROOT = Path(__file__).resolve().parents[2]


class Process(Protocol):
    """What tests ask of a process, whoever started it; as `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: signal.Signals, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


Start = Callable[[Sequence[str], Mapping[str, str], Path, Path], Process]
"""Starts `python -m` these words, with (environment, log, working directory)."""


class Child:
    """One process. `returncode` is None while it runs; a signal's number below zero ended it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = threading.Event()
        self._told: list[Callable[[], None]] = []
        self._telling = threading.Lock()

    def end(self, code: int) -> None:
        """The nursery says that it has ended."""
        self.returncode = code
        with self._telling:
            self._ended.set()
        for tell in self._told:
            tell()

    def when_ended(self, tell: Callable[[], None]) -> None:
        """Call this once it has ended, in any thread."""
        with self._telling:
            if not self._ended.is_set():
                self._told.append(tell)
                return
        tell()

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended. subprocess.TimeoutExpired after `timeout` seconds."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Any signal; one to a process that has ended goes nowhere."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and the nursery is about to say so
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The server of one program; its children end with it."""

    def __init__(self, program: str, also: Sequence[str] = ()) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.nursery", program, *also]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe)
        self._asking = threading.Lock()
        self._ready = threading.Event()
        self._started: queue.SimpleQueue[Child | None] = queue.SimpleQueue()
        self._living: dict[int, Child] = {}
        self._listener = threading.Thread(target=self._listen, name=f"nursery of {program}", daemon=True)
        self._listener.start()

    def start(
        self, environment: Mapping[str, str], log: Path, arguments: Sequence[str] = (), directory: Path = ROOT
    ) -> Child:
        """A new process with this environment and no other, both outputs appended to `log`."""
        wanted = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "log": str(log),
            "directory": str(directory),
        }
        log.touch()  # it is read as soon as this returns
        with self._asking:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
            self._process.stdin.flush()
            child = self._started.get()
        assert child is not None, "the nursery has ended; what it said is above"
        return child

    def ready(self) -> None:
        """Return once it has imported all: from then on a start takes milliseconds."""
        self._ready.wait()

    def close(self) -> None:
        """End it, and with it every child."""
        self._process.kill()
        self._process.wait(waiting.PATIENCE)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._listener.join(waiting.PATIENCE)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                said = json.loads(line)
                if "started" in said:
                    # Its end can be on the next line already.
                    child = self._living[said["started"]] = Child(said["started"])
                    self._started.put(child)
                elif "ended" in said:
                    self._living.pop(said["ended"]).end(said["code"])
                else:
                    self._ready.set()
        # With the nursery its children have died, and nobody is left to say so.
        for child in list(self._living.values()):
            child.end(-signal.SIGKILL)
        self._ready.set()
        self._started.put(None)


@functools.cache
def of(program: str, *also: str) -> Nursery:
    """The nursery of a program (`router`, or a file) in this test process, started by the first who asks.

    `also` are modules that the program imports only when it runs, and files whose imports it needs then.
    """
    made = Nursery(program, also)
    atexit.register(made.close)
    return made


def forked(words: Sequence[str], environment: Mapping[str, str], log: Path, directory: Path) -> Process:
    """A `Start` for tests: without the time that imports take, those of the files among the words included."""
    program, *arguments = words
    files = (one for one in arguments if one.endswith(".py"))
    return of(program, *files).start(environment, log, arguments, directory=directory)


def interpreted(words: Sequence[str], environment: Mapping[str, str], log: Path, directory: Path) -> Process:
    """A `Start` for benchmarks, which count that time and every page of memory."""
    with log.open("ab") as output:
        command = [sys.executable, "-m", *words]
        return subprocess.Popen(command, env=dict(environment), cwd=directory, stdout=output, stderr=output)
