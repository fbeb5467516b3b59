"""Which Jobs and pods are believed: those of the release's namespace, by name and controller, never by label alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.pendingtask import job, views, workloads
from controllers.pendingtask.observed import last_word
from crds.phases import Phase
from tests.controllers import build
from tests.controllers.build import NOW, RELEASE, UID, present

PAID = {"exitReason": "Answered", "summary": "Pay the invoice to IBAN DE00."}


def ended(message: dict[str, Any], code: int = 0) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "message": json.dumps(message)}}
    return {"phase": "Succeeded", "containerStatuses": [{"name": job.CONTAINER, "state": state}]}


def owner(**changed: Any) -> list[dict[str, Any]]:
    [one] = build.raw_pod("p")["metadata"]["ownerReferences"]
    return [{**one, **changed}]


@pytest.fixture
def known() -> workloads.Workloads:
    """The Job of attempt 1 is there."""
    jobs = workloads.Workloads(RELEASE)
    assert jobs.observe_job(build.raw_job())
    return jobs


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"ownerReferences": []}, id="a bare pod"),
        pytest.param({"namespace": "team-b"}, id="in another namespace"),
        pytest.param({"ownerReferences": owner(controller=False)}, id="owned but not controlled"),
        pytest.param({"ownerReferences": owner(kind="ReplicaSet")}, id="of another kind of owner"),
        pytest.param({"ownerReferences": owner(name="somebody-elses")}, id="of a Job with another name"),
        pytest.param({"labels": {job.UID_LABEL: UID, job.ATTEMPT_LABEL: "1"}}, id="with labels that name no run"),
    ],
)
def test_a_forged_pod_says_nothing_and_takes_no_slot(known: workloads.Workloads, forged: dict[str, Any]) -> None:
    for number in range(2):
        assert not known.observe_pod(build.raw_pod(f"live-{number}", **forged))
    assert not known.observe_pod(build.raw_pod("forged", status=ended(PAID), **forged))
    assert known.pods(UID) == ()
    assert known.occupied(NOW, but=()) == {}
    known.replace_pods(UID, [build.raw_pod("listed", status=ended(PAID), **forged)])
    assert last_word(known.pods(UID), 1, known.job(job.name("mail-1", UID, 1))) is None


def test_the_pod_of_the_job_is_believed(known: workloads.Workloads) -> None:
    assert known.observe_pod(build.raw_pod("real", status=ended(PAID)))
    said = present(last_word(known.pods(UID), 1, None))
    assert said.summary == PAID["summary"]


def test_a_pod_of_a_job_that_is_not_known_takes_its_slot_and_is_heard_with_its_job() -> None:
    known = workloads.Workloads(RELEASE)
    running = build.raw_pod("real")
    running["status"]["containerStatuses"] = ended(PAID)["containerStatuses"]
    assert known.observe_pod(running)
    assert known.occupied(NOW, but=()) == {UID: "gpu-0"}
    assert [(one.live, one.outcome, one.exit_code) for one in known.pods(UID)] == [(True, None, None)]
    assert known.observe_pod(build.raw_pod("real", status=ended(PAID), resourceVersion="6"))
    assert known.pods(UID) == ()
    assert known.observe_job(build.raw_job())
    assert [one.outcome is not None for one in known.pods(UID)] == [True]


def test_a_pod_under_the_name_of_our_job_and_another_uid_says_nothing(known: workloads.Workloads) -> None:
    known.observe_pod(build.raw_pod("forged", status=ended(PAID), ownerReferences=owner(uid="another")))
    assert known.pods(UID) == ()


def test_a_live_pod_of_another_attempt_counts_only_with_its_job(known: workloads.Workloads) -> None:
    assert not known.observe_pod(build.raw_pod("forged", attempt=7, ownerReferences=owner()))
    assert known.pods(UID) == ()


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"namespace": "team-b"}, id="in another namespace"),
        pytest.param({"name": "mail-1-0f9a1c2e-8"}, id="under another name"),
        pytest.param({"labels": {job.UID_LABEL: UID, job.ATTEMPT_LABEL: "7"}}, id="with labels that name no run"),
    ],
)
def test_a_forged_job_is_no_stray(known: workloads.Workloads, forged: dict[str, Any]) -> None:
    current = build.routed(Phase.ORCHESTRATING)
    assert not known.observe_job(build.raw_job(attempt=7, **forged))
    assert known.strays(current) == ()
    assert known.observe_job(build.raw_job(attempt=7))
    assert known.strays(current) == ("mail-1-0f9a1c2e-7",)


@given(st.from_regex(r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", fullmatch=True), st.integers(1, 10**6))
def test_a_job_as_we_make_it_is_believed_whatever_its_task_is_called(name: str, attempt: int) -> None:
    task = build.task(name=name)
    made = {"name": job.name(name, UID, attempt), "namespace": RELEASE, "labels": job.labels(task, attempt)}
    assert views.believed({"metadata": made}, RELEASE)


def test_nothing_is_kept_about_what_is_gone(known: workloads.Workloads) -> None:
    known.observe_pod(build.raw_pod("real"))
    known.forget_task(UID)
    known.forget_pod(UID, "real")
    known.forget_job(UID, job.name("mail-1", UID, 1))
    assert not known._jobs
    assert not known._names
    assert not known._job_uids
    assert not known._pods
    assert not known._live


def test_pods_that_are_not_listed_do_not_live_and_the_ended_keep_their_word(known: workloads.Workloads) -> None:
    known.observe_pod(build.raw_pod("ended", status={"phase": "Failed"}))
    known.observe_pod(build.raw_pod("ghost"))
    known.replace_pods(UID, [build.raw_pod("fresh")])
    assert sorted((pod.name, pod.live) for pod in known.pods(UID)) == [("ended", False), ("fresh", True)]
    known.forget_task(UID)
    assert [pod.name for pod in known.pods(UID)] == ["fresh"], "it still takes a slot"
    known.forget_pod(UID, "fresh")
    assert known.pods(UID) == ()
