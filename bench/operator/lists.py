"""What a list of finished tasks costs in each form that the apiserver has: bytes, and CPU of both sides.

The archive lists all finished tasks at every sweep (`controllers.archive.listing`, docs/decisions/0095).
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import Any

import orjson

import kube
from bench.operator import load, processes
from bench.operator.report import Report
from bench.operator.site import Site, names, site
from kube.client import METADATA_LIST

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
FORMS: dict[str, tuple[int, dict[str, str], str]] = {
    "whole": (100, {}, "application/json"),
    "table": (500, {"includeObject": "Metadata"}, TABLE),
    "metadata": (500, {}, METADATA_LIST),
}
"""Objects per request, parameters, and what is accepted. A page of whole objects is small: its content is parsed."""
ROUNDS = 5
END = "2026-01-01T00:00:00Z"


async def lists(directory: Path, *, count: int = 10_000, content: int = 4096) -> Report:
    """`count` finished tasks with `content` bytes each, listed in each form in turns; medians of the rounds."""
    samples: dict[str, dict[str, list[float]]] = {form: {} for form in FORMS}
    async with site(directory) as here:
        await load.crowd(list(names("over", count)), 50, lambda name: _ended(here, name, content))
        for _ in range(ROUNDS):
            for form in FORMS:
                for what, value in (await _list(here, form, count)).items():
                    samples[form].setdefault(what, []).append(value)
    figures = {
        form: {what: round(statistics.median(values), 2) for what, values in measured.items()}
        for form, measured in samples.items()
    }
    cheapest = figures["metadata"]["mib"] / figures["table"]["mib"]
    return Report({"tasks": count, "content": content, **figures}, {"metadata to table, bytes": (cheapest, "<=", 1.0)})


async def _ended(here: Site, name: str, content: int) -> None:
    await here.submit(name, content="x" * content)
    dispatched = {"type": "Dispatched", "status": "False", "reason": "Completed", "message": "It is done."}
    status = {
        "phase": "Completed",
        "attempt": 1,
        "completedAt": END,
        "phaseTimes": dict.fromkeys(("Qualifying", "ReadyForGpu", "DispatchedGpu", "Orchestrating", "Completed"), END),
        "conditions": [{**dispatched, "type": one, "lastTransitionTime": END} for one in ("Dispatched", "Succeeded")],
        "route": {"decision": "Execute", "reason": "The mail asks for an action."},
        "result": {"summary": "It is done. " * 20, "exitReason": "Answered"},
    }
    await here.api.merge(kube.TASKS, here.namespace, name, {"status": status}, "status")


async def _list(here: Site, form: str, count: int) -> dict[str, float]:
    """All pages once, parsed as the operator does."""
    limit, more, accepted = FORMS[form]
    server = here.server.api.daemon.identity()
    assert server is not None
    before, ours = processes.seconds(server.pid), processes.seconds(os.getpid())
    url = f"{here.loaded.host}{kube.TASKS.path(here.namespace)}"
    query = {"limit": str(limit), "fieldSelector": "status.phase=Completed", **more}
    size, found, following = 0, 0, ""
    while True:
        asked = {**query, "continue": following} if following else query
        async with here.http.get(url, params=asked, headers={"Accept": accepted}) as response:
            payload = await response.read()
        page: dict[str, Any] = orjson.loads(payload)
        size += len(payload)
        found += len(page["rows" if form == "table" else "items"])
        following = page["metadata"].get("continue", "")
        if not following:
            break
    assert found == count, f"{form}: {found} of {count}"
    return {
        "mib": size / 2**20,
        "apiserver_cpu_seconds": processes.seconds(server.pid) - before,
        "client_cpu_seconds": processes.seconds(os.getpid()) - ours,
    }
