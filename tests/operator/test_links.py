"""Links of documents: one task each, once for a client, and none for the links of a linked page."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import pytest
from kubernetes import client

import kube
from contracts import link_tasks
from controllers.pendingtask.effects import links as task_links
from crds import scope
from kb import api
from kb.links import reading
from tests.controllers import build
from tests.operator import accounts
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.process import Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
MAIL = """From: Jana Novak <jana@acme.example>
Subject: Release

INFO The notes are at https://docs.example/notes and the plan is https://docs.example/plan#part.
https://shop.example/unsubscribe?u=1
"""


def links(space: Space) -> dict[str, dict[str, Any]]:
    """The tasks of links by their URL."""
    found = (one for one in space.every() if one["spec"]["type"] == "LinkProcessing")
    return {one["spec"]["sourceUrn"].removeprefix("link::"): one for one in found}


def qualified(space: Space, name: str) -> str:
    return space.condition(name, "Qualified")["message"]


def test_each_link_of_a_mail_is_a_task_of_its_own_once(space: Space, start: Start, knowledge: Knowledge) -> None:
    with start():
        mail = space.submit("mail", MAIL, projectId="shop", correlationId="c1", sourceUrn="email::<m1@acme.example>")
        until(lambda: set(space.phases().values()) == {"Done"} and len(space.phases()) == 4, "all are done")
        made = links(space)
        assert set(made) == {
            "https://docs.example/notes",
            "https://docs.example/plan",
            "https://shop.example/unsubscribe?u=1",
        }
        note = made["https://docs.example/notes"]
        assert note["metadata"]["labels"]["jervis.dev/found-in-uid"] == mail["metadata"]["uid"]
        assert note["metadata"]["annotations"]["jervis.dev/found-in"] == "mail"
        spec = note["spec"]
        assert (spec["clientId"], spec["projectId"], spec["correlationId"]) == ("acme", "shop", "c1")
        assert spec.get("mode", "Background") == "Background"
        about = reading.stated(spec["content"])
        assert (about.url, about.source_urn, about.source_kind) == (
            "https://docs.example/notes",
            "email::<m1@acme.example>",
            "email",
        )
        assert (about.subject, about.sender) == ("Release", "Jana Novak <jana@acme.example>")
        assert (about.before, about.after[:12]) == ("INFO The notes are at", "and the plan")
        assert "3 links found, 3 processed as tasks (3 new)." in qualified(space, "mail")
        blocked = made["https://shop.example/unsubscribe?u=1"]
        assert blocked["status"]["result"]["summary"].startswith("Blocked: https://shop.example/unsubscribe?u=1")
        assert blocked["status"]["route"]["decision"] == "InfoOnly"
        # The same links in another mail, and the links of the linked pages.
        space.bring("Done", "again", MAIL, projectId="shop", sourceUrn="email::<m2@acme.example>")
        assert "3 links found, 3 processed as tasks (0 new)." in qualified(space, "again")
        assert len(space.every()) == 5
        assert len(knowledge.links) == 3
        # Another client's are its own, and those of a project that is not shown what this one read.
        space.submit("other", MAIL, clientId="globex", sourceUrn="email::<m2@acme.example>")
        space.submit("till", MAIL, projectId="till", sourceUrn="email::<m3@acme.example>")
        until(lambda: len(space.every()) == 13, "they have tasks of their own")


def test_the_name_of_a_link_is_that_of_its_project() -> None:
    owners = [{}, {"project_id": "a"}, {"project_id": "b"}, {"group_id": "a"}]
    names = {link_tasks.name(scope.Scope(client_id="acme", **one), "https://a.example") for one in owners}
    assert len(names) == 4
    moved = scope.Scope(client_id="acme", project_id="a", group_id="g")
    assert link_tasks.name(moved, "https://a.example") in names, "a project that moves to a group keeps its tasks"


def test_an_operator_that_was_killed_makes_the_rest_and_none_twice(
    space: Space, start: Start, knowledge: Knowledge
) -> None:
    knowledge.gate.clear()
    with start(IDENTITY="operator-0") as first:
        space.bring("Qualifying", "mail", MAIL)
        first.kill()
    # One was created before: its task is found, and the others are made.
    knowledge.gate.set()
    with start(IDENTITY="operator-0"):
        until(lambda: len(space.phases()) == 4 and set(space.phases().values()) == {"Done"}, "all are done")


def test_what_the_site_does_and_what_a_person_is_asked(space: Space, start: Start, knowledge: Knowledge) -> None:
    with start():
        space.submit("away", "https://a.example/away", type="LinkProcessing")
        space.submit("unclear", "See https://a.example/unclear", type="LinkProcessing")
        space.submit("chat", "INFO https://a.example/x", type="MeetingProcessing")
        until(lambda: space.phase("unclear") == "UserTask", "a person is asked")
        assert space.status("unclear")["userTask"]["questions"][0]["text"] == "May it be opened?"
        until(lambda: space.status("away").get("retry", {}).get("count", 0) >= 1, "it is tried again")
        assert space.phase("away") in ("ReadyForQualification", "Qualifying")
        assert "cannot be read now" in space.status("away")["retry"]["reason"]
        until(lambda: space.phase("chat") == "Done", "a meeting's links stay in its text")
        # Its tries are over: the link is left, and the reason stays.
        space.edit_status("away", {"retry": {"count": 4, "reason": "x", "nextAt": "2026-01-01T00:00:00Z"}})
        until(lambda: space.phase("away") == "Done", "it is left")
        assert space.status("away")["result"]["summary"].startswith("Unreachable: https://a.example/away")
        assert len(space.every()) == 3


def test_a_person_s_answer_is_carried_to_the_link_and_starts_no_run(
    space: Space, start: Start, knowledge: Knowledge
) -> None:
    def answers(name: str) -> list[tuple[str, str]]:
        made = [one for one in knowledge.links if one.source_urn == f"link::{name}" and one.answer is not None]
        return [(one.answer.value, one.answered_by) for one in made if one.answer is not None]

    def ask(name: str) -> None:
        space.submit(name, f"https://a.example/unclear/{name}", type="LinkProcessing", sourceUrn=f"link::{name}")

    with start():
        for name in ("opened", "left", "said"):
            ask(name)
        until(lambda: {space.phase(one) for one in ("opened", "left", "said")} == {"UserTask"}, "a person is asked")
        assert "route" not in space.status("opened")
        # What is no answer is asked again; and the older one does not count for the new question.
        space.edit("opened", {"answers": [{"id": "q1", "text": "Which site is it?", "author": "eva"}]})
        until(lambda: space.status("opened").get("answersSeen") == 1, "the question comes again")
        assert space.phase("opened") == "UserTask"
        assert [one["id"] for one in space.status("opened")["userTask"]["questions"]] == ["q2"]
        first = {"id": "q1", "text": "Which site is it?", "author": "eva"}
        space.edit("opened", {"answers": [first, {"id": "q2", "text": "Ano, otevřít.", "author": "jana"}]})
        space.edit("left", {"answers": [{"id": "q1", "text": "never"}]})
        space.edit("said", {"messages": [{"id": "m1", "text": "ja", "author": "max", "at": "2026-11-01T00:00:00Z"}]})
        until(lambda: {space.phase(one) for one in ("opened", "left", "said")} == {"Done"}, "the answers decide")
        assert answers("opened") == [("Yes", "jana")]
        assert answers("left") == [("Never", "")]
        assert answers("said") == [("Yes", "max")]
        assert space.status("opened")["result"]["summary"].startswith("Indexed: ")
        assert space.status("left")["result"]["summary"].startswith("Unsafe: ")
        assert {space.status(one)["route"]["decision"] for one in ("opened", "left", "said")} == {"InfoOnly"}
        assert space.jobs() == []


def test_an_answer_that_came_before_the_question_is_none(space: Space, start: Start, knowledge: Knowledge) -> None:
    with start():
        given = [{"id": "q1", "text": "yes", "author": "eva"}]
        space.bring("UserTask", "early", "https://a.example/unclear", type="LinkProcessing", answers=given)
        assert [one.answer for one in knowledge.links] == [None]
        assert [one["id"] for one in space.status("early")["userTask"]["questions"]] == ["q2"]


async def test_a_client_has_a_bounded_number_of_links_that_wait() -> None:
    """Nothing is asked of a cluster for those that are left out."""
    current = build.task(spec={"content": MAIL})
    found = [api.Link(url=f"https://a.example/{number}") for number in range(3)]
    nowhere = cast("kube.Kube", None)
    made = await task_links.make(nowhere, current, found, {}, patient=True, waiting=task_links.MOST_WAITING)
    assert made.sentence() == (
        "3 links found, 0 processed as tasks (0 new). 3 refused: 1000 links of the client wait already"
    )


def test_a_quota_costs_the_links_and_not_the_mail(space: Space, start: Start, knowledge: Knowledge) -> None:
    space.quota("pendingtasks.jervis.dev", 2)
    with start():
        space.submit("mail", MAIL)
        until(lambda: space.status("mail").get("retry", {}).get("count", 0) >= 1, "it waits for the quota")
        assert "quota" in space.status("mail")["retry"]["reason"]
        space.edit_status("mail", {"retry": {"count": 8, "reason": "x", "nextAt": "2026-01-01T00:00:00Z"}})
        until(lambda: space.phase("mail") == "Done", "the mail goes on")
        told = qualified(space, "mail")
        assert "3 links found, 1 processed as tasks (" in told
        assert "2 refused" in told


def links_are_refused(space: Space) -> AbstractContextManager[None]:
    """With 422, as the chart's policy does where `admission.namespaces` names other types."""
    rule = {"apiGroups": ["jervis.dev"], "resources": ["pendingtasks"], "operations": ["CREATE"]}
    expression = "object.spec.type != 'LinkProcessing'"
    validation = {"expression": expression, "message": "spec.type: no links here", "reason": "Invalid"}

    def refused() -> bool:
        name = f"probe-{time.monotonic_ns()}"
        try:
            space.submit(name, "INFO https://a.example/x", type="LinkProcessing")
        except client.ApiException as error:
            return bool(error.status == 422)
        space.delete(name)
        return False

    return accounts.policy(space, rule, validation, refused)


def test_a_namespace_without_links_has_its_mails_done(
    space: Space, start: Start, kubeconfig: Path, tmp_path: Path
) -> None:
    """And the operator needs no other rights than the chart gives it."""
    account = accounts.Account(space.api, space.name)
    account.allow(space.name)
    with links_are_refused(space), start(KUBECONFIG=account.kubeconfig(kubeconfig, tmp_path / "limited")):
        space.bring("Done", "mail", MAIL)
        told = qualified(space, "mail")
        assert "3 links found, 0 processed as tasks (0 new). 3 refused:" in told
        assert "no links here" in told
        assert list(space.phases()) == ["mail"]
