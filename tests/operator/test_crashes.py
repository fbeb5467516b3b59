"""kill -9 at random moments, two replicas, a frozen leader: nothing lost, nothing twice, one writer."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from kubernetes import client

from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet
from tests.operator.process import Operator
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]


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
            space.submit("later", type="UserInputProcessing")
            until(lambda: space.phase("later") == "Completed", "the second works")
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
