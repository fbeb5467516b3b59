"""What a person needs when a task did not end as expected: the table, the pods, the events, the logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hack.demo import errors, expectation
from hack.demo.kubectl import Kubectl

_EVENTS = 25
_LINES = 25


def table(verdicts: Sequence[expectation.Verdict]) -> Table:
    """Expectation and reality side by side."""
    shown = Table(title="expected and actual", title_justify="left", box=None, pad_edge=False)
    for heading in ("", "task", "expected", "actual", "because"):
        shown.add_column(heading, overflow="fold")
    for verdict in verdicts:
        mark = "[green]ok[/]" if verdict.ok else "[red]NO[/]"
        shown.add_row(mark, verdict.task, verdict.expected, verdict.actual, escape(verdict.because[:300]))
    return shown


def explain(console: Console, kubectl: Kubectl) -> None:
    """Print the observed state; a question that kubectl cannot answer is printed as its error."""
    for title, arguments in _questions():
        console.print(f"\n[bold]$ kubectl -n {kubectl.namespace} {escape(' '.join(arguments))}[/]")
        try:
            answer = kubectl.attempt(*arguments)
        except errors.Refused as refusal:
            console.print(str(refusal), markup=False)
            continue
        lines = (answer.stdout or answer.stderr).splitlines()
        kept = lines[:1] + lines[1:][-_EVENTS:] if title == "events" else lines
        console.print("\n".join(kept), markup=False, highlight=False, soft_wrap=True)


def _questions() -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "pods", ("get", "pods", "-o", "wide")
    yield "backends", ("get", "gpubackends", "-o", "wide")
    yield "connections", ("get", "connections", "-o", "wide")
    yield "events", ("get", "events", "--sort-by=.lastTimestamp")
    for name in ("operator", "sources"):
        yield "log", ("logs", f"deployment/jervis-{name}", f"--tail={_LINES}")
