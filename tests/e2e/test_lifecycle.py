"""Real input from apply to its end: phases, the answer with its evidence, Events, and who goes first."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import httpx
import pytest

from crds.pendingtask import CONTENT_BYTES, Decision, PendingTask
from crds.phases import Phase
from hack.demo import inputs, submit
from tests.e2e.site import Document, Site
from tests.waiting import until

_QUALIFIED = ["New", "ReadyForQualification", "Qualifying"]
_WORKED_ON = [*_QUALIFIED, "ReadyForGpu", "DispatchedGpu", "Orchestrating", "Completed"]


@pytest.fixture(scope="module")
def worked(site: Site, owner: str) -> dict[str, PendingTask]:
    """The demonstration's input at its end: what arrived, then the question about it."""
    checkout, now = site.wanted.checkout, datetime.now(UTC)
    items = [
        *inputs.mails(checkout, now),
        inputs.issue(checkout, now),
        *inputs.history(checkout),
    ]
    ended: dict[str, PendingTask] = {}
    for batch in (items, [inputs.question(checkout)]):
        site.apply("lifecycle", {item.name: submit.spec(item) for item in batch}, owner)
        ended |= site.ends("lifecycle", {item.name: item.expected for item in batch})
    return ended


def test_the_route_of_each_mail(worked: dict[str, PendingTask]) -> None:
    routes = {name: task.status.route.decision for name, task in worked.items() if task.status.route}
    assert routes["mail-weekly"] == Decision.INFO_ONLY
    assert routes["mail-capacity"] == Decision.DEFER
    assert routes["mail-certificate"] == Decision.EXECUTE_HIGH
    assert routes["jira-jerv-142"] == Decision.EXECUTE_HIGH


def test_a_far_deadline_is_scheduled_ahead_of_it(worked: dict[str, PendingTask]) -> None:
    status = worked["mail-capacity"].status
    assert status.route is not None
    assert status.route.hints is not None
    assert status.route.hints.suggested_deadline is not None
    assert status.route.hints.suggested_deadline.date() == inputs.deadline(datetime.now(UTC))
    assert status.scheduled_for is not None
    assert (status.route.hints.suggested_deadline - status.scheduled_for).days == 2


def test_the_answer_cites_what_was_just_ingested(site: Site, worked: dict[str, PendingTask]) -> None:
    task = worked["question"]
    (result,) = site.results(task)
    assert "Petra Svobodová" in result["answer"]
    assert result["citations"]
    cited = {item["source"] for item in result["evidence"] if item["id"] in result["citations"]}
    assert "email::infra-weekly-0047@lists.example.com" in cited
    assert task.status.result is not None
    assert "Petra Svobodová" in task.status.result.summary


def test_every_run_is_one_job_with_one_result(site: Site, worked: dict[str, PendingTask]) -> None:
    ran = [task for task in worked.values() if task.status.phase == Phase.COMPLETED]
    assert len(ran) >= 3
    assert site.jobs(worked.values()) == Counter({(task.metadata.uid, 1): 1 for task in ran})
    assert [len(site.results(task)) for task in ran] == [1] * len(ran)


def test_phases_come_in_order(worked: dict[str, PendingTask]) -> None:
    for task in worked.values():
        times = task.status.phase_times
        passed = [phase for phase in _WORKED_ON if phase in times]
        assert [times[phase] for phase in passed] == sorted(times[phase] for phase in passed), task.metadata.name


def test_one_event_per_transition(site: Site, worked: dict[str, PendingTask]) -> None:
    passed = {
        task.metadata.uid: [phase for phase in task.status.phase_times if phase != "New"] for task in worked.values()
    }

    def told() -> list[Document]:
        """Events are sent after what they tell of."""
        found = [one for one in site.kubectl.items("events") if one["involvedObject"].get("uid") in passed]
        return found if len(found) >= sum(map(len, passed.values())) else []

    events = until(told, "an Event for each transition")
    for task in worked.values():
        mine = [event for event in events if event["involvedObject"]["uid"] == task.metadata.uid]
        seen = Counter(event["reason"] for event in mine)
        assert set(seen.values()) == {1}, (task.metadata.name, seen)
        assert [event.get("count", 1) for event in mine] == [1] * len(mine)
        transitions = passed[task.metadata.uid]
        assert len(mine) == len(transitions), (task.metadata.name, seen, transitions)


def test_large_content_by_reference(site: Site, owner: str, services: httpx.Client) -> None:
    """What is too large for an object is stored first; the task holds the reference, and its end is answered from."""
    # A client of its own: the commits of this repository, which other tests ingest, may speak of anything.
    owner = f"{owner}-minutes"
    filler = "\n\n".join(
        f"Entry {number}: the backup of volume vol-{number} took {number} minutes." for number in range(900)
    )
    text = f"Minutes of the storage meeting\n\n{filler}\n\nThe archive of the library moves to the tape robot Hydra."
    assert len(text.encode()) > CONTENT_BYTES
    stored = services.post(
        "/jervis-kb-write:8080/proxy/api/v1/content", params={"clientId": owner}, content=text.encode()
    )
    assert stored.status_code == 201, stored.text
    spec = {
        "type": "MeetingProcessing",
        "sourceUrn": "meeting::id:storage-1,title:Storage",
        "contentRef": stored.json(),
    }
    site.apply("reference", {"minutes": spec}, owner)
    site.ends("reference", {"minutes": Phase.DONE})
    asked = {
        "type": "UserInputProcessing",
        "mode": "Foreground",
        "content": "Where does the archive of the library move?",
    }
    site.apply("reference", {"asked": asked}, owner)
    answered = site.ends("reference", {"asked": Phase.COMPLETED})["asked"]
    assert answered.status.result is not None
    assert "Hydra" in answered.status.result.summary
