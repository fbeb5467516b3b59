"""kill -9 at random moments, two replicas, a frozen leader, a Lease that is gone: nothing lost or twice, one writer."""

from __future__ import annotations

import asyncio
import random
import signal
import time
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
from tests.operator.kubelet import Kubelet
from tests.operator.process import Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]


def test_thirty_tasks_survive_kill_9(space: Space, start: Start, knowledge: Knowledge) -> None:
    chance = random.Random(20270301)
    with Kubelet(space.api, space.name) as kubelet:
        for number in range(30):
            kind = {"type": "UserInputProcessing"} if number % 2 else {"content": "INFO"}
            space.submit(f"t{number:02}", **kind)
        for _ in range(5):
            with start(IDENTITY="operator-0") as operator:
                time.sleep(chance.uniform(0.0, 0.6))
                operator.kill()
        with start(IDENTITY="operator-0"):
            finished = {f"t{number:02}": "Completed" if number % 2 else "Done" for number in range(30)}

            until(lambda: space.phases() == finished, "every task ends")
        assert kubelet.duplicates() == []
        assert len(kubelet.seen) == 15
        assert {t["status"]["attempt"] for t in space.every()} == {0, 1}


def test_only_one_of_two_replicas_writes_and_the_other_takes_over(space: Space, start: Start) -> None:
    with Kubelet(space.api, space.name) as kubelet, start(LEASE_SECONDS=20) as one:
        until(one.leads, "the first leads")
        with start(LEASE_SECONDS=20) as two:
            for number in range(5):
                space.submit(f"a{number}", type="UserInputProcessing")
            until(lambda: set(space.phases().values()) == {"Completed"}, "all are completed")
            assert not two.leads()
            assert two.metric('jervis_operator_api_requests_total{code="200",verb="PATCH"}') == 0
            assert one.stop() == 0
            until(two.leads, "a lease that was handed over is taken at once")
            space.bring("Completed", "later", type="UserInputProcessing")
            assert space.get("later")["status"]["leaderEpoch"] == 2
            assert kubelet.duplicates() == []


def test_a_leader_that_is_frozen_is_replaced_and_ends_itself(space: Space, start: Start) -> None:
    """The first one's Lease is short, so it leads only from when the other one is there until it is frozen."""
    leases: Any = client.CoordinationV1Api(space.api)
    foreign = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    leases.create_namespaced_lease(space.name, {"metadata": {"name": "jervis-operator"}, "spec": foreign})
    with (
        Kubelet(space.api, space.name) as kubelet,
        start(LEASE_SECONDS=6) as one,
        start(LEASE_SECONDS=20) as two,
    ):
        two.signal(signal.SIGSTOP)
        leases.patch_namespaced_lease("jervis-operator", space.name, {"spec": {"holderIdentity": ""}})
        until(one.leads, "the first leads")
        one.signal(signal.SIGSTOP)
        two.signal(signal.SIGCONT)
        space.submit("later", type="UserInputProcessing")
        until(two.leads, "the second takes over")
        until(lambda: space.phase("later") == "Completed", "the second works")
        assert space.get("later")["status"]["leaderEpoch"] == 2
        one.signal(signal.SIGCONT)
        until(lambda: one.process.poll() is not None, "the first ends itself")
        assert one.process.returncode == 70
        assert kubelet.duplicates() == []
        assert two.stop() == 0


def test_a_conflicting_edit_never_loses_the_users_word(space: Space, start: Start) -> None:
    """Messages are written as fast as the API takes them while the operator writes status: each is answered."""
    with Kubelet(space.api, space.name), start():
        space.submit("talk", type="UserInputProcessing")
        messages: list[dict[str, str]] = []
        while len(messages) < 20 and space.phase("talk") != "Completed":
            messages.append({"id": f"m{len(messages)}", "text": "more"})
            space.edit("talk", {"messages": messages})
        until(lambda: space.phase("talk") == "Completed", "it is completed")
        # Only the last message can have come after the completion: the phase was read before each of them.
        assert space.status("talk")["messagesSeen"] >= len(messages) - 1


NAME = "jervis-operator"


def epoch(space: Space, task: str) -> int:
    return int(space.status(task)["leaderEpoch"])


def test_a_deleted_lease_stops_no_operator(space: Space, start: Start) -> None:
    leases: Any = client.CoordinationV1Api(space.api)
    with start() as operator:
        until(operator.leads, "it leads")
        # Without a version: the holder renews it all the while.
        leases.patch_namespaced_lease(NAME, space.name, {"spec": {"leaseTransitions": 6}})
        space.bring("Done", "first", "INFO")
        until(lambda: operator.metric("jervis_operator_leader_epoch") == 6, "it took the number up")
        leases.delete_namespaced_lease(NAME, space.name)
        space.bring("Done", "second", "INFO")
        until(lambda: bool(leases.list_namespaced_lease(space.name).items), "the Lease is there again")
        assert operator.process.poll() is None, operator.log.read_text()[-2000:]
        assert epoch(space, "second") >= epoch(space, "first")
        space.bring("Scheduled", "waits", schedule={"at": "2999-01-01T00:00:00Z"})
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
