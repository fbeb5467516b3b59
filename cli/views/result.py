"""The whole result of a run: how it ended, the answer, effects that wait or were done, the questions, the sources that
the answer cites, the changed files, the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import console, text

from cli.views import effects, table
from text import printable


def draw(stored: Mapping[str, Any]) -> console.RenderableType:
    """`stored` is a document of `task_results`."""
    said = str(stored.get("answer") or stored.get("summary") or "").strip()
    parts: list[console.RenderableType] = [text.Text(printable.text(said))]
    if stored.get("exitReason") not in (None, "Answered"):
        parts.insert(0, text.Text(f"Ended: {stored['exitReason']}\n"))
    if waiting := stored.get("waiting"):
        parts.append(text.Text(f"\nEffects that wait for approval: {len(waiting)}", "bold"))
        parts += (part for number, one in enumerate(waiting, start=1) for part in effects.waiting(number, one))
    parts += effects.done(stored.get("effects") or ())
    if questions := stored.get("questions"):
        rows = [(str(one.get("id", "")), str(one.get("text", ""))) for one in questions]
        parts += [text.Text("\nQuestions", "bold"), table.plain(("ID", "QUESTION"), rows, indent=2)]
    if sources := _sources(stored):
        parts += [text.Text("\nSources", "bold"), table.plain(("#", "SOURCE", "TITLE"), sources, indent=2)]
    if changes := stored.get("changes"):
        parts += [text.Text("\nChanges", "bold"), *(_line(_changed(one)) for one in changes)]
    if lacking := stored.get("leftOut"):
        parts += [text.Text("\nNot looked at", "bold"), *(_line(str(one)) for one in lacking)]
    if isinstance(plan := stored.get("plan"), Mapping):
        parts += _plan(plan)
    return console.Group(*parts)


def _changed(changes: Mapping[str, Any]) -> str:
    """Where the changes of a workspace are: in a branch, in a stored patch, or in part in both."""
    name, key, branch = changes.get("connection", ""), changes.get("patch"), changes.get("pushed")
    parts = [f"branch {branch}"] if branch else []
    if key and (note := changes.get("note")):
        parts.append(f"{note} The files are listed in artifact {key}")
    elif key:
        parts.append(f"patch in artifact {key}, for git apply at {str(changes.get('base', ''))[:12]}")
    return f"{name} ({changes.get('files', 0)} files): {'; '.join(parts)}"


def _plan(made: Mapping[str, Any]) -> list[console.RenderableType]:
    """The steps that were followed, or why there are none; then each amendment, and what was dropped."""
    if failure := made.get("failure"):
        lines: list[console.RenderableType] = [text.Text("\nPlan", "bold"), _line(f"No plan: {failure}")]
    else:
        rows = [
            (str(number), str(one.get("description", "")), ", ".join(one.get("tools") or ()), _done(one))
            for number, one in enumerate(made.get("steps") or (), start=1)
        ]
        heads = ("#", "STEP", "TOOLS", "DONE WHEN")
        lines = [text.Text(f"\nPlan (version {made.get('version')})", "bold"), table.plain(heads, rows, indent=2)]
    said = [f"Version {one.get('version')}: {one.get('reason')}" for one in made.get("amendments") or ()]
    return [*lines, *map(_line, [*said, *(str(note) for note in made.get("notes") or ())])]


def _done(step: Mapping[str, Any]) -> str:
    return str(step.get("successCriteria", ""))


def _line(said: str) -> text.Text:
    return text.Text(f"  {printable.line(said)}")


def _sources(stored: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    cited = set(stored.get("citations") or ())
    return [
        (str(one.get("id", "")), str(one.get("source", "")), str(one.get("title", "")))
        for one in stored.get("evidence") or ()
        if one.get("id") in cited
    ]
