"""suspend, delete and activeDeadlineSeconds at every phase, on a real apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from controllers.pendingtask import job
from crds.phases import TERMINAL, Phase
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet, answered
from tests.operator.process import Operator, Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]

PHASES = tuple(one.value for one in Phase if one is not Phase.NEW)


class Stage:
    """Brings a task called `task` to a phase and keeps it there until it is let go."""

    def __init__(self, space: Space, knowledge: Knowledge, gpu: str) -> None:
        self.space, self.knowledge, self.gpu = space, knowledge, gpu
        self.kubelet = Kubelet(space.api, space.name, self._says)
        self.asks = False
        self.go = False

    def _says(self, task: str, attempt: int) -> dict[str, Any] | None:
        if self.asks and task == "task" and attempt == 1:
            return {"exitReason": "NeedsInput", "summary": "?", "questions": [{"id": "q", "text": "Which?"}]}
        return answered(task, attempt) if self.go else None

    def bring(self, phase: str) -> None:
        """Returns once the task is there."""
        content = {"Done": "INFO", "Error": "INVALID"}.get(phase, "ASK")
        schedule = {"schedule": {"at": "2099-01-01T00:00:00Z"}} if phase == "Scheduled" else {}
        self.asks, self.go = phase == "UserTask", phase == "Completed"
        self.knowledge.busy = phase == "ReadyForQualification"
        if phase == "Qualifying":
            self.knowledge.gate.clear()
        if phase == "DispatchedGpu":
            self.kubelet.absent = True
        if phase not in ("ReadyForGpu", "Scheduled"):
            self.space.backend(self.gpu, slots=1)
        self.space.submit("task", content, **schedule)
        until(lambda: self.space.phase("task") == phase, f"it is {phase}")

    def free(self) -> None:
        """Nothing keeps anything any more."""
        self.knowledge.busy, self.kubelet.absent, self.go = False, False, True
        self.knowledge.gate.set()
        if not self.space.every("gpubackends"):
            self.space.backend(self.gpu, slots=1)

    def idle(self) -> None:
        """The slot is free: another task gets it, and nothing of the first one is left behind."""
        self.free()
        self.space.submit("next")
        until(lambda: self.space.phase("next") == "Completed", "the next one runs")
        until(lambda: not self.live(), "no pod is left")

    def live(self) -> list[str]:
        """Names of tasks with a pod that has not ended."""
        pods = self.kubelet.pods()
        return [pod.metadata.labels[job.TASK_LABEL] for pod in pods if pod.status.phase in ("Pending", "Running")]


@pytest.fixture
def stage(space: Space, knowledge: Knowledge, gpu: str) -> Iterator[Stage]:
    made = Stage(space, knowledge, gpu)
    with made.kubelet:
        yield made


@contextmanager
def quiet(operator: AbstractContextManager[Operator]) -> Iterator[Operator]:
    """An operator that trips over nothing."""
    with operator as running:
        yield running
        assert running.metric("jervis_operator_reconcile_failures_total") == 0


@pytest.mark.parametrize("phase", PHASES)
def test_delete(space: Space, start: Start, stage: Stage, phase: str) -> None:
    with quiet(start()):
        stage.bring(phase)
        space.delete("task")
        assert space.phases() == {}, "nothing holds it"
        stage.idle()
        assert stage.kubelet.duplicates() == []
        until(lambda: len(stage.kubelet.pods()) == 1, "only that of the next one is left")


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase not in TERMINAL])
def test_suspend_holds_and_lets_go(space: Space, start: Start, stage: Stage, phase: str) -> None:
    with quiet(start()) as operator:
        stage.bring(phase)
        space.edit("task", {"suspend": True})
        held = "ReadyForGpu" if phase in ("Qualifying", "DispatchedGpu", "Orchestrating") else phase
        if phase == "Qualifying":
            stage.knowledge.gate.set()
        until(lambda: space.conditions("task").get("Suspended") == "SuspendedByUser", "it is held")
        assert space.phase("task") == held
        if phase == "UserTask":
            space.edit("task", {"answers": [{"id": "q", "text": "That one."}]})
        if phase != "Scheduled":
            stage.idle()
        assert space.phase("task") == held, "whatever happens meanwhile"
        space.edit("task", {"suspend": False})
        if phase == "Scheduled":
            until(lambda: space.conditions("task")["Suspended"] == "Resumed", "it waits for its time again")
            assert operator.metric("jervis_operator_jobs_created_total") == 0
            return
        until(lambda: space.phase("task") == "Completed", "it goes on")
        assert space.status("task")["attempt"] == (2 if phase == "UserTask" else 1)
        assert stage.kubelet.duplicates() == []


def test_a_deadline_ends_the_run_and_asks_a_person(space: Space, start: Start, stage: Stage) -> None:
    """The Job controller's part is played: it fails the Job, whose pod takes the signal for a wish to drain."""
    with quiet(start()):
        space.backend(stage.gpu, slots=1)
        space.bring("Orchestrating", "task", activeDeadlineSeconds=60)
        late = space.jobs()[0]
        assert late.spec.active_deadline_seconds == 60
        stage.kubelet.late.add(late.metadata.name)
        until(lambda: space.phase("task") == "UserTask", "a person has to look")
        status = space.status("task")
        assert (status["result"]["exitReason"], status["userTask"]["kind"]) == ("DeadlineExceeded", "Failure")
        assert "activeDeadlineSeconds" in status["result"]["summary"]
        space.edit("task", {"activeDeadlineSeconds": 600, "approval": {"verdict": "Approved"}})
        until(lambda: space.phase("task") == "Orchestrating", "it is tried again")
        assert {one.spec.active_deadline_seconds for one in space.jobs()} == {60, 600}, (
            "what changed holds for the next"
        )
        stage.go = True
        until(lambda: space.phase("task") == "Completed", "it is completed")
