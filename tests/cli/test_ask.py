"""`ask`: a question becomes a user's task, and its whole answer is printed."""

from __future__ import annotations

import threading

import pytest

from crds import history
from tests.cli import outside, site
from tests.cli.test_submit import play_operator

pytestmark = pytest.mark.apiserver
QUESTION = "Which rack holds the new disk?"


def test_a_question_becomes_a_task_each_time(place: site.Site, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["ask", QUESTION, "--client", "acme", "--project", "storage", *place.flags()]
    for _ in range(2):
        done = site.call(capsys, *flags)
        assert done.code == 0, done.err
    first, second = place.names()
    assert done.out in (f"pendingtask.jervis.dev/{name} created\n" for name in (first, second))
    made = place.get(first)
    assert made["metadata"]["annotations"] == {"jervis.dev/title": QUESTION}
    spec = made["spec"]
    assert (spec["type"], spec["mode"], spec["content"]) == ("UserInputProcessing", "Foreground", QUESTION)
    assert (spec["clientId"], spec["projectId"]) == ("acme", "storage")
    assert spec["correlationId"] == ""
    of = site.call(capsys, *flags, "--name", "next", "--conversation", "morning")
    assert (of.code, place.get("next")["spec"]["correlationId"]) == (0, "morning")
    wrong = site.call(capsys, *flags, "--conversation", "a b")
    assert (wrong.code, "spec.correlationId" in wrong.err) == (1, True)


def test_what_cannot_be_asked(place: site.Site, capsys: pytest.CaptureFixture[str]) -> None:
    long = site.call(capsys, "ask", "a" * 40_000, "--client", "acme", *place.flags())
    assert (long.code, "kubectl jervis submit FILE" in long.err) == (1, True)
    empty = site.call(capsys, "ask", " ", "--client", "acme", *place.flags())
    assert empty.code == 1
    both = site.call(capsys, "ask", QUESTION, "--client", "acme", "--wait", "--dry-run", *place.flags())
    assert (both.code, "field: --wait" in both.err) == (1, True)
    tried = site.call(capsys, "ask", QUESTION, "--client", "acme", "--dry-run", *place.flags())
    assert tried.out.endswith("created (server dry run)\n"), tried.err
    assert place.names() == []


def test_the_whole_answer_is_waited_for(place: site.Site, capsys: pytest.CaptureFixture[str]) -> None:
    with outside.Results().in_thread(host=site.own_address()) as results:
        place.expose("operator", results.port)
        labels = {"app.kubernetes.io/part-of": "jervis", "app.kubernetes.io/component": history.COMPONENT}
        address = f"{place.namespace}/release-operator:http"
        metadata = {"name": "history", "labels": labels, "annotations": {history.ADDRESS_ANNOTATION: address}}
        place.core.create_namespaced_service_account(place.namespace, {"metadata": metadata})

        def operator() -> None:
            stored = {
                "exitReason": "Answered",
                "answer": "Rack C4 holds it [1].",
                "citations": [1],
                "evidence": [{"id": 1, "source": "email::1@example.com", "title": "Disk"}],
            }
            results.stored[place.get("q")["metadata"]["uid"]] = stored
            place.status("q", {"phase": "Completed", "result": {"exitReason": "Answered", "summary": "Rack"}})

        acting = threading.Thread(target=play_operator, args=(operator,))
        acting.start()
        done = site.call(capsys, "ask", QUESTION, "--client", "acme", "--name", "q", "--wait", *place.flags())
        acting.join()
    assert (done.code, done.err) == (0, "pendingtask.jervis.dev/q created\n")
    assert done.out.startswith("Rack C4 holds it [1].\n")
    assert "email::1@example.com" in done.out


def test_what_asks_back_is_shown_with_what_it_asks(place: site.Site, capsys: pytest.CaptureFixture[str]) -> None:
    asks = {"phase": "UserTask", "userTask": {"kind": "Question", "questions": [{"id": "r1-q1", "text": "Which?"}]}}
    acting = threading.Thread(target=play_operator, args=(lambda: place.status("q", asks),))
    acting.start()
    done = site.call(capsys, "ask", QUESTION, "--client", "acme", "--name", "q", "--wait", *place.flags())
    acting.join()
    assert done.code == 3, done.err
    assert "Which?" in done.out
    assert "kubectl jervis answer q" in done.out
