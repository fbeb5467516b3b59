"""How long tests and fixtures take: a table at the end of a phase, and a file of JSON for those who compare.

`pytest --phase unit` prints the time of the phase, how busy the cores were, and its 30 slowest tests, files and
fixtures, and writes all of them into `.durations/unit.json` of the checkout:

    {"phase": "unit", "seconds": 400.1, "busy": 0.97, "workers": 4,
     "tests": {"tests/a/test_b.py::test_c": [setup, call, teardown, processor time]},
     "fixtures": {"kubeconfig of tests/conftest.py": [times, seconds]}}

All times are seconds. A test's processor time is that of its process and of all that it has started; what other tests
of the same worker have left running (an apiserver, a simulator) counts too. A fixture's time is its own, without that
of the fixtures that it asks for.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / ".durations"
_SHOWN = 30
_TICKS = os.sysconf("SC_CLK_TCK")
_STAGES = ("setup", "call", "teardown")


class Recorder:
    """Records in the process that runs tests; with pytest-xdist that is a worker, which hands over at its end."""

    def __init__(self) -> None:
        self.tests: dict[str, list[float]] = {}
        self.fixtures: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0])
        self._inner = [0.0]  # seconds of the fixtures that each fixture now being set up has asked for

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Processor time over the whole test."""
        before = tree_seconds(os.getpid())
        try:
            return (yield)
        finally:
            if (stages := self.tests.get(item.nodeid)) is not None:
                stages[len(_STAGES)] = round(tree_seconds(os.getpid()) - before, 3)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Its own time."""
        began = time.perf_counter()
        self._inner.append(0.0)
        try:
            return (yield)
        finally:
            whole = time.perf_counter() - began
            own = whole - self._inner.pop()
            self._inner[-1] += whole
            record = self.fixtures[f"{fixturedef.argname} of {fixturedef.baseid or 'a plugin'}"]
            record[0] += 1
            record[1] = round(record[1] + own, 3)

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """One stage of a test."""
        stages = self.tests.setdefault(item.nodeid, [0.0] * (len(_STAGES) + 1))
        stages[_STAGES.index(call.when)] = round(call.duration, 3)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker's records go to the process that started it."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["durations"] = {"tests": self.tests, "fixtures": dict(self.fixtures)}


class Reporter:
    """Collects in the process that the user started, prints and writes."""

    def __init__(self, phase: str, recorder: Recorder) -> None:
        self._phase, self._recorder = phase, recorder
        self._began, self._busy_before = time.monotonic(), processor_seconds()
        self._workers = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has ended (pytest-xdist)."""
        self._workers += 1
        records = getattr(node, "workeroutput", {}).get("durations")
        if records is None:
            return
        self._recorder.tests.update(records["tests"])
        for name, (number, seconds) in records["fixtures"].items():
            record = self._recorder.fixtures[name]
            record[0] += number
            record[1] = round(record[1] + seconds, 3)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The tables and the file."""
        seconds = time.monotonic() - self._began
        busy = (processor_seconds() - self._busy_before) / seconds / (os.cpu_count() or 1)
        tests = {name: sum(stages[: len(_STAGES)]) for name, stages in self._recorder.tests.items()}
        files: defaultdict[str, float] = defaultdict(float)
        for name, spent in tests.items():
            files[name.partition("::")[0]] += spent
        fixtures = {f"{name} ({record[0]:.0f})": record[1] for name, record in self._recorder.fixtures.items()}
        write = terminalreporter.write_line
        terminalreporter.section(f"phase {self._phase}: {seconds:.0f} s, processors {busy:.0%} busy")
        costs: defaultdict[str, float] = defaultdict(float)
        for name, stages in self._recorder.tests.items():
            costs[name.partition("::")[0]] += stages[len(_STAGES)]
        tables = {
            "slowest tests, in seconds": tests.items(),
            "slowest files, in seconds": files.items(),
            "slowest fixtures, in seconds": fixtures.items(),
            "dearest files, in seconds of processors": costs.items(),
        }
        for title, rows in tables.items():
            write(f"{title}:")
            for line in table(rows):
                write(line)
        DIRECTORY.mkdir(exist_ok=True)
        document = {
            "phase": self._phase,
            "seconds": round(seconds, 1),
            "busy": round(busy, 3),
            "workers": self._workers or 1,
            "tests": self._recorder.tests,
            "fixtures": self._recorder.fixtures,
        }
        (DIRECTORY / f"{self._phase}.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def table(rows: Iterable[tuple[str, float]]) -> list[str]:
    """The slowest first."""
    slowest = sorted(rows, key=lambda row: (-row[1], row[0]))[:_SHOWN]
    return [f"{seconds:8.1f}  {name}" for name, seconds in slowest]


def processor_seconds() -> float:
    """Seconds that all processors of the machine have worked since it started (proc(5), /proc/stat); 0 where that is
    not known."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return 0.0
    user, nice, system, _idle, _waiting, irq, softirq = map(int, stat.read_text().split("\n", 1)[0].split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def register(config: pytest.Config) -> None:
    """For a run that has a phase; its workers have it too."""
    phase = config.getoption("--phase")
    if not phase:
        return
    recorder = Recorder()
    config.pluginmanager.register(recorder, "durations")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter(phase, recorder), "durations-report")


def tree_seconds(root: int) -> float:
    """Processor time of a process and its descendants, with that of children that have ended (proc(5))."""
    ticks, waiting = 0, [root]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        with contextlib.suppress(OSError):  # it has ended meanwhile
            ticks += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:15]))
            for thread in (process / "task").iterdir():
                waiting.extend(map(int, (thread / "children").read_text().split()))
    return ticks / _TICKS
