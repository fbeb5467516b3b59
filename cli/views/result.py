"""The whole result of a run: how it ended, the answer, the questions, and the sources that the answer cites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import console, text

from cli import printable
from cli.views import table


def draw(stored: Mapping[str, Any]) -> console.RenderableType:
    """`stored` is a document of `task_results`."""
    said = str(stored.get("answer") or stored.get("summary") or "").strip()
    parts: list[console.RenderableType] = [text.Text(printable.text(said))]
    if stored.get("exitReason") not in (None, "Answered"):
        parts.insert(0, text.Text(f"Ended: {stored['exitReason']}\n"))
    if questions := stored.get("questions"):
        rows = [(str(one.get("id", "")), str(one.get("text", ""))) for one in questions]
        parts += [text.Text("\nQuestions", "bold"), table.plain(("ID", "QUESTION"), rows, indent=2)]
    if sources := _sources(stored):
        parts += [text.Text("\nSources", "bold"), table.plain(("#", "SOURCE", "TITLE"), sources, indent=2)]
    return console.Group(*parts)


def _sources(stored: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    cited = set(stored.get("citations") or ())
    return [
        (str(one.get("id", "")), str(one.get("source", "")), str(one.get("title", "")))
        for one in stored.get("evidence") or ()
        if one.get("id") in cited
    ]
