"""The audit record: who read, wrote and erased, by what the gate found out; and nothing of what was said."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb import identity, metrics
from kb.access import audit
from tests.kb import scopes, world
from tests.kb.http import callers, serving
from tests.kb.http.callers import NOW, SHOP

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
async def http(
    kb: world.ObservedState, meters: metrics.Metrics, tokens: Path, lines: list[str]
) -> AsyncIterator[httpx.AsyncClient]:
    trail = audit.Trail(lines.append, lambda: NOW)
    async with serving.over(kb, meters, gate=callers.gate(tokens), trail=trail) as (_, raw):
        yield raw


def last(lines: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lines[-1])
    return found


async def test_who_wrote_is_what_the_gate_found_out(http: httpx.AsyncClient, lines: list[str]) -> None:
    document = world.request("A quetzal.", title="Quetzal", urn="note:quetzal")
    answer = await http.post(
        "/api/v1/ingest/full",
        content=document.model_dump_json(by_alias=True),
        headers=callers.bearer("operator-token")
        | {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "Content-Type": "application/json"},
    )
    assert answer.status_code == 200, answer.text
    assert last(lines) == {
        "event": "audit",
        "timestamp": "2026-03-01T00:30:00+00:00",
        "action": "write",
        "route": "POST /api/v1/ingest/full",
        "caller": {"kind": "token", "name": "operator"},
        "scopes": [SHOP],
        "documents": [identity.document(scopes.SHOP, "note:quetzal")],
        "status": 200,
        "trace": TRACE,
    }
    gone = await http.delete(
        "/api/v1/documents", params={**SHOP, "sourceUrn": "note:quetzal"}, headers=callers.bearer("operator-token")
    )
    assert gone.status_code == 204
    assert (last(lines)["action"], last(lines)["documents"]) == ("erase", json.loads(lines[0])["documents"])
    assert "uetzal" not in "".join(lines)


async def test_a_run_is_named_by_its_task(http: httpx.AsyncClient, lines: list[str]) -> None:
    asked = {"scope": SHOP, "query": "quetzal?"}
    token = callers.signed(scopes.SHOP)
    assert (await http.post("/api/v1/retrieve", json=asked, headers=callers.bearer(token))).status_code == 200
    assert (last(lines)["action"], last(lines)["status"], last(lines)["scopes"]) == ("read", 200, [SHOP])
    assert last(lines)["caller"] == {"kind": "run", "name": "run 2 of task 0b7f in team-a"}


async def test_what_is_refused_is_recorded_with_what_it_asked_for(http: httpx.AsyncClient, lines: list[str]) -> None:
    token = callers.signed(scopes.BLOG)
    for headers, status, name, where in (
        ({}, 401, "", []),
        (callers.bearer("quetzal"), 401, "", []),
        (callers.bearer(token), 403, "run 2 of task 0b7f in team-a", [SHOP]),
    ):
        answer = await http.get("/api/v1/graph/nodes", params={**SHOP, "q": "quetzal"}, headers=headers)
        assert answer.status_code == status
        assert (last(lines)["status"], last(lines)["caller"]["name"], last(lines)["scopes"]) == (status, name, where)
        assert last(lines)["route"] == "GET /api/v1/graph/nodes"
    assert "quetzal" not in "".join(lines)
    assert token not in "".join(lines)


async def test_what_is_no_use_of_the_api_is_not_recorded(http: httpx.AsyncClient, lines: list[str]) -> None:
    for path in ("/healthz", "/startedz", "/readyz", "/servez", "/metrics", "/api/v1/openapi.json", "/kb/"):
        await http.get(path)
    assert lines == []


@pytest.mark.parametrize(
    ("action", "status", "written"),
    [("read", 200, False), ("read", 403, True), ("write", 200, True), ("erase", 204, True)],
)
def test_without_reads_there_is_what_changes_something(action: str, status: int, written: bool) -> None:
    lines: list[str] = []
    trail = audit.Trail(lines.append, lambda: NOW + timedelta(seconds=1), reads=False)
    trail.record(audit.Entry(audit.Action(action), "GET /api/v1/x", status=status))
    assert bool(lines) == written
