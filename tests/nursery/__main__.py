"""`python -m tests.nursery PROGRAM [MODULE ...]`: fork PROGRAM as often as it is asked for.

PROGRAM is a file or a module that `python -m` runs (router, kopf). The server imports what the program imports, each
MODULE, which it imports later, and of a MODULE that is a file (operator/main.py, which kopf is given) what that file
imports; nothing of the program itself. For each line {"arguments",
"environment", "log", "directory"} on its standard input it forks; the child runs PROGRAM as `__main__` with these, as
`python PROGRAM` would. Lines on its standard output: {"started": pid} and {"ended": pid, "code": number}. The children
die with it.

A child that ends by itself names the modules that it had to import (those that are imported where they are used first,
of libraries as well); the server imports them before it forks again.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

from tests.nursery import recorder

_PR_SET_PDEATHSIG = 1
_REPORT_BYTES = 1 << 20


def warm(main: Path, also: list[str]) -> None:
    """Import what the import statements of the program and of the files in `also` name, and the modules in `also`."""
    for name in also:
        if not name.endswith(".py"):
            importlib.import_module(name)
    sources = (main, *(Path(name) for name in also if name.endswith(".py")))
    for statement in (each for one in sources for each in ast.walk(ast.parse(one.read_text()))):
        if isinstance(statement, ast.Import):
            for one in statement.names:
                importlib.import_module(one.name)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            module = importlib.import_module(statement.module)
            for one in statement.names:
                if not hasattr(module, one.name):
                    importlib.import_module(f"{statement.module}.{one.name}")
    check()


def check() -> None:
    """After each import here."""
    assert threading.active_count() == 1, "a module starts a thread, which a fork would lose"


def learn(reports: socket.socket) -> None:
    """Import what ended children had to import."""
    names: set[str] = set()
    with contextlib.suppress(BlockingIOError):
        while True:
            names.update(reports.recv(_REPORT_BYTES).decode().split())
    for name in sorted(names - sys.modules.keys()):
        with contextlib.suppress(Exception):  # only its own path, arguments or environment lead there
            importlib.import_module(name)
    if names:
        check()
        gc.freeze()


def report(reports: int, before: frozenset[str]) -> None:
    """The modules that came since, to the server at that descriptor."""
    with contextlib.suppress(OSError):  # too many or too long: it learns from another child
        os.write(reports, " ".join(sys.modules.keys() - before).encode())


def tell(**said: Any) -> None:
    """One line to the caller."""
    os.write(1, json.dumps(said).encode() + b"\n")


def reap() -> None:
    """Say which children have ended, and how: the exit code, or the signal's number below zero."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            tell(ended=found[0], code=os.waitstatus_to_exitcode(found[1]))


def bear(program: str, main: Path, wanted: dict[str, Any], reports: int) -> NoReturn:
    """The child's life."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    os.chdir(wanted["directory"])
    sys.argv = [str(main), *wanted["arguments"]]
    atexit.register(report, reports, frozenset(sys.modules))
    recorder.install()
    code: object = 0
    try:
        if program == str(main):
            sys.path.insert(0, str(main.parent))
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code or 0
    leave(code)


def leave(code: object) -> NoReturn:
    """The end of the process as the interpreter makes it, but for its last step: to free, one by one, all objects that
    were there before the fork takes longer than many a program ran. What the program itself left is collected."""
    if not isinstance(code, int):
        sys.exit(str(code))
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does
    atexit._run_exitfuncs()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed by the program
            stream.flush()
    os._exit(code & 0xFF)


def file(program: str) -> Path:
    """Where the program's import statements stand."""
    if program.endswith(".py"):
        return Path(program)
    found = importlib.util.find_spec(f"{program}.__main__")
    assert found is not None, f"no module {program}.__main__"
    assert found.origin is not None
    return Path(found.origin)


def serve(program: str, also: list[str]) -> None:
    """Until standard input ends."""
    main = file(program)
    warm(main, also)
    gc.freeze()  # what is imported stays; a child's collector need not look at it, and its pages stay shared
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    here.setblocking(False)
    there.setblocking(False)
    theirs = there.detach()  # no object of the child's: nothing of it is left open at its end
    # A handler of Python's alone would wait for the next line, where a child ends just before this one is waited for.
    ended, ending = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ending, warn_on_full_buffer=False)
    tell(ready=True)
    begun = b""
    while True:
        readable, _, _ = select.select([0, ended], [], [])
        if ended in readable:
            os.read(ended, _REPORT_BYTES)
            reap()
        if 0 in readable:
            read = os.read(0, _REPORT_BYTES)
            if not read:
                return
            *lines, begun = (begun + read).split(b"\n")
            for wanted in map(json.loads, lines):
                learn(here)
                child = os.fork()
                if child == 0:
                    for own in (ended, ending):
                        os.close(own)
                    here.close()
                    bear(program, main, wanted, theirs)
                tell(started=child)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
