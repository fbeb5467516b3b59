"""Connections: a line for each, and the story of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich import console, text

from cli import age
from cli.views import table
from crds import conditions, labels
from crds.connection import Connection, Items, Remedy, wish
from text import printable

_REASON_CHARS = 200


def draw(found: Sequence[Connection], now: datetime) -> console.RenderableType:
    """One line per Connection, by name."""
    if not found:
        return text.Text("No Connections are in this namespace.")
    headings = ("NAME", "TYPE", "READY", "REASON", "SUCCEEDED", "LAG", "NEW", "INDEXED", "FAILED", "NEXT")
    rows = []
    for one in sorted(found, key=lambda each: each.metadata.name):
        status, items = one.status, one.status.items or Items()
        ready, reason = _ready(one)
        succeeded = age.since(status.last_success_time, now) if status.last_success_time else ""
        counts = (items.new + items.indexing, items.indexed, items.failed)
        rows.append(
            (one.metadata.name, one.spec.type.value, ready, reason, succeeded, _lag(one, now), *map(str, counts),
             following(one))
        )  # fmt: skip
    return table.plain(headings, rows)


def story(one: Connection, now: datetime) -> console.RenderableType:
    """All that is known of one; sections that have nothing to say are left out."""
    return console.Group(*_sections(one, now))


def following(one: Connection, *, told: bool = False) -> str:
    """What a person may do next, or what is being done; "": nothing. `told`: conditions and failures stand above it."""
    name, status = one.metadata.name, one.status
    ready, _ = _ready(one)
    if one.spec.suspend:
        return f"kubectl jervis resume connection/{name}"
    if wish(one, labels.RESYNC) not in ("", status.last_handled_resync):
        return "its source is being read from the beginning"
    if wish(one, labels.RETRY) not in ("", status.last_handled_retry):
        return "failed items are being tried again"
    if ready == conditions.Status.FALSE.value:
        return "" if told else f"kubectl jervis connections {name}"
    if any(each.remedy is Remedy.RETRY and each.retry_at is None for each in status.failures):
        return f"kubectl jervis retry connection/{name}"
    if any(each.remedy is Remedy.RESYNC for each in status.failures):
        return f"kubectl jervis resync {name}" if told else f"kubectl jervis connections {name}"
    return ""


def _ready(one: Connection) -> tuple[str, str]:
    found = conditions.find(one.status.conditions, "Ready")
    return (found.status.value, found.reason) if found else (conditions.Status.UNKNOWN.value, "NotSeenYet")


def _lag(one: Connection, now: datetime) -> str:
    """For how long the oldest item has waited for its task."""
    return age.since(one.status.waiting_since, now) if one.status.waiting_since else ""


def _sections(one: Connection, now: datetime) -> Iterator[console.RenderableType]:
    meta, spec, status = one.metadata, one.spec, one.status
    items = status.items or Items()
    yield _field("Name", f"{meta.namespace}/{meta.name}")
    yield _field("Type", f"{spec.type.value}, every {spec.poll_interval}")
    yield _field("Client", " / ".join(each for each in (spec.client_id, spec.group_id, spec.project_id) if each))
    yield _field("Source", spec.url)
    yield _field("Polled", _ago(status.last_poll_time, now))
    yield _field("Success", _ago(status.last_success_time, now))
    said = f"{items.new + items.indexing} without a task, {items.indexed} with one, {items.failed} failed"
    yield _field("Items", said + (f"; the oldest waits for {_lag(one, now)}" if status.waiting_since else ""))
    if status.cursor:
        yield _field("Cursor", printable.line(status.cursor, 400))
    if status.conditions:
        yield text.Text("\nConditions", style="bold")
        rows = [
            (each.type, each.status.value, each.reason, age.since(each.last_transition_time, now), each.message)
            for each in status.conditions
        ]
        yield table.plain(("TYPE", "STATUS", "REASON", "AGE", "MESSAGE"), rows, indent=2)
    if status.latest:
        yield text.Text(f"\nThe last {len(status.latest)} items", style="bold")
        arrivals = [
            (printable.line(each.title, 60), age.since(each.found_at, now), printable.line(each.source_urn, 80))
            for each in status.latest
        ]
        yield table.plain(("TITLE", "FOUND", "URN"), arrivals, indent=2)
    if any(each.left_out for each in status.latest):
        yield text.Text("\nLeft out of them", style="bold")
        lacking = [
            (printable.line(each.title, 60), printable.line(said, _REASON_CHARS))
            for each in status.latest
            for said in each.left_out
        ]
        yield table.plain(("TITLE", "WHAT"), lacking, indent=2)
    if status.failures:
        yield text.Text(f"\nFailed items, the last {len(status.failures)} of {items.failed}", style="bold")
        failures = [
            (
                printable.line(each.title, 60),
                age.since(each.found_at, now),
                f"itself, in {age.until(each.retry_at, now)}" if each.retry_at else each.remedy.value.lower(),
                printable.line(each.reason, _REASON_CHARS),
            )
            for each in status.failures
        ]
        yield table.plain(("TITLE", "FOUND", "TRIED AGAIN BY", "REASON"), failures, indent=2)
    step = following(one, told=True)
    if step:
        yield text.Text("")
        yield _field("Next", step)


def _ago(moment: datetime | None, now: datetime) -> str:
    return "never" if moment is None else f"{age.since(moment, now)} ago"


def _field(name: str, value: str) -> text.Text:
    drawn = text.Text()
    drawn.append(f"{name}:".ljust(11), style="bold")
    return drawn.append(printable.line(value))
