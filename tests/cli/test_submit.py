"""`submit` and `ask`: files small and large, and questions, become tasks, waited for or not."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import errors, kube, waiting
from cli.output import Format, Output
from cli.session import Session
from tests.cli import outside, site
from tests.waiting import until

pytestmark = pytest.mark.apiserver

MAIL = b"From: Jan <jan@example.com>\nMessage-ID: <1@example.com>\nSubject: Disk\n\nPlease replace it.\n"


@pytest.fixture
def store() -> Iterator[outside.Store]:
    """A knowledge base that takes content."""
    with outside.Store().in_thread() as server:
        yield server


def test_a_mail(place: site.Site, call: site.Call, tmp_path: Path) -> None:
    file = tmp_path / "Disk.eml"
    file.write_bytes(MAIL)
    done = place.run("submit", str(file), "--client", "acme", "--project", "storage", "-o", "json").succeeded()
    made = place.get(done.json["metadata"]["name"])
    assert made["metadata"]["annotations"] == {"jervis.dev/title": "Disk"}
    spec = made["spec"]
    assert (spec["type"], spec["sourceUrn"]) == ("EmailProcessing", "email::1@example.com")
    assert (spec["clientId"], spec["projectId"], spec["mode"]) == ("acme", "storage", "Background")

    call("submit", str(file), "--client", "acme", "--project", "storage").refused(
        "already exists", "  field: metadata.name\n  remedy: Choose another name.\n"
    )


def test_a_knowledge_base_that_wants_a_token_is_shown_it(
    place: site.Site,
    call: site.Call,
    tmp_path: Path,
    store: outside.Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.token = "letmein"
    file = tmp_path / "minutes.txt"
    file.write_text("a" * 40_000)
    flags = ["submit", str(file), "--client", "acme"]
    call(*flags, *store.flags).refused("wants a token")
    assert place.names() == []
    call(*flags, "--name", "by-flag", "--token", "letmein", *store.flags).succeeded()
    monkeypatch.setenv("JERVIS_KB_TOKEN", "letmein")
    call(*flags, "--name", "by-variable", *store.flags).succeeded()
    assert (place.names(), len(store.kept)) == (["by-flag", "by-variable"], 2)


def test_a_large_file_goes_to_the_knowledge_base(
    place: site.Site, call: site.Call, tmp_path: Path, store: outside.Store
) -> None:
    file = tmp_path / "minutes.txt"
    file.write_text("č" * 20_000)
    flags = ["submit", str(file), "--client", "acme", "--group", "platform", "--name", "minutes"]
    call(*flags).refused("  field: --kb\n")

    store.busy = True
    away = call(*flags, *store.flags).refused(code=75)
    assert away.err == ("Error: MongoDB is away.\n  remedy: Nothing is wrong with the command; try it again in 7 s.\n")
    store.busy = False
    call(*flags, *store.flags, "--project", "a/b").refused("  field: spec.projectId\n")
    assert store.kept == []

    call(*flags, *store.flags).succeeded()
    [(owner, media, body)] = store.kept
    assert owner == {"clientId": "acme", "groupId": "platform"}
    assert media == "text/plain; charset=utf-8"
    assert body == file.read_bytes()
    spec = place.get("minutes")["spec"]
    assert "content" not in spec
    assert (spec["contentRef"]["bytes"], spec["contentRef"]["store"]) == (40_000, "gridfs")


ATTACHED = b"""From: Jan <jan@example.com>
Subject: Disk
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="x"

--x
Content-Type: text/plain

Please read it.
--x
Content-Type: application/pdf
Content-Disposition: attachment; filename="report.pdf"

%PDF-
--x--
"""


def test_attachments_of_a_mail_and_of_flags_go_to_the_knowledge_base(
    place: site.Site, call: site.Call, tmp_path: Path, store: outside.Store
) -> None:
    file, photo = tmp_path / "disk.eml", tmp_path / "photo.jpg"
    file.write_bytes(ATTACHED)
    photo.write_bytes(b"jpg")
    flags = ["submit", str(file), "--client", "acme"]
    call(*flags, "--attach", str(photo)).refused(
        "kept in the knowledge base: 'report.pdf', 'photo.jpg'.", "  field: --kb\n", "--no-attachments"
    )
    assert place.names() == []

    call(*flags, "--attach", str(photo), "--name", "disk", *store.flags).succeeded()
    assert [(media, body) for _, media, body in store.kept] == [("application/pdf", b"%PDF-"), ("image/jpeg", b"jpg")]
    spec = place.get("disk")["spec"]
    assert [(one["name"], one["mediaType"]) for one in spec["attachments"]] == [
        ("report.pdf", "application/pdf"),
        ("photo.jpg", "image/jpeg"),
    ]
    keys = [one["contentRef"]["key"] for one in spec["attachments"]]
    assert keys == [f"acme/{hashlib.sha256(body).hexdigest()}" for body in (b"%PDF-", b"jpg")]
    assert "Attachments: report.pdf" in spec["content"]

    # Without them nothing has to be stored.
    without = call(*flags, "--no-attachments", "--name", "without")
    assert (without.code, len(store.kept)) == (0, 2), without.err
    assert place.get("without")["spec"]["attachments"] == []
    (tmp_path / "empty").touch()
    for name, why in (("nothing", "cannot be read"), ("empty", "is empty")):
        call(*flags, "--attach", str(tmp_path / name), *store.flags).refused(why, "  field: --attach\n")


def test_what_is_too_large_is_said_before_it_is_sent(call: site.Call, tmp_path: Path, store: outside.Store) -> None:
    file = tmp_path / "minutes.txt"
    file.write_text("a" * 40_000)
    flags = ["submit", str(file), "--client", "acme", *store.flags]
    call(*flags, "--max-bytes", "39999").refused("has 40000 bytes; the knowledge base stores at most 39999")
    assert store.kept == []


def test_a_dry_run_stores_nothing(place: site.Site, call: site.Call, tmp_path: Path, store: outside.Store) -> None:
    file = tmp_path / "disk.eml"
    file.write_bytes(ATTACHED)
    flags = ["submit", str(file), "--client", "acme", "--dry-run"]
    for kb in ([], store.flags):
        done = call(*flags, "-o", "json", *kb).succeeded()
        [attachment] = done.json["spec"]["attachments"]
        assert attachment["contentRef"]["sha256"] == hashlib.sha256(b"%PDF-").hexdigest()
    assert call(*flags).out.endswith(" created (server dry run)\n")
    assert (store.kept, place.names()) == ([], [])
    call(*flags, "--type", "ScheduledTask").refused("schedule is required")
    call(*flags, "--wait").refused()


def test_what_only_the_apiserver_knows_is_refused_by_it(call: site.Call, tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_text("x")
    flags = ["submit", str(file), "--client", "acme"]
    call(*flags, "--type", "ScheduledTask").refused("schedule is required for type ScheduledTask", "  field: spec\n")
    call(*flags, "--name", "Not A Name").refused("  field: metadata.name\n")


REJECTED = {
    "type": "Succeeded",
    "status": "False",
    "reason": "Rejected",
    "message": "",
    "lastTransitionTime": "2026-11-18T12:00:00Z",
}


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"phase": "Completed", "result": {"summary": "It is in C4."}}, 0),
        ({"phase": "UserTask", "userTask": {"kind": "Question"}}, 3),
        ({"phase": "Error", "result": {"summary": "It cannot be read."}}, 1),
        ({"phase": "Completed", "result": {"exitReason": "Rejected", "summary": "No."}, "conditions": [REJECTED]}, 1),
    ],
)
def test_waiting_tells_how_it_ended(place: site.Site, call: site.Call, tmp_path: Path, status: Any, code: int) -> None:
    file = tmp_path / "q.txt"
    file.write_text("Where?")
    with acting(lambda: place.status("q", status)):
        done = call("submit", str(file), "--client", "acme", "--name", "q", "--wait")
    assert done.code == code, done.err
    assert done.err == "pendingtask.jervis.dev/q created\n"
    assert f"Phase:     {status['phase']}" in done.out
    assert status.get("result", {}).get("summary", "") in done.out


@contextlib.contextmanager
def acting(act: Callable[[], Any]) -> Iterator[None]:
    """Meanwhile the operator acts, once the task is there."""
    from kubernetes.client import ApiException

    def acted() -> bool:
        try:
            act()
        except ApiException as error:
            if error.status != 404:
                raise
            return False
        return True

    operator = threading.Thread(target=until, args=(acted, "the task is there"))
    operator.start()
    yield
    operator.join()


def test_the_wait_has_an_end(place: site.Site) -> None:
    place.task("slow", status={"phase": "Orchestrating"})
    seconds = 0.0

    def sleep(pause: float) -> None:
        nonlocal seconds
        seconds += pause

    client = kube.connect(str(place.kubeconfig), None, place.namespace, 10.0)
    session = Session(client, Output(Format.TABLE), clock=lambda: seconds, sleep=sleep)
    with pytest.raises(errors.Timeout, match="has not ended within 3 s; it is Orchestrating"):
        waiting.ended(session, "slow", 3.0)
    assert seconds == 3.0
    client.close()


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
    there = call(*flags, "--name", "there", "--time-zone", "Asia/Tokyo")
    assert (there.code, place.get("there")["spec"]["timeZone"]) == (0, "Asia/Tokyo")
    call(*flags, "--time-zone", "Asia/Tokio").refused("--time-zone")


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
