"""The models of the roles, on each backend: what they can do, what is wrong, and what does not happen because of it."""

from __future__ import annotations

from rich import console, text

from cli.views import table
from crds import modelcheck

_HEADINGS = (
    "ROLE", "MODEL", "BACKEND", "VERDICT", "WINDOW", "NEEDED", "TOOLS", "THINKING", "VISION", "DIMENSIONS", "PROBLEM",
)  # fmt: skip


def draw(report: modelcheck.Report) -> console.RenderableType:
    """One line per role and backend; below it one per role that does not work or works with less."""
    if not report.roles:
        return text.Text("Models by role: not known; a release of this version tells its router.")
    rows = [
        [
            row.role, row.model, row.backend, row.verdict.value, _count(row.window), _count(row.needed or None),
            _flag(row.tools), _flag(row.thinking), _flag(row.vision), _count(row.dimensions), "; ".join(row.problems),
        ]
        for row in report.rows
    ]  # fmt: skip
    drawn: list[console.RenderableType] = [table.plain(_HEADINGS, rows)] if rows else []
    lines = sentences(report)
    return console.Group(*drawn, *(text.Text(line) for line in ["", *lines] if line or drawn))


def sentences(report: modelcheck.Report) -> list[str]:
    """What is wrong, one line per role; one line in all when nothing is."""
    found = []
    for one in report.roles:
        if one.verdict is modelcheck.Verdict.OK:
            continue
        line = f"{one.role} ({one.model}): {one.verdict.value}, {one.problem}."
        if one.stops:
            line += f" Without it {one.stops}."
        if one.missing:
            line += f" Make it: ollama pull {one.missing}, or name another model as models.{one.role}."
        found.append(line)
    return found or ["Every role has its model."]


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


def _flag(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"
