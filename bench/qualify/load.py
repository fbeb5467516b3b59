"""Many items at once while models fail: all must end, and nothing may be done twice.

Faults come at random, by a seed: 503, connections that break before or in the middle of an answer, answers that are no
JSON, lines that are no JSON, a runner that stops. About one call in twelve is hit.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.qualify import items, passes, report, site
from kb import api

_PAGE = 1000
_ONE_IN = 12
_KINDS: tuple[dict[str, Any], ...] = (
    {"status": {"code": 503, "retryAfter": 1}},
    {"status": {"code": 503}},
    {"status": {"code": 500}},
    {"reset": {"afterBytes": 0}},
    {"reset": {"afterBytes": 120}},
    {"malformed": "answer"},
    {"malformed": "wire"},
    {"error": {"afterLines": 2}},
)


def faults(calls: int, seed: int) -> list[dict[str, Any]]:
    """Faults for the first `calls` chats."""
    chance = random.Random(seed)
    return [
        {"match": {"path": "/api/chat"}, "nth": number, **chance.choice(_KINDS)}
        for number in range(1, calls + 1)
        if chance.randrange(_ONE_IN) == 0
    ]


def varied(count: int, seed: int) -> list[items.Item]:
    """`count` items: those of the set in turns, each with a name of its own, in an order by chance.

    Left out are the items that a model must fail on: they would be tried without end by other means.
    """
    base = [item for item in items.load() if not item.only_simulated]
    chance = random.Random(seed)
    chance.shuffle(base)
    made = [base[number % len(base)].varied(number) for number in range(count)]
    chance.shuffle(made)
    return made


async def run(
    where: site.Services,
    *,
    count: int,
    at_once: int,
    seed: int,
    faults: bool,
    root: Path = site.ROOT,
    fast: str = "",
) -> dict[str, Any]:
    """Figures, and `problems` in words: empty when all ended once. `fast`: the model of models.fast."""
    shared, todo = items.shared(), varied(count, seed)
    async with site.opened(where, shared.today, root=root, width=at_once, fast_model=fast) as place:
        place.fake.set_script(items.script(items.load()))
        planned = _planned(count, seed) if faults and where.ollama is None else []
        place.fake.set_faults(planned)
        started = time.perf_counter()
        outcomes = await passes.run(place, todo, shared, at_once=at_once)
        seconds = time.perf_counter() - started
        place.fake.set_faults([])
        documents = await _documents(place, shared)
    problems = _problems(outcomes, documents, place, expected_routes=where.ollama is None)
    calls = place.spy.chats()
    return {
        "items": count,
        "atOnce": at_once,
        "faultsMet": sum(not call.whole for call in calls),
        "triesPerItem": round(sum(one.tries for one in outcomes) / max(1, count), 3),
        "seconds": round(seconds, 1),
        "itemsPerSecond": round(count / seconds, 2),
        "confusion": report.confusion(outcomes),
        "cost": report.cost(outcomes),
        "problems": problems,
    }


def _planned(count: int, seed: int) -> list[dict[str, Any]]:
    return faults(4 * count, seed)


async def _documents(place: site.Site, shared: items.Shared) -> Counter[tuple[str, str]]:
    """(sourceUrn, state) of every document that the knowledge base lists."""
    found: Counter[tuple[str, str]] = Counter()
    after: str | None = ""
    while after is not None:
        query = {"clientId": shared.client_id, "projectId": shared.project_id, "limit": str(_PAGE), "after": after}
        reply = (await place.http.get(f"{place.url}/api/v1/documents", params=query)).raise_for_status().json()
        found.update((one["sourceUrn"], _state(one)) for one in reply["documents"])
        after = reply.get("next")
    return found


def _state(document: dict[str, Any]) -> str:
    """That of a document. The words of a picture are indexed and then wait in the queue for their extraction: that is
    its end here."""
    queued = document["kind"] == api.ATTACHMENT and document["state"] == "Indexed"
    return "Extracted" if queued else str(document["state"])


def _problems(
    outcomes: list[passes.Outcome], documents: Counter[tuple[str, str]], place: site.Site, *, expected_routes: bool
) -> list[str]:
    found = [f"{one.item.id} ended in {one.route}: {one.reason}" for one in outcomes if one.route == passes.ERROR]
    if expected_routes:
        found += [f"{one.item.id} was routed {one.route}" for one in outcomes if not one.right]
    sources = [f"qualify::{one.item.id}" for one in outcomes]
    sources += [
        api.attachment_urn(f"qualify::{one.item.id}", picture.name) for one in outcomes for picture in one.item.pictures
    ]
    wanted = Counter((source, "Extracted") for source in sources)
    found += [f"{urn} is {state} {times} times too often" for (urn, state), times in (documents - wanted).items()]
    found += [f"{urn} is not {state}" for urn, state in wanted - documents]
    answered = Counter(call.digest for call in place.spy.chats() if call.whole)
    twice = sum(times - 1 for times in answered.values() if times > 1)
    if twice:
        found.append(f"{twice} prompts were answered again although an answer was there")
    return found
