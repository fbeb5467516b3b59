"""`ask`: a question becomes a user's task, and its whole answer is printed."""

from __future__ import annotations

import pytest

from tests.cli import outside, site
from tests.cli.test_submit import acting

pytestmark = pytest.mark.apiserver
QUESTION = "Which rack holds the new disk?"


def test_a_question_becomes_a_task_each_time(place: site.Site, call: site.Call) -> None:
    flags = ["ask", QUESTION, "--client", "acme", "--project", "storage"]
    for _ in range(2):
        done = call(*flags).succeeded()
    first, second = place.names()
    assert done.out in (f"pendingtask.jervis.dev/{name} created\n" for name in (first, second))
    made = place.get(first)
    assert made["metadata"]["annotations"] == {"jervis.dev/title": QUESTION}
    spec = made["spec"]
    assert (spec["type"], spec["mode"], spec["content"]) == ("UserInputProcessing", "Foreground", QUESTION)
    assert (spec["clientId"], spec["projectId"]) == ("acme", "storage")
    assert spec["correlationId"] == ""
    of = call(*flags, "--name", "next", "--conversation", "morning")
    assert (of.code, place.get("next")["spec"]["correlationId"]) == (0, "morning")
    call(*flags, "--conversation", "a b").refused("spec.correlationId")


def test_what_cannot_be_asked(place: site.Site, call: site.Call) -> None:
    call("ask", "a" * 40_000, "--client", "acme").refused("kubectl jervis submit FILE")
    call("ask", " ", "--client", "acme").refused()
    call("ask", QUESTION, "--client", "acme", "--wait", "--dry-run").refused("field: --wait")
    tried = call("ask", QUESTION, "--client", "acme", "--dry-run")
    assert tried.out.endswith("created (server dry run)\n"), tried.err
    assert place.names() == []


def test_the_whole_answer_is_waited_for(place: site.Site, call: site.Call) -> None:
    with outside.Results().in_thread(host=site.own_address()) as results:
        place.expose("operator", results.port)
        place.operator("release-operator:http")

        def operator() -> None:
            stored = {
                "exitReason": "Answered",
                "answer": "Rack C4 holds it [1].",
                "citations": [1],
                "evidence": [{"id": 1, "source": "email::1@example.com", "title": "Disk"}],
            }
            results.stored[place.get("q")["metadata"]["uid"]] = stored
            place.status("q", {"phase": "Completed", "result": {"exitReason": "Answered", "summary": "Rack"}})

        with acting(operator):
            done = call("ask", QUESTION, "--client", "acme", "--name", "q", "--wait")
    assert (done.code, done.err) == (0, "pendingtask.jervis.dev/q created\n")
    assert done.out.startswith("Rack C4 holds it [1].\n")
    assert "email::1@example.com" in done.out


def test_what_asks_back_is_shown_with_what_it_asks(place: site.Site, call: site.Call) -> None:
    asks = {"phase": "UserTask", "userTask": {"kind": "Question", "questions": [{"id": "r1-q1", "text": "Which?"}]}}
    with acting(lambda: place.status("q", asks)):
        done = call("ask", QUESTION, "--client", "acme", "--name", "q", "--wait").refused(code=3)
    assert "Which?" in done.out
    assert "kubectl jervis answer q" in done.out
