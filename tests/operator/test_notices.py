"""Webhooks hear of tasks once each: real apiserver, real operator processes, MongoDB's wire, a webhook that fails."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from crds import scope
from kb import api
from tests.controllers.notices import smtp
from tests.controllers.notices.hook import Hook, hook
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet
from tests.operator.process import Start
from tests.waiting import until

__all__ = ["hook"]
pytestmark = [pytest.mark.apiserver, pytest.mark.services]
OFTEN = {"ARCHIVE_SECONDS": 0.2, "NOTICE_SECONDS": 0.2, "NOTICE_NETWORKS": "127.0.0.0/8"}
ENDS: dict[str, dict[str, Any]] = {
    "asks": {"exitReason": "NeedsInput", "summary": "?", "questions": [{"id": "q", "text": "Which?"}]},
    "works": {"exitReason": "Answered", "summary": "It is done.", "resultRef": {"key": "k"}},
}


def says(task: str, attempt: int) -> dict[str, Any] | None:
    return ENDS.get(task)


def rule(url: str) -> api.Rule:
    return api.Rule(
        scope=scope.Scope(client_id="acme"),
        rule_key="hooks",
        rule_type=api.RuleType.NOTIFICATION,
        rule_content=f"enforce: notify {url}/x on UserTask, Failure, Completed",
        description="",
        version=1,
        created_at=datetime(2020, 1, 1, tzinfo=UTC),
        created_by="jana",
    )


def submit(space: Space, *names: str) -> None:
    for name in names:
        space.submit(name, "Do it.", type="UserInputProcessing", mode="Foreground")


def told(hook: Hook) -> dict[str, set[str]]:
    """id -> name and event; the same id has always the same body."""
    found: dict[str, set[str]] = {}
    for one in hook.requests:
        said = json.loads(one.body)
        assert said["id"] == one.headers["Jervis-Delivery"]
        found.setdefault(said["id"], set()).add(f"{said['task']['name']} {said['event']} {said['message']}")
    return found


def test_mail_is_sent_through_failures_and_kills_with_one_id(
    space: Space, start: Start, knowledge: Knowledge, database: Any
) -> None:
    address = {"rule_content": "enforce: notify mailto:team@example.com on UserTask"}
    knowledge.rules = [rule("http://x.example").model_copy(update=address)]
    rows = database["task_notices"]
    with smtp.serving() as box, Kubelet(space.api, space.name, says):
        mail = {"NOTICE_MAIL_SERVER": "127.0.0.1", "NOTICE_MAIL_PORT": box.port, "NOTICE_MAIL_SECURITY": "none"}
        often = {**OFTEN, **mail, "NOTICE_MAIL_FROM": "Jervis <jervis@example.com>", "IDENTITY": "operator-0"}
        box.refuses = "450 later"
        with start(**often) as operator:
            submit(space, "asks", "works")
            until(lambda: rows.count_documents({"attempts": {"$gte": 1}}) == 1, "the server takes it later")
            box.stall, box.refuses = 600.0, ""
            rows.update_many({}, {"$set": {"due": datetime(2020, 1, 1, tzinfo=UTC)}})
            until(lambda: len(box.mails) == 1, "it takes it, and answers late")
            operator.kill()
        box.stall = 0.0
        box.released.set()
        with start(**often) as operator:
            rows.update_many({"state": "Pending"}, {"$set": {"due": datetime(2020, 1, 1, tzinfo=UTC)}})
            until(lambda: rows.count_documents({"state": "Delivered"}) == 1, "it is taken")
            assert operator.stop() == 0
    [known] = {one["Message-ID"] for one in box.mails}
    assert known == f"<{rows.find_one()['_id']}@example.com>"
    assert len(box.mails) == 2, "the kill came between the answer and its record"
    assert {one["Subject"] for one in box.mails} == {"[Jervis] UserTask: asks (acme)"}


def test_each_event_is_told_once_through_failures_and_kills(
    space: Space, start: Start, knowledge: Knowledge, hook: Hook, database: Any
) -> None:
    knowledge.rules = [rule(hook.url)]
    hook.status = 503
    rows = database["task_notices"]
    with Kubelet(space.api, space.name, says):
        with start(**OFTEN, IDENTITY="operator-0") as operator:
            submit(space, "asks", "works")
            until(lambda: set(space.phases().values()) == {"UserTask", "Completed"}, "both have ended")
            until(lambda: rows.count_documents({"attempts": {"$gte": 1}}) == 2, "the webhook takes none")
            postponed = 'jervis_operator_notices_total{result="postponed"}'
            until(lambda: operator.metric(postponed) >= 2, "both are counted")
            until(lambda: operator.metric("jervis_operator_notices_waiting") == 2, "they wait")
            hook.stall, hook.status = 600.0, 204
            hook.requests.clear()
            rows.update_many({}, {"$set": {"due": datetime(2020, 1, 1, tzinfo=UTC)}})
            until(lambda: len(hook.requests) == 2, "it takes both, and answers late")
            operator.kill()
        hook.stall = 0.0
        hook.released.set()
        with start(**OFTEN, IDENTITY="operator-0") as operator:
            rows.update_many({"state": "Pending"}, {"$set": {"due": datetime(2020, 1, 1, tzinfo=UTC)}})
            until(lambda: rows.count_documents({"state": "Delivered"}) == 2, "both are taken")
            submit(space, "works-2")
            ENDS["works-2"] = ENDS["works"]
            until(lambda: rows.count_documents({"state": "Delivered"}) == 3, "so is a later one")
            assert operator.metric("jervis_operator_reconcile_failures_total") == 0
            assert operator.stop() == 0
    found = told(hook)
    assert sorted(one for (one,) in found.values()) == [
        "asks UserTask ?",
        "works Completed It is done.",
        "works-2 Completed It is done.",
    ]
    assert sorted(Counter(hook.taken()).values()) == [1, 2, 2], "the kill came between the answer and its record"
    assert rows.count_documents({}) == 3
    assert {one["_id"] for one in rows.find()} == set(found)
