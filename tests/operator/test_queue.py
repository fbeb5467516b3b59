"""Why tasks wait, on a real apiserver: the operator's endpoint, the condition, and `kubectl jervis queue`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from kubernetes import client

from tests.cli import site
from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet, never
from tests.operator.process import Start
from tests.operator.test_history import expose
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]


def rows(done: site.Done) -> list[list[str]]:
    return [line.split() for line in done.out.splitlines()]


def test_why_tasks_wait(space: Space, start: Start, gpu: str, kubeconfig: Path, capsys: Any) -> None:
    custom = client.CustomObjectsApi(space.api)
    place = site.Site(kubeconfig, custom, space.core, space.name)
    with (
        Kubelet(space.api, space.name, never),
        start(HISTORY_HOST="0.0.0.0", WAIT_REASON_SECONDS=1) as operator,  # reached over the apiserver
    ):
        expose(space, operator.history_port)
        space.backend(gpu, slots=1)
        space.bring("Orchestrating", "runs", clientId="acme")
        extra: tuple[tuple[str, dict[str, Any]], ...] = (
            ("a1", {}),
            ("a2", {}),
            ("b1", {"clientId": "beta"}),
            ("first", {"queuePosition": 1}),
            ("held", {"suspend": True}),
        )
        for name, spec in extra:
            space.submit(name, **{"clientId": "acme", **spec})
        waiting = ("a1", "a2", "b1", "first")
        until(lambda: all(space.phase(one) == "ReadyForGpu" for one in waiting), "they wait for the slot")
        until(lambda: space.conditions("held").get("Suspended") == "SuspendedByUser", "it is held")

        found = operator.history("/api/v1/queue", space.ticket()).json()
        assert (found["leading"], found["orchestratorHealthy"], found["breaker"]) == (True, True, "Closed")
        assert found["slots"] == {"total": 1, "free": 0}
        ours = [(one["name"], one["reason"], one["before"], one["beforeOwn"]) for one in found["items"]]
        assert ours[:4] == [
            ("first", "NoFreeSlot", 0, []),
            ("b1", "NoFreeSlot", 1, []),
            ("a1", "NoFreeSlot", 2, ["first"]),
            ("a2", "NoFreeSlot", 3, ["first", "a1"]),
        ], "clients take turns: one of acme's runs already"
        assert ours[4][:2] == ("held", "Suspended")
        assert operator.history("/api/v1/queue", "").status_code == 401
        assert operator.history("/api/v1/queue?namespace=default", space.ticket()).status_code == 403

        until(lambda: all(space.conditions(one).get("Dispatched") == "NoFreeSlot" for one in waiting), "and say so")
        assert not [one for name in waiting for one in space.events(name) if one == "NoFreeSlot"]
        versions = {name: space.get(name)["metadata"]["resourceVersion"] for name in waiting}
        reasons = 'jervis_operator_waiting_reasons{lane="background",reason="NoFreeSlot"}'
        assert operator.metric(reasons) == 4

        table = site.call(capsys, "queue", *place.flags())
        assert [row[1] for row in rows(table)[1:]] == ["first", "b1", "a1", "a2", "held"]
        assert rows(table)[0][-2:] == ["BEFORE", "SINCE"]
        assert "a GPU slot" in table.out
        assert "GPU slots: 0 of 1 free." in table.err
        listed = site.call(capsys, "queue", "-o", "json", *place.flags())
        assert (len(listed.json["items"]), listed.err) == (5, "")
        reasons_listed = [(one["name"], one["before"]) for one in listed.json["queue"]["items"]]
        assert reasons_listed[:4] == [("first", 0), ("b1", 1), ("a1", 2), ("a2", 3)]
        told = next(line for line in site.call(capsys, "get", "a2", *place.flags()).out.splitlines() if "Waits" in line)
        assert told.startswith("Waits:     for a GPU slot; 3 before it (first, a1, ...); since 20")

        with subprocess.Popen(
            place.command("queue", "--watch", "-o", "json"), cwd=site.ROOT, stdout=subprocess.PIPE, text=True
        ) as watching:
            assert watching.stdout is not None
            bound = Timer(PATIENCE, watching.kill)  # a line that does not come fails the test
            bound.start()
            assert len(json.loads(watching.stdout.readline())["items"]) == 5
            space.delete("held")
            while len(json.loads(watching.stdout.readline())["items"]) != 4:
                pass
            space.submit("b2", clientId="beta")
            while "b2" not in {one["name"] for one in json.loads(watching.stdout.readline())["items"]}:
                pass
            bound.cancel()
            watching.kill()
        assert {name: space.get(name)["metadata"]["resourceVersion"] for name in waiting} == versions, "said once"


def test_a_replica_that_stands_by_answers_from_its_own_cache(space: Space, start: Start, gpu: str) -> None:
    with start() as leader:
        until(leader.leads, "it leads")
        space.submit("x")
        until(lambda: space.conditions("x").get("Dispatched") == "NoGpuBackend", "it waits")
        with start() as standby:
            seen = standby.history("/api/v1/queue", space.ticket()).json()
            assert not standby.leads()
            assert not seen["leading"]
            assert [(one["name"], one["reason"]) for one in seen["items"]] == [("x", "NoGpuBackend")]


def test_without_an_operator_the_reasons_are_those_of_the_objects(space: Space, kubeconfig: Path, capsys: Any) -> None:
    place = site.Site(kubeconfig, client.CustomObjectsApi(space.api), space.core, space.name)
    place.task("x", status={"phase": "ReadyForGpu"})
    done = site.call(capsys, "queue", *place.flags())
    assert rows(done)[1][1] == "x"
    assert done.out.splitlines()[1].endswith("a GPU")
    assert "taken from their objects" in done.err
    refused = site.call(capsys, "queue", "--watch", "-A", *place.flags())
    assert (refused.code, "field: --watch" in refused.err) == (1, True)
    with place.start("queue", "-w") as watching:
        bound = Timer(PATIENCE, watching.kill)
        bound.start()
        assert watching.stdout.readline().split()[1] == "NAME"
        assert watching.stdout.readline().split()[1] == "x"
        place.task("y", status={"phase": "ReadyForGpu"})
        assert [watching.stdout.readline().split()[1] for _ in range(3)] == ["NAME", "x", "y"]
        bound.cancel()
        watching.kill()
