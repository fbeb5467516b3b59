"""The gauges about Connections: summed by type, so that no series is named after an object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from controllers import metrics
from controllers.connection import decide
from crds import conditions, connection


def update(measured: metrics.Metrics, found: Iterable[connection.Connection], now: datetime, *, polls: bool) -> None:
    """Bring them up to date; `polls`: sources are polled."""
    ready: Counter[tuple[str, str, str]] = Counter()
    items: Counter[tuple[str, str]] = Counter()
    ages: dict[str, float] = {}
    lags: dict[str, float] = {}
    for one in found:
        kind, status = one.spec.type.value, one.status
        said = conditions.find(status.conditions, "Ready")
        ready[(kind, said.status.value.lower(), said.reason) if said else (kind, "unknown", "NotSeenYet")] += 1
        if status.items is not None:
            items.update({(kind, state): count for state, count in status.items.model_dump().items()})
        since = status.last_success_time or one.metadata.creation_timestamp
        if polls and decide.polled(one.spec) and not one.spec.suspend and since is not None:
            ages[kind] = max(ages.get(kind, 0.0), (now - since).total_seconds())
        if status.waiting_since is not None:
            lags[kind] = max(lags.get(kind, 0.0), (now - status.waiting_since).total_seconds())
    for gauge in (
        measured.connections,
        measured.connection_items,
        measured.connection_success,
        measured.connection_lag,
    ):
        gauge.clear()  # what there is no more must not keep its last value
    for labels, count in ready.items():
        measured.connections.labels(*labels).set(count)
    for (kind, state), count in items.items():
        measured.connection_items.labels(kind, state).set(count)
        lags.setdefault(kind, 0.0)
    for gauge, values in ((measured.connection_success, ages), (measured.connection_lag, lags)):
        for kind, seconds in values.items():
            gauge.labels(kind).set(seconds)
