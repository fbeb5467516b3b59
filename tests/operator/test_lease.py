"""The Lease is deleted: under a living leader, and behind a dead one. Work goes on, and no epoch ever goes down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client

from controllers import settings
from controllers.runtime import clients
from crds import labels, scope
from kb import api
from kb.client import Unavailable
from tests import waiting
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]
NAME = "jervis-operator"


def epoch(space: Space, task: str) -> int:
    return int(space.status(task)["leaderEpoch"])


def test_a_deleted_lease_stops_no_operator(space: Space, start: Start) -> None:
    leases: Any = client.CoordinationV1Api(space.api)
    with start() as operator:
        until(operator.leads, "it leads")
        # Without a version: the holder renews it all the while.
        leases.patch_namespaced_lease(NAME, space.name, {"spec": {"leaseTransitions": 6}})
        space.submit("first", "INFO")
        until(lambda: space.phase("first") == "Done", "it works")
        until(lambda: operator.metric("jervis_operator_leader_epoch") == 6, "it took the number up")
        leases.delete_namespaced_lease(NAME, space.name)
        space.submit("second", "INFO")
        until(lambda: space.phase("second") == "Done", "work goes on")
        until(lambda: bool(leases.list_namespaced_lease(space.name).items), "the Lease is there again")
        assert operator.process.poll() is None, operator.log.read_text()[-2000:]
        assert epoch(space, "second") >= epoch(space, "first")
        space.submit("waits", schedule={"at": "2999-01-01T00:00:00Z"})
        until(lambda: space.phase("waits") == "Scheduled", "it waits")
        until(lambda: leases.read_namespaced_lease(NAME, space.name).spec.lease_transitions == 6, "and counts on")
        operator.kill()
    leases.delete_namespaced_lease(NAME, space.name)
    with start() as heir:
        until(heir.leads, "another one leads")
        space.edit("waits", {"schedule": {"at": "2999-01-02T00:00:00Z"}})
        until(lambda: epoch(space, "waits") > 6, "it counts on from what it finds")
        assert space.status("waits")["scheduledFor"] == "2999-01-02T00:00:00Z"
        space.submit("ask", "Who pays?", type="UserInputProcessing", mode="Foreground")
        until(lambda: bool(space.jobs()), "it dispatches")
        worn = space.jobs()[0].metadata.annotations
        made = leases.read_namespaced_lease(NAME, space.name).metadata.creation_timestamp
        assert worn[labels.LEASE_CREATED] == made.strftime("%Y-%m-%dT%H:%M:%SZ"), "whose epoch it is"
        assert int(worn[labels.LEADER_EPOCH]) > 6


async def test_what_waits_for_a_connection_when_the_lease_ends_is_not_sent(
    space: Space, local: dict[str, Any], knowledge: Knowledge
) -> None:
    """The knowledge base has the requests that were on the wire, and none of a process that leads no more."""
    knowledge.gate.clear()
    request = api.IngestRequest(
        scope=scope.Scope(client_id="acme"),
        source_urn="task::1",
        kind="link",
        content="INFO",
        observed_at=datetime.now(UTC),
    )
    to = clients.Clients(settings.Settings(namespace=space.name, qualify_at_once=1, **local))
    to.lease.start()
    await waiting.done(to.acquired.wait())
    connections = 5  # `qualify_at_once` and four more
    calls = [asyncio.create_task(to.knowledge.ingest(request)) for _ in range(connections + 1)]
    await asyncio.to_thread(until, lambda: knowledge.most_at_once == connections, "one of them waits")
    await asyncio.to_thread(to.lease.release)
    knowledge.gate.set()
    found = await asyncio.gather(*calls, return_exceptions=True)
    await to.close()
    assert [one.message for one in found if isinstance(one, Unavailable)] == [
        f"the knowledge base at {knowledge.url} cannot be reached: this replica does not hold the lease"
    ]
    assert len(knowledge.requests) == sum(isinstance(one, api.IngestReply) for one in found) == connections
