"""What a run is told about its task, also what its user adds while it works."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

import aiohttp
import pytest
from aiohttp import web

import kube
from clients import mongo
from controllers.memory import document
from controllers.memory import mongo as memories
from controllers.pendingtask import decision
from controllers.pendingtask.effects import executor, ingest
from controllers.pendingtask.observed import Ingested
from crds.pendingtask import Decision, Hints
from crds.phases import Phase
from orchestrator_job.store import task_memory
from tests import httpserver
from tests.controllers import build
from tests.controllers.test_fence import Leader, written
from tests.controllers.test_task_index import Place
from tests.kube import apiserver

__all__ = ["written"]

SPEC = {
    "messages": [{"id": "m1", "text": "More."}, {"id": "m2", "text": "And more."}],
    "answers": [{"id": "q1", "text": "This."}, {"id": "q2", "text": "That."}],
}


def test_a_run_reads_all_messages_and_the_answers_that_its_claim_counted() -> None:
    """It says how many messages it has read, so one between the claim and the Job does not bring the task back."""
    claimed = build.routed(Phase.DISPATCHED_GPU, spec=SPEC, messagesSeen=1, answersSeen=1)
    memory = document.of_task(claimed, 1, build.NOW)
    assert [one["id"] for one in memory["messages"]] == ["m1", "m2"]
    assert [one["id"] for one in memory["answers"]] == ["q1"]
    assert document.of_messages(claimed, build.NOW) == {"messages": memory["messages"], "updatedAt": build.NOW}


def test_a_run_reads_the_decisions_that_were_accepted_and_not_what_stands_in_the_spec() -> None:
    decided = {
        "requestId": "run-1-1",
        "attempt": 1,
        "about": "r1.approve/1",
        "ruleKey": "",
        "verdict": "Rejected",
        "comment": "no",
        "author": "ada",
        "arguments": "",
        "forTask": False,
    }
    spec = {"approval": {"verdict": "Approved"}}
    told = document.of_task(build.routed(Phase.DISPATCHED_GPU, spec=spec, approvals=[decided]), 2, build.NOW)
    assert told["approvals"] == [decided]
    assert "approval" not in told
    assert document.of_task(build.routed(Phase.DISPATCHED_GPU, spec=spec), 1, build.NOW)["approvals"] == []


def test_a_run_reads_the_permits_of_its_task() -> None:
    permit = {"tool": "sendMail", "targets": ["ann@example.com"], "notAfter": "2026-12-31T00:00:00Z"}
    task = build.routed(Phase.DISPATCHED_GPU, spec={"permits": [permit]})
    stored = document.of_task(task, 1, build.NOW)
    assert stored["permits"] == [{**permit, "most": 1, "mayShare": False}]
    assert task_memory.TaskMemory.model_validate(stored).permits == task.spec.permits


def test_the_claim_of_another_run_counts_all_of_it() -> None:
    claimed = build.routed(Phase.DISPATCHED_GPU, spec=SPEC, messagesSeen=2, answersSeen=2)
    told = document.of_task(claimed, 2, build.NOW)
    assert [one["id"] for one in told["messages"]] == ["m1", "m2"]
    assert [one["id"] for one in told["answers"]] == ["q1", "q2"]


def test_a_chat_is_in_the_foreground_whatever_its_mode_says() -> None:
    chat = build.routed(Phase.DISPATCHED_GPU, spec={"type": "UserInputProcessing"})
    assert document.of_task(chat, 1, build.NOW)["mode"] == "Foreground"
    assert document.of_task(build.routed(Phase.DISPATCHED_GPU), 1, build.NOW)["mode"] == "Background"


@pytest.mark.parametrize(
    ("type_", "urn", "source"),
    [
        ("EmailProcessing", "email::<1@host>", ("EMAIL", "1@host")),
        ("EmailProcessing", "imap:acme/handlers/7", ("EMAIL", "acme/handlers/7")),
        ("EmailProcessing", None, ("EMAIL", None)),
        ("BugTrackerProcessing", "jira::JERV-1", ("JIRA", "JERV-1")),
        ("BugTrackerProcessing", "jira::site:example.org,key:JERV-2", ("JIRA", "JERV-2")),
        ("BugTrackerProcessing", "github-issue::acme/shop#7", ("GITHUB_ISSUE", "acme/shop#7")),
        ("BugTrackerProcessing", "gitlab:acme/shop!7", ("GITLAB_ISSUE", "acme/shop!7")),
        ("BugTrackerProcessing", "gitea::acme/shop#7", ("GITEA_ISSUE", "acme/shop#7")),
        ("BugTrackerProcessing", "jira_comment::JERV-1-10042", ("JIRA", "JERV-1-10042")),
        ("GitProcessing", "git::acme/shop@4f5e6a7", ("GIT_COMMIT", "acme/shop@4f5e6a7")),
        ("GitProcessing", "git::hash:4f5e6a7,branch:main", ("GIT_COMMIT", "4f5e6a7")),
        ("GitProcessing", "github::acme/shop@4f5e6a7", ("GIT_COMMIT", "acme/shop@4f5e6a7")),
        ("WikiProcessing", "confluence::space:OPS,pageId:17", ("CONFLUENCE", "17")),
        ("LinkProcessing", "link::https://example.org/a?id=3", ("LINK", "https://example.org/a?id=3")),
        ("MeetingProcessing", "meeting::id:m-1,title:Standup", ("MEETING", "m-1")),
        ("UserTask", None, (None, None)),
        ("UserInputProcessing", "chat:7", (None, "7")),
    ],
)
def test_the_source_has_the_names_of_its_own_world(
    type_: str, urn: str | None, source: tuple[str | None, str | None]
) -> None:
    told = document.of_task(build.routed(Phase.DISPATCHED_GPU, spec={"type": type_, "sourceUrn": urn}), 1, build.NOW)
    assert (told["sourceType"], told["sourceId"]) == source


def test_qualification_writes_every_field_and_leaves_what_a_run_added() -> None:
    task = build.task(
        spec={
            "sourceUrn": "email::<1@host>",
            "correlationId": "c-1",
            "timeZone": "Asia/Tokyo",
            "projectId": "shop",
            "content": "Subject: Pay\n\n.",
        }
    )
    found = Ingested(Hints(has_actionable_content=True, urgency="high", suggested_deadline=build.NOW))
    told = document.of_findings(
        task, "Sum.", ["n"], ["c"], build.NOW, facts=ingest.facts(task, found), decision=Decision.ASK, reason="why"
    )
    assert told == {
        "taskUid": build.UID,
        "namespace": "default",
        "name": "mail-1",
        "title": "",
        "type": "EmailProcessing",
        "correlationId": "c-1",
        "timeZone": "Asia/Tokyo",
        "scope": {"clientId": "acme", "projectId": "shop", "groupId": ""},
        "sourceUrn": "email::<1@host>",
        "sourceType": "EMAIL",
        "sourceId": "1@host",
        "contextSummary": "Sum.",
        "graphNodeKeys": ["n"],
        "ragDocumentIds": ["c"],
        "routingDecision": "Ask",
        "routingReason": "why",
        "structuredData.title": "Pay",
        "structuredData.urgency": "high",
        "structuredData.assignedToUs": "false",
        "structuredData.deadline": build.NOW.isoformat(),
        "updatedAt": build.NOW,
    }


def test_structured_data_is_flat_and_bounded() -> None:
    given = {"to": ["ada", "bob"], "n": 3, "yes": True, "nested": {"a": 1}, "none": None, "a.b": "dotted", "$x": "op"}
    assert document.structured({**given, "long": "x" * 9000}) == {
        "to": "ada, bob",
        "n": "3",
        "yes": "true",
        "long": "x" * document.FACT_CHARS,
    }
    many = document.structured({f"f{n}": "\u00e9" * 500 for n in range(100)})
    assert sum(len(name) + len(text.encode()) for name, text in many.items()) <= document.FACTS_BYTES
    assert len(document.structured({f"f{n}": "x" for n in range(100)})) == document.MOST_FACTS


def performing(place: Place, api: kube.Kube, memory: memories.Memory) -> executor.EffectExecutor:
    """With what this effect needs, and nothing else."""
    unused: Any = None
    effects = executor.ClusterEffects(
        api, memory, place.workloads, unused, tokens=unused, clock=lambda: build.NOW, created=unused, token=unused
    )
    return executor.EffectExecutor(effects, unused, place.cache, measured=unused, monotonic=unused)


@pytest.mark.services
async def test_messages_are_written_once_for_the_run_that_works(written: Any) -> None:
    said = [{"id": "m1", "text": "More."}]
    task = build.routed(Phase.ORCHESTRATING, spec={"messages": said})
    served: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        served.append(request.path)
        return web.json_response(task.wire())

    uri, own = os.environ["JERVIS_TEST_MONGODB_URI"], {"_id": build.UID}
    written.insert_one({**own, "content": "hello", "messages": [], "leaderEpoch": 1})
    async with aiohttp.ClientSession() as http, httpserver.serving(serve, method="GET") as url:
        place = Place(http, url)
        assert place.cache.take(task.wire())
        api = kube.Kube(apiserver.configuration(url), http, fence=lambda: None)
        with closing(mongo.client("mongodb://127.0.0.1:9", 0.2)) as absent, closing(mongo.client(uri)) as store:
            away = memories.Memory(absent["none"], leads=Leader(1))
            memory = memories.Memory(store[written.database.name], leads=Leader(1))
            # The run is followed by one that reads them: nothing of the task has failed.
            assert not await performing(place, api, away).perform(task, decision.Remember(1), None)
            assert place.cache.observations == {}
            works = performing(place, api, memory)
            await works.perform(task, decision.Remember(2), None)
            assert written.find_one(own)["messages"] == [], "it is another attempt by now"
            served.clear()
            for _ in range(3):
                await works.perform(task, decision.Remember(1), None)
    found = written.find_one(own)
    assert ([one["id"] for one in found["messages"]], found["content"]) == (["m1"], "hello")
    assert len(served) == 1
