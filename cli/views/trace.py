"""The run of a task as a tree: its steps, what was delegated to whom, how it went, what it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich import console, text

from cli import age
from cli.views import table
from contracts.api.history import Effect, Step, Trace
from text import printable

_HEADS = ("STEP", "AGENT", "STATUS", "BEGAN", "TOOK", "CALLS", "TOOLS", "TOKENS", "CONFIDENCE")

_BRANCH = "└ "
"""Stands before what belongs to the row above, once for each level: a table drops leading spaces."""


def draw(trace: Trace, now: datetime) -> console.RenderableType:
    """One row per delegation, below the one that delegated it; its effects below it."""
    head = f"{trace.namespace}/{trace.name}: run {trace.attempt}, round {trace.round}"
    used = f"{trace.llm_calls} model calls, {trace.tokens} tokens"
    parts: list[console.RenderableType] = [text.Text(printable.line(f"{head}, {used}"))]
    if trace.steps:
        rows = [row for step in trace.steps for row in _rows(step, trace.steps, now)]
        parts += [text.Text(""), table.plain(_HEADS, rows)]
    else:
        parts.append(text.Text("No steps of it are kept."))
    return console.Group(*parts)


def changes(before: Trace | None, after: Trace, now: datetime) -> Iterator[str]:
    """One line for each delegation and effect that has changed since `before`."""
    known = {step.id: step for step in before.steps} if before is not None else {}
    for step in after.steps:
        old = known.get(step.id)
        if old is None or (old.status, old.agent) != (step.status, step.agent):
            took = _took(step, now) if step.ended_at else ""
            sure = _confidence(step)
            words = [step.id, step.agent, step.status, took, f"confidence {sure}" if sure else ""]
            yield printable.line(" ".join(one for one in words if one))
        states = {one.ordinal: one.state for one in old.effects} if old is not None else {}
        for effect in step.effects:
            if states.get(effect.ordinal) != effect.state:
                yield printable.line(f"{step.id} {_effect(effect)}")


def _rows(step: Step, steps: Sequence[Step], now: datetime) -> Iterator[tuple[str, ...]]:
    depth = _depth(step, steps)
    yield (
        f"{_BRANCH * depth}{step.id}",
        step.agent,
        step.status,
        _clock(step.started_at),
        _took(step, now),
        str(step.llm_calls or ""),
        str(step.tool_calls or ""),
        str(step.tokens or ""),
        _confidence(step),
    )
    for effect in step.effects:
        state = f"{effect.state} (asked)" if effect.asked else effect.state
        yield (f"{_BRANCH * (depth + 1)}effect {effect.ordinal}", effect.what, state, *[""] * (len(_HEADS) - 3))


def _depth(step: Step, steps: Sequence[Step]) -> int:
    above = {one.id: one.parent for one in steps}
    depth, at = 0, step.parent
    while at and depth < len(steps):
        depth, at = depth + 1, above.get(at, "")
    return depth


def _effect(effect: Effect) -> str:
    asked = ", a person was asked" if effect.asked else ""
    return f"effect {effect.ordinal}: {effect.what} {effect.state}{asked}"


def _confidence(step: Step) -> str:
    sure = "" if step.confidence is None else f"{step.confidence:.2f}"
    return f"{sure} (to be verified)" if sure and step.needs_verification else sure


def _took(step: Step, now: datetime) -> str:
    began = _moment(step.started_at)
    ended = _moment(step.ended_at) or (now if step.status == "RUNNING" else None)
    return "" if began is None or ended is None else age.span(max(0.0, (ended - began).total_seconds()))


def _clock(at: str) -> str:
    found = _moment(at)
    return "" if found is None else f"{found:%H:%M:%S}Z"


def _moment(at: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
