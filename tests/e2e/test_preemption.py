"""A person's question takes a GPU slot from background work, which goes on afterwards where it stopped.

Real Jobs on a real kubelet: the victim's pod gets SIGTERM, saves its checkpoint, and the same Job resumes. A gate in
the simulator holds the model's answers back, so that the question always finds every slot taken.
"""

from __future__ import annotations

from collections import Counter

from crds import conditions
from crds.pendingtask import PendingTask
from crds.phases import HOLDS_SLOT, Phase
from tests.e2e.simulator import GATE, Simulator
from tests.e2e.site import UID_LABEL, Site
from tests.waiting import until

_TEST = "preemption"


def _background(numbers: range) -> dict[str, dict[str, str]]:
    return {
        f"background-{number}": {
            "type": "UserTask",
            "mode": "Background",
            "content": f"Summarise what is known about the GPU node gpu-{number}.",
        }
        for number in numbers
    }


def _tasks(site: Site) -> dict[str, PendingTask]:
    return {task.metadata.name: task for task in site.kubectl.tasks("-l", f"jervis.dev/test={_TEST}")}


def test_a_question_takes_a_slot_from_background_work(site: Site, owner: str, gpu: Simulator) -> None:
    gpu.faults({"match": {"tag": "job.respond/v1"}, "times": 2, "stall": {"afterBytes": 0, "gate": GATE}})
    background = _background(range(1, 5))
    site.apply(_TEST, background, owner)
    until(lambda: gpu.waiting() == 2, "two runs that stall")
    # That a run has begun may be written later than it asks the model (decision 0019).
    ran = {name for name, task in _tasks(site).items() if task.status.phase in HOLDS_SLOT}
    assert len(ran) == 2
    question = {
        "type": "UserInputProcessing",
        "mode": "Foreground",
        "content": "Who took the GPU node gpu-3 into service?",
    }
    site.apply(_TEST, {"urgent": question}, owner)
    # The other run still stalls: the question got its slot from the victim, whose pod is gone.
    urgent = site.ends(_TEST, {"urgent": Phase.COMPLETED})["urgent"]
    assert gpu.waiting() == 1
    assert urgent.status.attempt == 1
    (victim,) = (task for name, task in _tasks(site).items() if name in ran and task.status.preemptions)
    told = conditions.find(victim.status.conditions, "Preempted")
    assert told is not None
    if told.status is conditions.Status.TRUE:
        assert urgent.metadata.name in told.message
    else:
        assert told.reason == "Resumed", "the question has its answer, and the slot was free again"

    gpu.open_gate()
    either = frozenset({Phase.COMPLETED, Phase.USER_TASK})
    ended = site.ends(_TEST, dict.fromkeys(background, either))
    assert Counter(task.status.preemptions for task in ended.values()) == {0: 3, 1: 1}
    # Being preempted is no attempt: one Job for each task, and one result.
    assert {task.status.attempt for task in ended.values()} == {1}
    assert set(site.jobs(ended.values()).values()) == {1}
    assert [len(site.results(task)) for task in ended.values()] == [1] * len(ended)
    resumed = site.pods(f"{UID_LABEL}={victim.metadata.uid}")
    assert [pod["status"]["phase"] for pod in resumed] == ["Succeeded"]
    late = [task for name, task in ended.items() if name not in ran]
    assert urgent.status.completed_at is not None
    assert all(task.status.phase_times["DispatchedGpu"] >= urgent.status.completed_at for task in late)
