"""A forked program: what it imports late is there at its next start, and it ends as a process of its own does."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nursery import children

_LATE = """
import sys

print("colorsys" in sys.modules, "beside" in sys.modules)
exec("import beside, colorsys")  # as no import statement, which would be read before the first start
"""
_ENDS = """
import atexit, sys, threading, time

atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()

class Kept:
    def __del__(self):
        print("collected")

held = Kept()
held.itself = held
del held
print("main")
END
"""


@contextlib.contextmanager
def nursery(folder: Path, program: str) -> Iterator[children.Nursery]:
    (folder / "beside.py").touch()
    (folder / "program.py").write_text(program)
    made = children.Nursery(str(folder / "program.py"))
    try:
        yield made
    finally:
        made.close()


def test_what_a_child_had_to_import_is_there_at_the_next_start(tmp_path: Path) -> None:
    logs = [tmp_path / "first", tmp_path / "second", tmp_path / "third"]
    with nursery(tmp_path, _LATE) as starts:
        assert [starts.start({}, log).wait(60) for log in logs] == [0, 0, 0]
    assert [log.read_text() for log in logs] == ["False False\n", "True False\n", "True False\n"]


@pytest.mark.parametrize(
    ("end", "code", "says"),
    [
        ("", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(70)", 70, ""),
        ("sys.exit('No way.')", 1, "No way.\n"),
        ("raise ValueError('wrong')", 1, "ValueError: wrong\n"),
        ("raise KeyboardInterrupt", -2, "KeyboardInterrupt\n"),
    ],
)
def test_a_child_ends_as_a_process_of_its_own(tmp_path: Path, end: str, code: int, says: str) -> None:
    """Threads are waited for, functions at exit are called, what the program left is collected."""
    program, logs = _ENDS.replace("END", end), (tmp_path / "forked", tmp_path / "started")
    with nursery(tmp_path, program) as starts:
        assert starts.start({}, logs[0]).wait(60) == code
    with logs[1].open("wb") as output:
        alone = subprocess.run([sys.executable, tmp_path / "program.py"], stdout=output, stderr=output, check=False)
    assert alone.returncode == code
    forked, started = (log.read_text() for log in logs)
    assert {"main", "thread", "at exit", "collected"} <= set(forked.splitlines())
    assert {"main", "thread", "at exit", "collected"} <= set(started.splitlines())
    assert says in forked
    assert says in started


def test_children_end_with_their_nursery_and_nobody_waits_for_them(tmp_path: Path) -> None:
    with nursery(tmp_path, "import time\ntime.sleep(600)\n") as starts:
        running = [starts.start({}, tmp_path / "log") for _ in range(3)]
    assert [child.wait(60) for child in running] == [-9, -9, -9]


def test_of_many_that_end_at_once_each_is_told(tmp_path: Path) -> None:
    with nursery(tmp_path, "") as starts:
        for _ in range(10):
            running = [starts.start({}, tmp_path / "log") for _ in range(20)]
            assert [child.wait(60) for child in running] == [0] * 20
