"""What a request is, told from the wire; and what the kill plans make of it. No process involved."""

from __future__ import annotations

import json

import pytest

from tests.faults import kills, sites
from tests.faults.faults import KILLS, Every, Fault, Mix, busy_once, possible
from tests.faults.kills import Countdown, Executioner, Target, targets
from tests.faults.sites import Call, Door, Moment, Site

TASKS = "/apis/jervis.dev/v1alpha1/namespaces/n/pendingtasks"
PODS = "/api/v1/namespaces/n/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/n/leases"


def lease(**spec: str) -> dict[str, object]:
    return {"metadata": {"name": "jervis-operator"}, "spec": spec}


@pytest.mark.parametrize(
    ("method", "target", "body", "told"),
    [
        ("GET", f"{TASKS}?limit=500", {}, "apiserver LIST pendingtasks"),
        ("GET", f"{TASKS}?fieldSelector=status.phase%21%3DDone", {}, "apiserver LIST pendingtasks [by status.phase!=]"),
        ("GET", f"{TASKS}?fieldSelector=status.phase%3DDone", {}, "apiserver LIST pendingtasks [by status.phase=]"),
        (
            "DELETE",
            "/apis/batch/v1/namespaces/n/jobs?labelSelector=jervis.dev%2Ftask-uid+in+%28a%2Cb%29",
            {},
            "apiserver DELETECOLLECTION jobs [by jervis.dev/task-uid in]",
        ),
        (
            "GET",
            f"{PODS}?labelSelector=jervis.dev%2Ftask-uid%3Da",
            {},
            "apiserver LIST pods [by jervis.dev/task-uid=]",
        ),
        (
            "GET",
            f"{PODS}?labelSelector=jervis.dev%2Ftask-uid",
            {},
            "apiserver LIST pods [by jervis.dev/task-uid]",
        ),
        ("GET", f"{TASKS}?watch=true&timeoutSeconds=300", {}, "apiserver WATCH pendingtasks"),
        ("GET", f"{TASKS}/one", {}, "apiserver GET pendingtasks"),
        ("PATCH", f"{TASKS}/one/status", {"status": {"phase": "Done"}}, "apiserver PATCH pendingtasks/status [Done]"),
        (
            "PATCH",
            f"{TASKS}/one/status",
            {"status": {"scheduledFor": "-", "leaderEpoch": 1}},
            "apiserver PATCH pendingtasks/status [scheduledFor]",
        ),
        ("PATCH", f"{TASKS}/one", {"metadata": {"labels": {"a": "b"}}}, "apiserver PATCH pendingtasks [label a]"),
        ("PUT", f"{TASKS}/one/status", {"status": {"phase": "Done"}}, "apiserver PUT pendingtasks/status [Done]"),
        ("POST", "/apis/batch/v1/namespaces/n/jobs", {"metadata": {"name": "j"}}, "apiserver POST jobs"),
        (
            "PATCH",
            "/apis/batch/v1/namespaces/n/jobs/j",
            {"spec": {"suspend": True}},
            "apiserver PATCH jobs [suspend=True]",
        ),
        ("POST", LEASE, lease(holderIdentity="a", acquireTime="1", renewTime="1"), "apiserver POST leases [acquire]"),
        ("PUT", LEASE, lease(holderIdentity="a", acquireTime="1", renewTime="2"), "apiserver PUT leases [renew]"),
        ("PUT", LEASE, lease(holderIdentity="", acquireTime="1", renewTime="2"), "apiserver PUT leases [release]"),
        ("GET", "/apis/jervis.dev/v1alpha1", {}, "apiserver GET discovery"),
        ("GET", "/api", {}, "apiserver GET discovery"),
    ],
)
def test_a_request_to_the_apiserver(method: str, target: str, body: dict[str, object], told: str) -> None:
    assert str(sites.of_api(method, target, json.dumps(body).encode() if body else b"").site) == told


def test_a_request_tells_its_object() -> None:
    assert sites.of_api("GET", f"{TASKS}/one", b"").name == "one"
    assert sites.of_api("POST", "/apis/batch/v1/namespaces/n/jobs", b'{"metadata": {"name": "j"}}').name == "j"
    said = sites.of_knowledge("POST", "/api/v1/ingest/full", b'{"sourceUrn": "task::1", "content": "BUSY"}')
    assert (str(said.site), said.name, said.body) == ("kb POST /api/v1/ingest/full", "task::1", "BUSY")
    updated = sites.of_mongodb({"update": "task_memory", "updates": [{"q": {"_id": "u"}, "u": {}}]})
    assert (str(updated.site), updated.name, updated.site.writes) == ("mongodb update task_memory", "u", True)
    found = sites.of_mongodb({"find": "task_results", "filter": {"_id": "u"}})
    assert (found.name, found.site.writes) == ("u", False)


def test_every_moment_of_every_site_is_killed_at_once_per_process() -> None:
    wanted = targets([Site(Door.API, "POST", "jobs"), Site(Door.API, "WATCH", "pods")])
    assert [str(one) for one in wanted] == [
        "apiserver POST jobs before-send",
        "apiserver POST jobs after-commit",
        "apiserver POST jobs after-answer",
        "apiserver WATCH pods before-send",
        "apiserver WATCH pods after-commit",
    ]
    executioner, running = Executioner(wanted), {"process": 0}
    call = Call(Site(Door.API, "POST", "jobs"))
    assert executioner(call) is None, "not begun"
    executioner.begin(lambda: running["process"])
    met = []
    for process in range(4):
        running["process"] = process
        met.append(executioner(call))
        assert executioner(call) is None, "one process dies once"
    assert [one.fault for one in met if one is not None] == list(KILLS.values())
    assert [target.site.verb for target in executioner.pending] == ["WATCH", "WATCH"]


def test_a_site_that_nobody_listed_is_noticed_and_killed_at_as_well() -> None:
    listed, other = Site(Door.API, "POST", "jobs"), Site(Door.API, "GET", "jobs")
    executioner, process = Executioner(targets([listed], [Moment.BEFORE]), [Moment.ANSWERED]), iter(range(9))
    executioner.begin(lambda: next(process))
    met = [executioner(Call(site)) for site in (other, other, listed, listed)]
    assert [one and one.fault for one in met] == [Fault.KILL_ANSWERED, None, Fault.KILL_BEFORE, None]
    assert list(executioner.noticed) == [Target(other, Moment.ANSWERED)]
    assert not executioner.pending


def test_what_chance_brought_on_the_way_is_no_debt() -> None:
    """The kills at the release of the Lease come last: nothing that may never come is waited for before them."""
    release, other = Site(Door.API, "PUT", "leases", intent=sites.RELEASE), Site(Door.API, "GET", "jobs")
    executioner = Executioner(targets([release], [Moment.BEFORE]), [Moment.ANSWERED, Moment.BEFORE])
    executioner.begin(lambda: 0)
    assert executioner(Call(other)) is not None
    assert list(executioner.pending) == [Target(release, Moment.BEFORE), Target(other, Moment.ANSWERED)]
    assert executioner.owed == [Target(release, Moment.BEFORE)]


def test_a_seed_gives_the_same_faults_and_kills_again() -> None:
    calls = [Call(Site(Door.API, "PATCH", "pendingtasks", "status", "Done"), f"t{n}") for n in range(400)]
    one, same, other = ([Mix(seed, 0.2)(call) for call in calls] for seed in (1, 1, 2))
    assert one == same != other
    assert {fate.fault for fate in one if fate is not None} == set(possible(calls[0]))

    def moments(seed: int) -> list[int]:
        countdown, found = Countdown(seed, 50), []
        for _ in range(20):
            countdown.arm()
            found.append(next(n for n in range(60) if countdown(calls[n]) is not None))
        return found

    assert moments(3) == moments(3) != moments(4)
    assert max(moments(3)) < 50


def test_a_fault_meets_each_object_once_per_site_and_only_where_it_can_happen() -> None:
    every = Every(Fault.GONE)
    watch, write = (Call(Site(Door.API, verb, "pods"), "") for verb in ("WATCH", "PATCH"))
    assert [every(watch) is not None, every(watch) is not None, every(write) is not None] == [True, False, False]
    busy = busy_once()
    asked = Call(Site(Door.KNOWLEDGE, "POST", "/"), "s", "BUSY INFO")
    assert [busy(asked) is not None, busy(asked) is not None] == [True, False]


def test_no_target_is_named_twice() -> None:
    wanted = [Target(Site(Door.API, "GET", "pods"), Moment.BEFORE)] * 2
    assert len(kills.Executioner(wanted).pending) == 1
