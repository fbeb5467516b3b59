"""kill -9 of whatever works on a task: every task still ends, none is worked on twice.

A gate in the simulator holds the model's answers back, so that a kill always meets work in flight; nothing here waits
for a clock. Jobs are counted by owner and attempt, results by task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from crds.pendingtask import PendingTask
from crds.phases import HOLDS_SLOT, Phase
from tests import thorough
from tests.e2e import processes
from tests.e2e.simulator import GATE, Simulator
from tests.e2e.site import ATTEMPT_LABEL, UID_LABEL, Document, Site
from tests.waiting import until

_STALLED = {"match": {"tag": "job.respond/v1"}, "stall": {"afterBytes": 0, "gate": GATE}}
_ENDS = {Phase.DONE, Phase.COMPLETED}


def work(test: str, count: int) -> dict[str, dict[str, str]]:
    """Tasks of that test that have to be qualified and run; their texts are new, so no answer is remembered."""
    return {
        f"{test}-{number}": {
            "type": "EmailProcessing",
            "sourceUrn": f"email::{test}-{number}@example.com",
            "content": (
                "From: Jan Dvorak <jan.dvorak@example.com>\nTo: Platform Team <platform-team@example.com>\n"
                f"Subject: Replace the disk of {test}-{number}\n\nThis is assigned to you: please replace the failed"
                f" disk of the storage node {test}-{number}. The spare disk is in rack C{number}.\n"
            ),
        }
        for number in range(1, count + 1)
    }


def once(site: Site, tasks: Iterable[PendingTask], runs: int = 1) -> None:
    """One Job per attempt, no attempt left out, one result per task."""
    expected: Counter[tuple[str, int]] = Counter()
    for task in tasks:
        assert task.status.attempt >= runs, f"{task.metadata.name}: attempt {task.status.attempt}"
        expected.update((task.metadata.uid, attempt) for attempt in range(1, task.status.attempt + 1))
    assert site.jobs(tasks) == expected
    assert [len(site.results(task)) for task in tasks] == [1 for _ in tasks]


def running(site: Site, task: PendingTask) -> Document:
    """The pod that works on the task: the kubelet tells a moment later than the pod asks the model."""

    def look() -> list[Document]:
        pods = site.pods(f"{UID_LABEL}={task.metadata.uid}")
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]

    (pod,) = until(look, f"the pod of {task.metadata.name} runs")
    return pod


def replaced(site: Site, before: Document) -> None:
    """The component's container is another one than before: the kill was real."""
    after = site.component(before["metadata"]["labels"]["app.kubernetes.io/component"])
    (old,), (new,) = before["status"]["containerStatuses"], after["status"]["containerStatuses"]
    assert new["containerID"] != old["containerID"]


def local_only(site: Site) -> None:
    if not site.wanted.local:
        pytest.skip("the processes of your cluster are not on this machine")


def kill_process(site: Site, pod: Document) -> None:
    """SIGKILL from the host."""
    processes.kill(pod)


def kill_pod(site: Site, pod: Document) -> None:
    """Delete without grace: the kubelet kills at once."""
    site.kubectl.run("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force", "--wait=false")


@pytest.mark.parametrize("kill", [pytest.param(kill_process, marks=thorough.only), kill_pod], ids=["process", "pod"])
def test_the_running_job(site: Site, owner: str, gpu: Simulator, kill: object, request: pytest.FixtureRequest) -> None:
    name = f"job-{request.node.callspec.id}"
    if kill is kill_process:
        local_only(site)
    gpu.faults({**_STALLED, "times": 1})
    site.apply(name, work(name, 1), owner)
    until(lambda: gpu.waiting() == 1, "the run asks the model")
    (task,) = site.kubectl.tasks("-l", f"jervis.dev/test={name}")
    before = running(site, task)
    assert callable(kill)
    kill(site, before)
    ended = site.ends(name, {task.metadata.name: Phase.COMPLETED})
    once(site, ended.values(), runs=2)
    assert all(done.status.attempt == 2 for done in ended.values())
    after = {pod["metadata"]["labels"][ATTEMPT_LABEL] for pod in site.pods(f"{UID_LABEL}={task.metadata.uid}")}
    assert after <= {"1", "2"}


@thorough.only
@pytest.mark.parametrize("kill", [kill_process, kill_pod], ids=["process", "pod"])
def test_the_operator_at_work(
    site: Site, owner: str, gpu: Simulator, kill: object, request: pytest.FixtureRequest
) -> None:
    """Some tasks run, some wait for a slot, some are being qualified when it dies; runs end while it is away."""
    name = f"operator-{request.node.callspec.id}"
    if kill is kill_process:
        local_only(site)
    gpu.faults(_STALLED)
    first, later = work(name, 3), work(f"{name}-later", 1)
    site.apply(name, first, owner)
    until(lambda: gpu.waiting() == 2, "two runs ask the model")
    site.apply(name, later, owner)
    assert callable(kill)
    victim = site.component("operator")
    kill(site, victim)
    gpu.open_gate()
    ended = site.ends(name, dict.fromkeys([*first, *later], Phase.COMPLETED), seconds=180)
    replaced(site, victim)
    once(site, ended.values())
    assert {task.status.attempt for task in ended.values()} == {1}


@thorough.only
def test_the_router_under_a_run(site: Site, owner: str, gpu: Simulator) -> None:
    """Its streams break; the run asks again, and stays the same run."""
    local_only(site)
    gpu.faults({**_STALLED, "times": 2})
    specs = work("router", 2)
    site.apply("router", specs, owner)
    until(lambda: gpu.waiting() == 2, "two runs ask the model")
    victim = site.component("router")
    processes.kill(victim)
    ended = site.ends("router", dict.fromkeys(specs, Phase.COMPLETED), seconds=180)
    replaced(site, victim)
    once(site, ended.values())
    assert {task.status.attempt for task in ended.values()} == {1}


@thorough.only
def test_the_knowledge_base_under_an_ingest(site: Site, owner: str, gpu: Simulator, cpu: Simulator) -> None:
    """Qualification comes back to it and no document is known twice."""
    local_only(site)
    # Its models answer from the CPU for as long as the runs before this keep the GPU reserved.
    for simulator in (gpu, cpu):
        simulator.faults({"match": {"tag": "kb.*"}, "times": 1, "stall": {"afterBytes": 0, "gate": GATE}})
    specs = work("kb", 2)
    site.apply("kb", specs, owner)
    until(lambda: gpu.waiting() + cpu.waiting() > 0, "an ingest asks the model")
    victim = site.component("kb")
    processes.kill(victim)
    for simulator in (gpu, cpu):
        simulator.faults()
    ended = site.ends("kb", dict.fromkeys(specs, Phase.COMPLETED), seconds=180)
    replaced(site, victim)
    once(site, ended.values())


@thorough.only
def test_what_is_known_outlives_its_pod(site: Site, owner: str) -> None:
    if not site.wanted.local and not site.kubectl.items("persistentvolumeclaims"):
        pytest.skip("your cluster has no default StorageClass")
    owner = f"{owner}-kept"
    told = {
        "type": "EmailProcessing",
        "sourceUrn": "email::kept-1@example.com",
        "content": "For your information: Petra Svobodova took the tape robot Hydra into service on Tuesday.",
    }
    site.apply("kept", {"kept-told": told}, owner)
    site.ends("kept", {"kept-told": Phase.DONE})
    victim = site.component("kb")
    kill_pod(site, victim)
    asked = {
        "type": "UserInputProcessing",
        "mode": "Foreground",
        "content": "Who took the tape robot Hydra into service?",
    }
    site.apply("kept", {"kept-asked": asked}, owner)
    answered = site.ends("kept", {"kept-asked": Phase.COMPLETED}, seconds=180)["kept-asked"]
    assert site.component("kb")["metadata"]["uid"] != victim["metadata"]["uid"]
    assert answered.status.result is not None
    assert "Petra Svobodova" in answered.status.result.summary


def test_everything_at_once(site: Site, owner: str, gpu: Simulator) -> None:
    """Operator, router and a running Job die together, as when a node fails."""
    local_only(site)
    gpu.faults({**_STALLED, "times": 2})
    specs = work("all", 3)
    site.apply("all", specs, owner)
    until(lambda: gpu.waiting() == 2, "two runs ask the model")
    # That a run has begun may be written later than it asks the model (decision 0019).
    tasks = [task for task in site.kubectl.tasks("-l", "jervis.dev/test=all") if task.status.phase in HOLDS_SLOT]
    victims = [site.component("operator"), site.component("router"), running(site, tasks[0])]
    for pod in victims:
        processes.kill(pod)
    ended = site.ends("all", dict.fromkeys(specs, _ENDS), seconds=180)
    for pod in victims[:2]:
        replaced(site, pod)
    once(site, ended.values())
