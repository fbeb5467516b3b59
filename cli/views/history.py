"""Finished tasks as the archive knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich import console, text

from cli import age
from cli.views import table
from contracts.api import history
from text import printable

_SUMMARY = 80


def draw(entries: Sequence[history.Entry], now: datetime) -> console.RenderableType:
    """One line per task, in the order given."""
    if not entries:
        return text.Text("No finished tasks.")
    headings = ("NAME", "TYPE", "CLIENT", "PHASE", "REASON", "RUNS", "TOOK", "ENDED", "SUMMARY")
    rows = []
    for one in entries:
        created, ended = _moment(one.created_at), _moment(one.completed_at)
        took = age.span((ended - created).total_seconds())
        why = one.exit_reason or one.decision
        summary = printable.line(one.summary, _SUMMARY)
        ago = f"{age.since(ended, now)} ago"
        rows.append((one.name, one.type, one.client_id, one.phase.value, why, str(one.attempt), took, ago, summary))
    return table.plain(headings, rows)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def result(stored: Mapping[str, Any] | None) -> console.RenderableType:
    """The answer of the last run, if there is one beyond the summary."""
    answer = (stored or {}).get("answer")
    if not isinstance(answer, str) or not answer.strip():
        return console.Group()
    return text.Text.assemble(("\nAnswer\n", "bold"), printable.text(answer.strip()))
