"""Meetings: a line for each, and how far an upload is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import TracebackType

from rich import console, progress, text

from cli import age
from cli.views import table
from contracts.api.meeting import Meeting, State


def draw(found: Sequence[Meeting], now: datetime) -> console.RenderableType:
    """One line per meeting, the newest first."""
    if not found:
        return text.Text("No meetings are in this namespace.")
    headings = ("ID", "TITLE", "CONNECTION", "STATE", "AGE", "MIB", "CHANGES", "TASK", "WHY")
    rows = [
        (
            one.id,
            one.title,
            one.connection,
            one.state.value,
            age.since(one.created_at, now),
            _size(one),
            str(one.changes or ""),
            one.task,
            one.reason or one.correction_reason,
        )
        for one in found
    ]
    return table.plain(headings, rows)


def _size(one: Meeting) -> str:
    if one.state is State.RECORDING and one.length:
        return f"{one.bytes >> 20}/{one.length >> 20}"
    return str(one.bytes >> 20)


class Progress:
    """A bar on standard error while it is entered, if `shown`."""

    def __init__(self, size: int, *, shown: bool) -> None:
        columns = (
            progress.TextColumn("uploading"),
            progress.BarColumn(),
            progress.DownloadColumn(binary_units=True),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
        )
        self._bar = progress.Progress(*columns, console=console.Console(stderr=True), transient=True, disable=not shown)
        self._task = self._bar.add_task("upload", total=size)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def at(self, offset: int) -> None:
        """So many bytes are there."""
        self._bar.update(self._task, completed=offset)
