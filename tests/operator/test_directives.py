"""What the knowledge base makes of a task, as a person sees it: directives, files, projects, hard rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import orjson
import prometheus_client
import pytest

from crds import scope
from kb import api, metrics
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.rules import test_enforce
from tests.kb.service import serving
from tests.operator import unwatched
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.kubelet import Kubelet
from tests.operator.process import Start
from tests.operator.test_superseded import Site, at
from tests.waiting import until

__all__ = ["at"]
pytestmark = [pytest.mark.apiserver, pytest.mark.services]
ASK = {"action": "Ask", "message": "The account is missing.", "questions": ["Which account?", "By when?"]}
FAIL = {"action": "Fail", "message": "It is encrypted.", "tags": ["encrypted", "mail"]}


def directed(fields: dict[str, Any]) -> str:
    return f"DIRECTIVE {orjson.dumps(fields).decode()}"


def test_each_directive_is_one_transition_and_an_answer_brings_the_task_to_its_run(
    space: Space, start: Start, knowledge: Knowledge, database: Any
) -> None:
    before = datetime.now(UTC)
    with Kubelet(space.api, space.name) as kubelet, start(slots=4) as operator:
        space.submit("asks", directed(ASK))
        space.submit("hints", 'HINTS {"questions": ["Which one?"]}')
        space.submit("fails", directed(FAIL))
        space.submit("hopeless", directed(FAIL))
        space.submit("later", directed({"action": "Defer", "message": "After the freeze.", "deferMinutes": 600}))
        space.submit("works", directed({"action": "Execute", "message": "Do it."}))
        space.submit("news", directed({"action": "Execute", "message": "INFO, nothing to do."}))
        waiting = {"asks": "UserTask", "hints": "UserTask", "fails": "UserTask", "hopeless": "UserTask"}
        others = {"later": "Scheduled", "works": "Completed", "news": "Done"}
        until(lambda: space.phases() == waiting | others, "all are routed")

        asked = space.status("asks")
        assert asked["userTask"]["kind"] == "Question"
        assert asked["userTask"]["questions"] == [
            {"id": "q1", "text": "Which account?"},
            {"id": "q2", "text": "By when?"},
        ]
        assert asked["route"]["reason"] == "something has to be known first: The account is missing."
        assert space.status("fails")["userTask"]["kind"] == "Failure"
        assert space.status("fails")["result"]["summary"] == "It is encrypted."
        due = datetime.fromisoformat(space.status("later")["scheduledFor"])
        assert before + timedelta(minutes=599) < due < datetime.now(UTC) + timedelta(minutes=601)
        counted = {
            action: operator.metric(f'jervis_operator_directives_total{{action="{action}"}}')
            for action in ("InfoOnly", "Execute", "ExecuteHigh", "Defer", "Ask", "Fail")
        }
        assert counted == {"InfoOnly": 1, "Execute": 1, "ExecuteHigh": 0, "Defer": 1, "Ask": 2, "Fail": 2}
        assert len(kubelet.seen) == 1, "nothing runs before it is answered"
        memory = database["task_memory"].find_one({"name": "fails"})
        assert (memory["routingDecision"], memory["structuredData"]["tags"]) == ("Fail", "encrypted, mail")

        read = len(knowledge.requests)
        space.edit("asks", {"answers": [{"id": "q1", "text": "The old one."}]})
        space.edit("hints", {"answers": [{"id": "q1", "text": "That one."}]})
        space.edit("fails", {"answers": [{"id": "again", "text": "Here is the key."}]})
        space.edit("hopeless", {"approval": {"verdict": "Rejected"}})
        until(
            lambda: (
                space.phases()
                == {**others, "asks": "UserTask", "hints": "Completed", "fails": "Completed", "hopeless": "Error"}
            ),
            "what is answered runs",
        )
        space.edit("asks", {"answers": [{"id": "q1", "text": "The old one."}, {"id": "q2", "text": "Friday."}]})
        until(lambda: space.phase("asks") == "Completed", "both are answered")
        memory = database["task_memory"].find_one({"name": "asks"})
        assert [one["text"] for one in memory["answers"]] == ["The old one.", "Friday."]
        assert len(knowledge.requests) == read, "nothing is qualified twice"
        assert operator.metric('jervis_operator_directives_total{action="Ask"}') == 2
        assert operator.metric("jervis_operator_reconcile_failures_total") == 0


async def test_what_a_mail_leaves_open_is_asked_by_the_knowledge_base_s_model(space: Space, at: Site) -> None:
    """The service, its simulated models and the operator: no directive is written by the test."""
    for name, body in (
        ("open", "Please restart <environment> tonight."),
        ("held", "Please upgrade the router, but wait until next week."),
        ("sealed", "-----BEGIN PGP MESSAGE-----\n\nhQEMA5Xq"),
        ("done", "The router was restarted."),
    ):
        space.submit(name, f"From: a@x.example\nTo: b@x.example\nSubject: Router\n\n{body}\n")
        at.here.hear(space.get(name))
    expected = {"open": "UserTask", "held": "Scheduled", "sealed": "UserTask", "done": "Done"}
    await at.here.until(lambda: space.phases() == expected, "all are routed")
    asked = space.status("open")["userTask"]
    assert asked["kind"] == "Question"
    assert "<environment>" in asked["questions"][0]["text"]
    assert space.status("sealed")["userTask"]["kind"] == "Failure"
    assert space.status("held")["route"]["decision"] == "Defer"
    space.edit("open", {"answers": [{"id": "q1", "text": "Staging."}]})
    at.here.hear(space.get("open"))
    await at.here.until(lambda: space.phase("open") == "ReadyForGpu", "it is answered")


def file(name: str) -> dict[str, Any]:
    return {**FILE, "name": name}


def test_good_and_bad_files_of_a_mail_and_of_a_question(space: Space, start: Start, knowledge: Knowledge) -> None:
    with Kubelet(space.api, space.name), start(slots=4):
        files = [file("plan.txt"), file("INVALID.docm")]
        space.submit("mail", "ASK", attachments=files, sourceUrn="email::<m1@acme.example>")
        space.submit("ask", "What is the plan?", type="UserInputProcessing", mode="Foreground", attachments=files[:1])
        space.submit("none", "INFO")
        until(
            lambda: space.phases() == {"mail": "Completed", "ask": "Completed", "none": "Done"}, "all go on in any case"
        )
        condition = space.condition("mail", "AttachmentsIngested")
        assert (condition["status"], condition["reason"]) == ("False", "Rejected")
        assert "1 of 2 files" in condition["message"]
        assert "INVALID.docm: the document has macros. Save it." in condition["message"]
        assert space.condition("ask", "AttachmentsIngested")["status"] == "True"
        assert "AttachmentsIngested" not in space.conditions("none")
        sent = sorted((one.attached_to, one.name) for one in knowledge.attached)
        uid = space.get("ask")["metadata"]["uid"]
        assert sent == [
            ("email::<m1@acme.example>", "INVALID.docm"),
            ("email::<m1@acme.example>", "plan.txt"),
            (f"task::{uid}", "plan.txt"),
        ]
        assert api.attached_to(api.attachment_urn(*sent[0])) == "email::<m1@acme.example>"
        assert [one.source_urn for one in knowledge.requests if one.source_urn == f"task::{uid}"] == []


def test_the_documents_of_a_project_follow_its_newest_task_and_connection(
    space: Space, start: Start, knowledge: Knowledge
) -> None:
    space.submit("old", "INFO", projectId="shop", groupId="retail")
    space.submit("none", "INFO", projectId="till")
    with start() as operator:
        until(lambda: knowledge.groups == {"shop": "retail"}, "the project is in the group of its task")
        space.submit("new", "INFO", projectId="shop", groupId="wholesale")
        until(lambda: knowledge.groups["shop"] == "wholesale", "it has followed the newer task")
        until(lambda: space.phase("new") == "Done", "the task is read")
        source = {"type": "Git", "clientId": "acme", "url": "https://git.example.com/till.git"}
        space.create("connections", "Connection", "code", {**source, "projectId": "till", "groupId": "retail"})
        until(lambda: knowledge.groups.get("till") == "retail", "a Connection names a group as well")
        until(lambda: operator.metric("jervis_operator_regroups_total") >= 3, "each move is counted")
    assert knowledge.groups == {"shop": "wholesale", "till": "retail"}


FILE = {
    "name": "plan.txt",
    "mediaType": "text/plain",
    "contentRef": {"store": "gridfs", "key": "k1", "sha256": "0" * 64, "bytes": 5},
}
LINES = {
    "letters": "route InfoOnly when title letter",
    "careful": 'ask-before-execute "Is it paid?" when contains invoice',
    "secret": "never-index when contains confidential",
    "later": "route Defer 600 when source jira::LATER-*",
}


class Kept:
    async def in_force(self, viewer: scope.Scope) -> list[api.Rule]:
        return [test_enforce.rule(f"enforce: {line}", scopes.ACME, key) for key, line in LINES.items()]


async def test_tasks_go_where_rules_say(space: Space, local: dict[str, Any], tmp_path: Path) -> None:
    meters = metrics.Metrics(prometheus_client.CollectorRegistry())
    with process.running(num_parallel=8) as fake:
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:
            stores = (memory.Vectors(), memory.Content())
            router = router_client.Client(fake.url, http)
            async with (
                world.opened(tmp_path, router, clocks.Clock(), meters, *stores, rules=Kept()) as kb,
                serving.over(kb, meters) as (_, served),
                unwatched.working(space, **local | {"kb_url": str(served.base_url).rstrip("/")}) as here,
            ):

                async def reaches(name: str, phase: str, text: str, **spec: Any) -> dict[str, Any]:
                    space.submit(name, text, type="EmailProcessing", **spec)
                    here.hear(space.get(name))
                    await here.until(lambda: space.phase(name) == phase, f"{name} reaches {phase}")
                    return space.status(name)

                plain = await reaches("plain", "ReadyForGpu", world.MAIL)
                letter = await reaches("letter", "Done", f"Subject: Our letter\n{world.MAIL}")
                invoice = await reaches("invoice", "UserTask", f"{world.MAIL}\nPay the invoice.")
                secret = await reaches("secret", "ReadyForGpu", f"{world.MAIL}\nConfidential.", attachments=[FILE])
                stored = (await kb.vectors.counts(scopes.ACME))[0]
                later = await reaches("later", "Scheduled", world.MAIL, sourceUrn="jira::LATER-1")
    assert "hard rule" not in said(plain)
    assert letter["route"]["decision"] == "InfoOnly"
    assert letter["route"]["hints"]["hasActionableContent"] is True
    assert "a hard rule decides: letters (version 1): route InfoOnly" in said(letter)
    assert invoice["userTask"]["questions"] == [{"id": "q1", "text": "Is it paid?"}]
    assert "careful (version 1): ask-before-execute" in said(invoice)
    assert "a hard rule forbids it: secret (version 1): never-index" in said(secret)
    assert said(secret, "AttachmentsIngested").startswith("0 of 1 files are in the knowledge base.")
    assert stored == 3, "all but the secret"
    assert later["route"]["decision"] == "Defer"
    assert later["scheduledFor"]


def said(status: dict[str, Any], condition: str = "Qualified") -> str:
    [found] = [one["message"] for one in status["conditions"] if one["type"] == condition]
    return str(found)
