"""The loop and its outbox on MongoDB's wire: whose rules count, what waits, and when it is given up."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import prometheus_client
import pymongo
import pytest

from clients import http, mongo
from controllers import metrics
from controllers.notices import mongo as outboxes
from controllers.notices import reconcile, sender
from controllers.pendingtask import task_index
from crds import errors, scope
from kb import api
from tests.clients import servers
from tests.controllers.notices import test_notice
from tests.controllers.notices.hook import Hook, hook

__all__ = ["hook"]
pytestmark = pytest.mark.services
AT = test_notice.AT


class Archive:
    """MongoDB's part of the history: nothing has ended."""

    async def ended(self, *_: Any) -> list[dict[str, Any]]:
        return []


@dataclass
class Site:
    hook: Hook
    outbox: outboxes.Outbox
    rows: Any
    tasks: task_index.Tasks
    loop: reconcile.Notifier
    measured: metrics.Metrics
    rules: list[api.Rule] = field(default_factory=list)
    asked: list[scope.Scope] = field(default_factory=list)
    now: datetime = AT
    fenced: bool = False

    def called(self, result: str) -> float:
        return self.measured.registry.get_sample_value("jervis_operator_notices_total", {"result": result}) or 0

    def waits(self, uid: str, client: str = "acme") -> None:
        task = test_notice.waits()
        raw = task.wire() | {"metadata": {"uid": uid, "name": uid, "namespace": "ns", "resourceVersion": "7"}}
        raw["spec"]["clientId"] = client
        raw["metadata"]["creationTimestamp"] = "2027-03-01T10:00:00Z"
        assert self.tasks.observe(raw)


@pytest.fixture
async def site(hook: Hook) -> AsyncIterator[Site]:
    uri, name = os.environ["JERVIS_TEST_MONGODB_URI"], f"test_{uuid.uuid4().hex[:12]}"
    server = pymongo.MongoClient[dict[str, Any]](uri, tz_aware=True)
    made: Site

    def fence() -> None:
        if made.fenced:
            raise errors.Operational("another one leads")

    async def rules(where: scope.Scope) -> list[api.Rule]:
        made.asked.append(where)
        return made.rules if where.client_id == "acme" else []

    store = mongo.client(uri)
    outbox = outboxes.Outbox(store[name], fence=fence)
    measured = metrics.Metrics(prometheus_client.CollectorRegistry())
    tasks = task_index.Tasks(lambda: made.now)
    async with http.client(tls=servers.TLS, find=sender.Judge(["127.0.0.0/8"]).find) as client:
        calls = sender.Sender(client)
        loop = reconcile.Notifier(
            tasks,
            Archive(),  # type: ignore[arg-type]  # the outside
            outbox,
            rules,
            calls,
            namespaces=["ns"],
            pace=reconcile.Pace(),
            measured=measured,
            wall=lambda: made.now,
        )
        made = Site(hook, outbox, server[name]["task_notices"], tasks, loop, measured)
        made.rules = [test_notice.rule(f"enforce: notify {hook.url}/x on UserTask")]
        yield made
    store.close()
    server.drop_database(name)
    server.close()


async def test_each_scope_is_asked_for_its_own_rules(site: Site) -> None:
    for uid, client in (("a", "acme"), ("b", "acme"), ("c", "other")):
        site.waits(uid, client)
    for _ in range(3):
        await site.loop.reconcile_once()
    assert sorted(where.client_id for where in site.asked) == ["acme", "other"]
    assert sorted(one["taskUid"] for one in site.rows.find({"state": "Delivered"})) == ["a", "b"]
    assert len(site.hook.requests) == 2
    assert site.called("delivered") == 2


async def test_a_webhook_that_never_takes_it_is_given_up_after_a_day(site: Site) -> None:
    site.hook.status = 500
    site.waits("a")
    tries = 0
    while site.rows.count_documents({"state": "GivenUp"}) == 0:
        await site.loop.reconcile_once()
        tries += 1
        assert len(site.hook.requests) == tries
        [row] = site.rows.find()
        assert (row["attempts"], row["error"]) == (tries, "it answered HTTP 500")
        await site.loop.reconcile_once()
        assert len(site.hook.requests) == tries, "not before its time"
        site.now = max(row["due"], site.now + timedelta(seconds=1))
    assert row["due"] - AT >= reconcile.WINDOW
    assert 10 < tries < 50
    assert (site.called("given_up"), site.called("postponed")) == (1, tries - 1)
    site.hook.status = 204
    site.now += timedelta(days=3)
    await site.loop.reconcile_once()
    assert len(site.hook.requests) == tries
    assert site.measured.registry.get_sample_value("jervis_operator_notices_waiting") == 0


async def test_what_happened_long_ago_makes_no_notice(site: Site) -> None:
    site.now = AT + reconcile.WINDOW + timedelta(seconds=1)
    site.waits("a")
    await site.loop.reconcile_once()
    assert (site.asked, site.rows.count_documents({})) == ([], 0)


async def test_only_the_leader_writes_and_what_it_could_not_write_is_written_later(site: Site) -> None:
    site.waits("a")
    site.fenced = True
    with pytest.raises(errors.Operational, match="another one leads"):
        await site.loop.reconcile_once()
    assert (site.rows.count_documents({}), site.hook.requests) == (0, [])
    site.fenced = False
    await site.loop.reconcile_once()
    assert site.rows.count_documents({"state": "Delivered"}) == 1


async def test_what_was_erased_while_it_was_sent_stays_so(site: Site) -> None:
    site.waits("a")
    await site.loop.reconcile_once()
    [row] = site.rows.find()
    site.rows.delete_many({})
    await site.outbox.delivered(row["_id"], datetime(2027, 3, 2, tzinfo=UTC))
    assert site.rows.count_documents({}) == 0
