"""Rules at an ingestion: known before any model is asked, and the last word of the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crds import scope
from kb import api, errors, metrics
from kb.ingest import intent
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.rules import test_enforce


class Kept:
    """Rules as a database would give them, unless it is away."""

    def __init__(self) -> None:
        self.rules = [test_enforce.rule("enforce: route InfoOnly when sender *@acme.com", key="ours", version=4)]
        self.away = False

    async def in_force(self, viewer: scope.Scope) -> list[api.Rule]:
        if self.away:
            raise errors.Away("mongodb", "it does not answer")
        return self.rules


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
async def kb(
    tmp_path: Path, router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics, kept: Kept
) -> AsyncIterator[world.ObservedState]:
    async with world.opened(tmp_path, router, clock, meters, memory.Vectors(), memory.Content(), rules=kept) as opened:
        yield opened


async def test_a_rule_changes_the_route_whatever_the_model_says(
    kb: world.ObservedState, meters: metrics.Metrics, kept: Kept
) -> None:
    reply = await kb.ingest(world.request())
    assert (reply.hints.route, reply.hints.has_actionable_content) == ("InfoOnly", True)
    assert reply.rules == [api.RuleActed(scope=scopes.ACME, rule_key="ours", version=4, effect="route InfoOnly")]
    assert reply.chunk_ids != []
    counted = meters.registry.get_sample_value("jervis_kb_ruled_total", {"route": "InfoOnly"})
    assert counted == 1
    elsewhere = await kb.ingest(world.request(owner=scopes.OTHER))
    assert (elsewhere.hints.route, elsewhere.rules) == (None, [])
    kept.rules = []
    again = await kb.ingest(world.request())
    assert again == reply.model_copy(
        update={"replaced": True, "rules": [], "hints": reply.hints.model_copy(update={"route": None})}
    )


async def test_a_rule_decides_where_no_model_could(kb: world.ObservedState, fake: process.Fake) -> None:
    fake.set_faults([{"match": {"tag": "kb.hints/v1"}, "malformed": "answer"}])
    reply = await kb.ingest(world.request())
    assert (reply.hints.route, reply.hints.failure) == ("InfoOnly", "")


async def test_no_model_is_asked_before_the_rules_are_known(
    kb: world.ObservedState, fake: process.Fake, kept: Kept
) -> None:
    kept.away = True
    with pytest.raises(errors.Away, match="does not answer"):
        await kb.ingest(world.request())
    assert fake.count(path="/api/chat") == 0
    assert await kb.ledger.count() == {intent.State.OPEN: 1}
    kept.away = False
    assert await kb.recovery.sweep(before=datetime.max.replace(tzinfo=UTC)) == 1
    assert await kb.ledger.count() == {intent.State.FINISHED: 1}
    assert (await kb.ingest(world.request())).hints.route == "InfoOnly"
