"""Follow tasks until each has settled, and show it: a live table on a terminal, a line per change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from crds import pendingtask
from hack.demo import expectation, stream
from hack.demo.kubectl import Kubectl

Seen = dict[str, pendingtask.PendingTask]
_STYLES = {"Done": "green", "Completed": "green", "Scheduled": "cyan", "UserTask": "yellow", "Error": "red"}


class Show(Protocol):
    """How progress is shown."""

    def update(self, seen: Seen, changed: str | None) -> None:
        """`changed` is the task whose phase is new, None when only time went by."""


def follow(
    kubectl: Kubectl,
    selector: str,
    expectations: Sequence[expectation.Expectation],
    seconds: float,
    show: Show,
) -> Seen:
    """The last state of each task, once all have settled or `seconds` are over (the caller judges which)."""
    seen: Seen = {}
    for task in stream.tasks(kubectl, selector, time.monotonic() + seconds):
        changed = None
        if task is not None and any(e.task == task.metadata.name for e in expectations):
            before = seen.get(task.metadata.name)
            seen[task.metadata.name] = task
            if before is None or before.status.phase != task.status.phase:
                changed = task.metadata.name
        show.update(seen, changed)
        if all(e.settled(seen.get(e.task)) for e in expectations):
            break
    return seen


class Lines:
    """For logs: one line per change, and one every ten seconds while nothing changes."""

    def __init__(self, console: Console, expectations: Sequence[expectation.Expectation]) -> None:
        self._console = console
        self._stories = {e.task: e.story for e in expectations}
        self._began = self._spoke = time.monotonic()

    def update(self, seen: Seen, changed: str | None) -> None:
        now = time.monotonic()
        if changed is not None:
            task = seen[changed]
            retry = task.status.retry if task.status.phase not in expectation.ENDS else None
            why = f"again later: {retry.reason}" if retry and retry.reason else self._stories.get(changed, "")
            self._say(now, f"{changed:<28} {expectation.phase(task):<22} {why}")
        elif now - self._spoke >= 10:
            waiting = [name for name in self._stories if expectation.phase(seen.get(name)) not in _STYLES]
            self._say(now, f"waiting for {', '.join(waiting)}")

    def _say(self, now: float, text: str) -> None:
        self._spoke = now
        self._console.print(f"  [{now - self._began:5.1f}s] {text}", markup=False, highlight=False, soft_wrap=True)


class Board:
    """For a terminal: a table that is redrawn in place."""

    def __init__(self, live: Live, expectations: Sequence[expectation.Expectation]) -> None:
        self._live = live
        self._expectations = expectations
        self._began = time.monotonic()

    def update(self, seen: Seen, changed: str | None) -> None:
        table = Table(box=None, pad_edge=False, title=f"{time.monotonic() - self._began:.0f} s", title_justify="left")
        for heading in ("task", "phase", "route", "job", "what it is"):
            table.add_column(heading, no_wrap=True, overflow="ellipsis")
        for wanted in self._expectations:
            task = seen.get(wanted.task)
            phase = expectation.phase(task)
            route = task.status.route.decision.value if task and task.status.route else ""
            job = task.status.dispatch.job_name if task and task.status.dispatch else ""
            table.add_row(wanted.task, f"[{_STYLES.get(phase, 'white')}]{phase}[/]", route, job, wanted.story)
        self._live.update(table)


def shown(
    console: Console,
    kubectl: Kubectl,
    selector: str,
    expectations: Sequence[expectation.Expectation],
    seconds: float,
) -> Seen:
    """`follow` with the display that fits the console."""
    if not console.is_terminal:
        return follow(kubectl, selector, expectations, seconds, Lines(console, expectations))
    with Live(console=console, refresh_per_second=8) as live:
        return follow(kubectl, selector, expectations, seconds, Board(live, expectations))
