"""GpuBackends as Kubernetes knows them, and with the router's help what they do right now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import console, text

from cli.views import table
from crds import conditions, gpubackend
from text import printable


@dataclass(frozen=True)
class Load:
    """The router's view: requests in flight and allowed by backend, and those that wait by priority (P0..P3)."""

    in_flight: Mapping[str, tuple[int, int]]
    waiting: Mapping[str, int]
    oldest_seconds: float


def draw(backends: Sequence[gpubackend.GpuBackend], load: Load | None) -> console.RenderableType:
    """One line per backend, by name; below it the router's queue."""
    if not backends:
        return text.Text("No GpuBackends are in this namespace.")
    headings = ["NAME", "KIND", "POOL", "VRAM", "READY", "REASON", "SET", "LOADED", "CIRCUIT", "DRAIN"]
    rows = []
    for one in sorted(backends, key=lambda each: each.metadata.name):
        spec, status = one.spec, one.status
        ready = conditions.find(status.conditions, "Ready")
        row = [
            one.metadata.name,
            spec.kind.value + (", OpenAI" if spec.engine is gpubackend.Engine.OPENAI else ""),
            spec.pool,
            spec.vram or "",
            ready.status.value if ready else conditions.Status.UNKNOWN.value,
            ready.reason if ready else "NotProbed",
            status.active_set,
            printable.line(", ".join(model.name for model in status.loaded_models), 60),
            status.circuit.value if status.circuit else "",
            "yes" if spec.drain else "no",
        ]
        if load is not None:
            flying = load.in_flight.get(one.metadata.name)
            row.append("not known to the router" if flying is None else f"{flying[0]} ({flying[1]} per model)")
        rows.append(row)
    if load is None:
        return table.plain(headings, rows)
    return console.Group(table.plain([*headings, "IN FLIGHT"], rows), text.Text(""), _queue(load))


def _queue(load: Load) -> text.Text:
    total = sum(load.waiting.values())
    if not total:
        return text.Text("Router: nothing waits.")
    each = ", ".join(f"{name} {count}" for name, count in sorted(load.waiting.items()))
    return text.Text(f"Router: {total} waiting ({printable.line(each)}), the oldest for {load.oldest_seconds:.0f}s.")
