"""What happened to a task, and the notices that rules make of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from contracts.rules.notices import Event
from controllers.notices import notice
from crds import pendingtask, scope
from crds.phases import Phase
from kb import api
from tests.controllers import build
from tests.controllers.build import present

AT = datetime(2027, 3, 1, 11, 30, tzinfo=UTC)
URL = "https://hooks.example.com/x"


def rule(content: str, made: datetime = AT - timedelta(hours=1)) -> api.Rule:
    return api.Rule(
        scope=scope.Scope(client_id="acme"),
        rule_key="hooks",
        rule_type=api.RuleType.NOTIFICATION,
        rule_content=content,
        description="",
        version=1,
        created_at=made,
        created_by="jana",
    )


def waits(kind: str = "Question", since: str = "2027-03-01T11:30:00Z") -> pendingtask.PendingTask:
    at = "2027-03-01T11:30:00Z"
    waiting = build.condition(
        "WaitingForUser", "True", kind, message="Who pays?", lastTransitionTime=at, observedGeneration=1
    )
    status: dict[str, Any] = {
        "userTask": {"kind": kind, "questions": [{"id": "q1", "text": "Who pays?"}]},
        "conditions": [waiting],
        "phaseTimes": {"UserTask": since},
        "attempt": 1,
    }
    return build.task(Phase.USER_TASK, status=status)


def ended(phase: Phase) -> pendingtask.PendingTask:
    return build.task(phase, status={"completedAt": "2027-03-01T11:30:00Z", "result": {"summary": "It is done."}})


@pytest.mark.parametrize(
    ("task", "event"),
    [
        (waits("Question"), Event.USER_TASK),
        (waits("Approval"), Event.USER_TASK),
        (waits("Failure"), Event.FAILURE),
        (ended(Phase.ERROR), Event.FAILURE),
        (ended(Phase.COMPLETED), Event.COMPLETED),
        (ended(Phase.DONE), None),
        (build.task(Phase.ORCHESTRATING), None),
        (build.task(), None),
    ],
)
def test_what_a_person_may_want_to_hear(task: pendingtask.PendingTask, event: Event | None) -> None:
    found = notice.happened(task)
    assert (found.event if found else None) == event
    assert found is None or found.at == AT


def test_a_notice_has_what_a_person_needs_and_no_content() -> None:
    found = present(notice.happened(waits()))
    [made] = notice.of(found, [rule(f"enforce: notify {URL} on UserTask")])
    said = json.loads(made.body)
    assert (made.url, made.uid, made.event) == (URL, build.UID, "UserTask")
    assert (said["id"], said["event"], said["at"]) == (made.id, "UserTask", "2027-03-01T11:30:00+00:00")
    assert (said["phase"], said["kind"], said["requestId"]) == ("UserTask", "Question", f"run-1-{int(AT.timestamp())}")
    assert said["questions"] == [{"id": "q1", "text": "Who pays?"}]
    assert said["task"]["name"] == "mail-1"
    assert said["task"]["clientId"] == "acme"
    assert "hello" not in made.body


def test_one_per_event_occasion_and_address() -> None:
    both = f"enforce: notify {URL} on UserTask, Completed\nenforce: notify {URL}2 on UserTask"
    rules = [rule(both), rule(f"enforce: notify {URL} on UserTask"), rule("enforce: notify nowhere")]
    ids = []
    for task in (waits(), waits(), waits(since="2027-03-01T11:31:00Z"), ended(Phase.COMPLETED)):
        found = present(notice.happened(task))
        ids.append([one.id for one in notice.of(found, rules)])
    assert [len(one) for one in ids] == [2, 2, 2, 1]
    assert ids[0] == ids[1]
    assert len({*ids[0], *ids[2], *ids[3]}) == 5


def test_a_rule_counts_for_what_happens_after_it_was_made() -> None:
    found = present(notice.happened(waits()))
    line = f"enforce: notify {URL} on UserTask"
    assert list(notice.of(found, [rule(line, AT + timedelta(seconds=1))])) == []
    assert len(list(notice.of(found, [rule(line, AT)]))) == 1
