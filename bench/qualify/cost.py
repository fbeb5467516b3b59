"""`python -m bench.qualify.cost`: calls, tokens, seconds of a document of each type, beside two prompts. Prints JSON.

"Two prompts" is what a document costs without types: one question for its hints (`kb.hints/v2`) and one for each chunk
(`kb.extract/v1`). "Tools" is the qualifier with `kb.settings.qualifyTools`: an issue is judged by calls of tools in the
place of one structured answer. "Fast" is the qualifier with `kb.models.fast`: another model says the type where the
kind does not. All sides ask the same simulated Ollama, with no answer kept, and all stores are in
memory. Seconds are those until models have said everything, at the simulator's pace, which `--pace` sets in tokens a
second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import prometheus_client
import structlog

from crds.priority import Priority
from hack import drawing
from kb import api, metrics
from kb.extract import answers, draft, extraction, hints, prompt
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world

TODAY = date(2026, 3, 2)
_MODEL, _FAST = "qwen2.5:7b", "qwen3-coder:30b"
_CHUNK, _OVERLAP = 4000, 200
_MAIL = world.MAIL
_ISSUE = (
    "JERV-{n}: The page of the orders is blank\nStatus: Open\nType: Bug\nAssignee: Petr Svoboda\n"
    "Reporter: Jana Novak\n\n"
    "Since the deploy of 2026-02-28 PageView.kt throws. Please fix it by 2026-04-15.\n"
)
_PAGE = (
    "Author: Jana Novak\nSpace: SHOP\n\n" + "The deploy runs at night. Petr Svoboda owns deploy.sh for Globex.\n\n" * 90
)
_SAID = ("DEBUG poll", "ERROR NullPointerException in OrderService.java")
_LINES = "\n".join(f"2026-03-02 09:{n // 60:02}:{n % 60:02} {_SAID[n % 200 == 7]} {n}" for n in range(800))
_NOTE = "Petr Svoboda met Ann Meyer of Globex. They spoke about module1.py.\n"
_SCREEN = "JERV-2080: The page is blank\nStatus: In Progress\nAssignee: Petr Svoboda"

TEXTS = {
    "EMAIL": ("email", _MAIL),
    "JIRA": ("issue", _ISSUE),
    "CONFLUENCE": ("wiki", _PAGE),
    "LOG": ("log", _LINES),
    "LOG (detected)": ("note", _LINES),
    "JIRA (detected)": ("note", _ISSUE),
    "GENERIC": ("note", _NOTE),
    "EMAIL with a picture": ("email", _MAIL),
}


def items(name: str, count: int) -> list[api.IngestRequest]:
    """Documents of one type that differ by a line."""
    kind, text = TEXTS[name]
    slug = name.replace(" ", "-")
    return [
        api.IngestRequest(
            scope=scopes.SHOP,
            source_urn=f"{kind}::{slug}-{number}",
            kind=kind,
            title=f"Item {number}",
            team=["Core Team"],
            content=f"{text.replace('{n}', str(number))}\n\nThis is number {number}.",
        )
        for number in range(count)
    ]


async def two_prompts(asked: answers.Answers, requests: list[api.IngestRequest]) -> dict[str, float]:
    """Hints and chunks, asked at once as ingest does."""
    spent, started = answers.Spent(), time.perf_counter()
    chunks = 0
    for request in requests:
        text = request.content or ""
        made = draft.make(request, text, size=_CHUNK, overlap=_OVERLAP)
        judged = prompt.hints(
            hints.excerpt(text), title=request.title, kind=request.kind, today=TODAY, team=request.team
        )
        pieces = [prompt.extract(one.chunk.text, title=request.title, kind=request.kind) for one in made.pieces]
        chunks += len(pieces)
        await asyncio.gather(
            asked.ask(judged, hints.Judgement, Priority.P3, request.scope, spent),
            *(asked.ask(one, extraction.Extraction, Priority.P3, request.scope, spent) for one in pieces),
        )
    return _each(spent.calls, spent.tokens, time.perf_counter() - started, chunks, len(requests))


async def qualified(
    made: world.ObservedState, meters: metrics.Metrics, requests: list[api.IngestRequest], *, pictures: bool
) -> dict[str, float]:
    """The whole ingest, of which the phases of the qualifier are counted."""
    calls = tokens = chunks = 0
    for number, request in enumerate(requests):
        if pictures:
            body = drawing.picture(f"{_SCREEN}\nNumber: {number}")
            reference = await made.content.save(request.scope, body, "image/png")
            request = request.model_copy(update={"files": [api.File(name="shot.png", content_ref=reference)]})
        reply = await made.ingest(request)
        assert reply.qualification is not None
        chunks += len(reply.chunk_ids)
        calls += sum(one.calls for one in reply.qualification.metrics.phases)
        tokens += sum(one.tokens or 0 for one in reply.qualification.metrics.phases)
    seconds = meters.registry.get_sample_value("jervis_kb_stage_seconds_sum", {"stage": "models"}) or 0.0
    return _each(calls, tokens, seconds, chunks, len(requests))


def _each(calls: int, tokens: int, seconds: float, chunks: int, count: int) -> dict[str, float]:
    return {
        "calls": round(calls / count, 2),
        "tokens": round(tokens / count),
        "seconds": round(seconds / count, 4),
        "chunks": round(chunks / count, 2),
    }


async def run(folder: Path, count: int, pace: float | None) -> dict[str, Any]:
    """All sides, type by type."""
    found: dict[str, Any] = {}
    with process.running(num_parallel=8) as fake:
        if pace:
            fake.set_pace(tokens_per_second=pace)
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:
            router = router_client.Client(fake.url, http)
            for number, name in enumerate(TEXTS):
                for side in ("twoPrompts", "qualified", "tools", "fast"):
                    if side == "tools" and not name.startswith("JIRA"):
                        continue
                    if side == "fast" and TEXTS[name][0] != "note":
                        continue
                    fast = _FAST if side == "fast" else ""
                    meters, tools = metrics.Metrics(prometheus_client.CollectorRegistry()), side == "tools"
                    stores = memory.Vectors(), memory.Content()
                    path = folder / f"{number}-{side}"
                    path.mkdir()
                    async with world.opened(
                        path, router, clocks.Clock(), meters, *stores, tools=tools, fast=fast
                    ) as made:
                        requests = items(name, count)
                        if side == "twoPrompts":
                            asked = answers.Answers(router, _MODEL, made.ledger, meters)
                            found[name] = {side: await two_prompts(asked, requests)}
                        else:
                            found[name][side] = await qualified(made, meters, requests, pictures="picture" in name)
    return {"items": count, "types": found}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.qualify.cost", description="What qualification costs.")
    parser.add_argument("--items", type=int, default=10, help="documents of each type")
    parser.add_argument("--pace", type=float, help="tokens a second that the simulator writes")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(run(Path(folder), arguments.items, arguments.pace)), indent=2))


if __name__ == "__main__":
    main()
