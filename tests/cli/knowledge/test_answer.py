"""`jervis-kb ask --answer`: the tree of a question, and its exit status."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from cli import codes
from cli.knowledge import answer
from kb import api
from tests import httpserver
from tests.cli.knowledge.conftest import Run
from tests.cli.knowledge.test_knowledge import WHERE

EVENTS: list[dict[str, Any]] = [
    {"type": "status", "message": "Looking at the question...", "stream": "0" * 32},
    {"type": "decision", "tool": "fast_vector_search", "reasoning": "User asked factual question"},
    {"type": "status", "message": "Searching text chunks..."},
    {
        "type": "result",
        "tool": "fast_vector_search",
        "message": "Found 6 text chunks matching 'voltage'.",
        "objects": [{"ref": n, "title": f"Manual {n}", "sourceUrn": f"manual::{n}"} for n in range(1, 7)],
    },
    {"type": "error", "message": "No relationships", "recoverable": True, "suggestion": "Try another spelling"},
    {"type": "decision", "tool": "text_response", "reasoning": "Have enough \x1b[31mcontext"},
    {"type": "token", "content": "The voltage"},
    {"type": "token", "content": " is 230 volts [1]."},
    {"type": "status", "message": "A sentence was left out.", "content": '"400 volts"', "verdict": "Absent"},
    {
        "type": "complete",
        "outcome": "answered",
        "citations": [{"ref": 1, "title": "Manual 1", "sourceUrn": "manual::1", "page": 3, "quotes": ["230 volts"]}],
    },
]
DRAWN = """│  Looking at the question...
├─ fast_vector_search: User asked factual question
│  Searching text chunks...
│  Found 6 text chunks matching 'voltage'.
│    [1] Manual 1 manual::1
│    [2] Manual 2 manual::2
│    [3] Manual 3 manual::3
│    [4] Manual 4 manual::4
│    [5] Manual 5 manual::5
│    and 1 more
│  ! No relationships Try another spelling
├─ text_response: Have enough \N{REPLACEMENT CHARACTER}[31mcontext
│
The voltage is 230 volts [1].
│  A sentence was left out.
│    "400 volts"

[1] Manual 1 manual::1, page 3
    "230 volts"
"""


def drawn(events: list[dict[str, Any]]) -> tuple[str, str]:
    """The tree, and how it ended."""
    out = io.StringIO()
    tree = answer.Tree(out)
    for one in events:
        tree.show(api.AgentEvent.model_validate(one))
    return out.getvalue(), tree.outcome


def test_the_tree_of_an_answer() -> None:
    assert drawn(EVENTS) == (DRAWN, "answered")


def test_pages_and_what_was_seen_on_them() -> None:
    page = {"title": "Plant", "sourceUrn": "file::plant", "page": 3}
    patches = {"rows": 1, "columns": 1, "tokens": []}
    seen = {**page, "ref": 2, "interpretation": "A \x1b[2Jvalve\nof 9 bar"}
    other = {"title": "weather.forecast", "sourceUrn": "mcp::weather.forecast", "ref": 3, "text": "Rain."}
    events: list[dict[str, Any]] = [
        {
            "type": "result",
            "message": "Found 1 pages.",
            "payloadType": "colqwen_pages",
            "objects": [{**page, "ref": 1, "text": "", "pageId": "p", "patches": patches}],
        },
        {
            "type": "result",
            "message": "VLM analyzed 1 pages.",
            "payloadType": "interpretations",
            "objects": [seen],
        },
        {"type": "result", "message": "It has answered.", "payloadType": "tool_answers", "objects": [other]},
        {
            "type": "complete",
            "outcome": "answered",
            "citations": [{**page, "ref": 1, "pageId": "p"}, {**page, "ref": 2, "pageId": "p", "interpreted": True}],
        },
    ]
    assert (
        drawn(events)[0]
        == """│  Found 1 pages.
│    [1] Plant file::plant, page 3
│  VLM analyzed 1 pages.
│    [2] Plant file::plant, page 3
│        A \N{REPLACEMENT CHARACTER}[2Jvalve of 9 bar
│  It has answered.
│    [3] weather.forecast mcp::weather.forecast

[1] Plant file::plant, page 3
[2] Plant file::plant, page 3, as a vision model saw it
"""
    )


@pytest.fixture
async def served() -> AsyncIterator[tuple[httpserver.Recorder, list[dict[str, Any]]]]:
    """A service, and the events that it answers with."""
    events: list[dict[str, Any]] = []

    async def respond(request: web.Request) -> web.Response:
        lines = "".join(json.dumps({"id": n, **one}) + "\n" for n, one in enumerate(events, 1))
        return web.Response(text=lines, content_type="application/x-ndjson")

    async with httpserver.Recorder({"/api/v1/agentic_search": respond}, method="POST").serving() as server:
        yield server, events


async def test_the_command_asks_and_its_status_says_how_it_ended(
    served: tuple[httpserver.Recorder, list[dict[str, Any]]], run: Run
) -> None:
    server, events = served
    events += EVENTS
    asks = ("ask", "What voltage?", *WHERE, "--answer", "--url", server.url)
    assert (await run(*asks, "--conversation", "t-1")).succeeded().out == DRAWN
    asked = server.requests[0].json()
    assert asked["conversation"] == "t-1"
    assert asked["scope"] == {"clientId": "acme", "projectId": "shop", "groupId": "retail"}
    lines = [json.loads(one) for one in (await run(*asks, "-o", "json")).succeeded().out.splitlines()]
    assert [one["type"] for one in lines] == [one["type"] for one in EVENTS]
    for outcome, status in (("impossible", codes.REFUSED), ("failed", codes.LATER), ("cancelled", codes.LATER)):
        events[:] = [{"type": "complete", "outcome": outcome, "reason": "why"}]
        assert (await run(*asks)).refused(code=status).out == f"└─ {outcome}: why\n"
    events[0]["reasoning"] = "It is not there."
    told = (await run(*asks)).refused(code=codes.LATER).out
    assert told == "└─ cancelled: why\n   The model says: It is not there.\n"


async def test_flags_that_do_not_fit_are_refused(run: Run) -> None:
    for flags in (["--answer", "--kind", "email"], ["--answer", "-n", "3"], ["--conversation", "t"]):
        (await run("ask", "What?", *WHERE, *flags)).refused()
    (await run("ask", "What?", *WHERE, "--answer", "--conversation", "a b")).refused("conversation")
