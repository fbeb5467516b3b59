"""One pass: items go through `POST /ingest/full` as the operator sends them, and its route function decides.

An operational error is tried again, as the operator does, only sooner; any other error ends the item in route Error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bench.qualify import items, site, spy
from controllers.pendingtask import directive
from controllers.pendingtask.effects import ingest
from crds import priority, scope
from kb import api, client

ERROR = "Error"
_TRIES = 200
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0


@dataclass
class Outcome:
    """What became of an item. `route` is a decision, or Error; `calls` are those to models for its prompts.

    `hidden`: the kinds of text in it that its reader does not see; other versions of the service do not say.
    """

    item: items.Item
    route: str
    hints: dict[str, Any]
    reason: str
    seconds: float
    tries: int
    chunk_ids: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    calls: list[spy.Call] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Whether the route is one that the item may get."""
        return self.route in {one.value for one in self.item.expected.route}

    def differences(self) -> dict[str, tuple[Any, Any]]:
        """Hints that are not as expected: name -> (got, expected)."""
        wanted = self.item.expected.hints()
        return {name: (self.hints.get(name), value) for name, value in wanted.items() if self.hints.get(name) != value}


def observed_hints(found: api.Hints) -> dict[str, Any]:
    """The five hints; of a deadline the day counts."""
    return {
        "hasActionableContent": found.has_actionable_content,
        "isAssignedToMe": found.is_assigned_to_me,
        "hasFutureDeadline": found.has_future_deadline,
        "suggestedDeadline": found.suggested_deadline.date() if found.suggested_deadline else None,
        "urgency": found.urgency,
    }


def decide(item: items.Item, reply: api.IngestReply, shared: items.Shared) -> directive.Chosen:
    """The operator's route for what the knowledge base replied."""
    return directive.choose(item.type, ingest.ingested(reply), lead=timedelta(days=shared.lead_days), now=shared.today)


async def run(place: site.Site, todo: Sequence[items.Item], shared: items.Shared, *, at_once: int = 1) -> list[Outcome]:
    """The outcomes in the order of the items, with the calls that were made meanwhile."""
    slots = asyncio.Semaphore(at_once)
    before = len(place.spy.calls)

    async def one(item: items.Item) -> Outcome:
        async with slots:
            return await _qualify(place, item, shared)

    outcomes = await asyncio.gather(*(one(item) for item in todo))
    by_title = {outcome.item.title: outcome for outcome in outcomes}
    by_title |= {picture.name: outcome for outcome in outcomes for picture in outcome.item.pictures}
    for call in place.spy.calls[before:]:
        if call.title in by_title:
            by_title[call.title].calls.append(call)
    return outcomes


async def _stored(kb: client.Client, item: items.Item, shared: items.Shared) -> list[api.ContentRef]:
    """The pictures of an item, drawn and stored as a source does before it makes the task."""
    owner = scope.Scope(client_id=shared.client_id, project_id=shared.project_id)
    return [await kb.store(owner, await asyncio.to_thread(one.body), one.media_type) for one in item.pictures]


async def _qualify(place: site.Site, item: items.Item, shared: items.Shared) -> Outcome:
    task = item.task(shared, await _stored(place.kb, item, shared))
    request = ingest.ingest_request(task, shared.team)
    started, wait = time.perf_counter(), _FIRST_WAIT
    for tries in range(1, _TRIES + 1):
        try:
            reply = await place.kb.ingest(request)
            await ingest.ingest_files(place.kb, task, priority.Priority.P3)
        except client.Unavailable as error:
            reason = error.message
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
        except client.Rejected as error:
            return Outcome(item, ERROR, {}, error.message, time.perf_counter() - started, tries)
        else:
            seconds = time.perf_counter() - started
            chosen = decide(item, reply, shared)
            said = observed_hints(reply.hints)
            return Outcome(
                item,
                chosen.decision.value,
                said,
                chosen.reason,
                seconds,
                tries,
                chunk_ids=tuple(reply.chunk_ids),
                hidden=tuple(one.kind for one in reply.hidden),
            )
    return Outcome(item, ERROR, {}, reason, time.perf_counter() - started, _TRIES)
