"""`submit`: files small and large, waited for or not."""

from __future__ import annotations

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


def test_a_mail(place: site.Site, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "Disk.eml"
    file.write_bytes(MAIL)
    done = place.run("submit", str(file), "--client", "acme", "--project", "storage", "-o", "json")
    assert done.code == 0, done.err
    made = place.get(done.json["metadata"]["name"])
    assert made["metadata"]["annotations"] == {"jervis.dev/title": "Disk"}
    spec = made["spec"]
    assert (spec["type"], spec["sourceUrn"]) == ("EmailProcessing", "email::1@example.com")
    assert (spec["clientId"], spec["projectId"], spec["mode"]) == ("acme", "storage", "Background")

    again = site.call(capsys, "submit", str(file), "--client", "acme", "--project", "storage", *place.flags())
    assert again.code == 1
    assert "already exists" in again.err
    assert "  field: metadata.name\n  remedy: Choose another name.\n" in again.err


def test_a_knowledge_base_that_wants_a_token_is_shown_it(
    place: site.Site,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    store: outside.Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.token = "letmein"
    file = tmp_path / "minutes.txt"
    file.write_text("a" * 40_000)
    kb = ["--kb", f"http://127.0.0.1:{store.port}", *place.flags()]
    flags = ["submit", str(file), "--client", "acme"]
    refused = site.call(capsys, *flags, *kb)
    assert (refused.code, "wants a token" in refused.err) == (1, True), refused.err
    assert place.names() == []
    assert site.call(capsys, *flags, "--name", "by-flag", "--token", "letmein", *kb).code == 0
    monkeypatch.setenv("JERVIS_KB_TOKEN", "letmein")
    assert site.call(capsys, *flags, "--name", "by-variable", *kb).code == 0
    assert (place.names(), len(store.kept)) == (["by-flag", "by-variable"], 2)


def test_a_large_file_goes_to_the_knowledge_base(
    place: site.Site, capsys: pytest.CaptureFixture[str], tmp_path: Path, store: outside.Store
) -> None:
    file = tmp_path / "minutes.txt"
    file.write_text("č" * 20_000)
    flags = ["submit", str(file), "--client", "acme", "--group", "platform", "--name", "minutes", *place.flags()]
    kb = ["--kb", f"http://127.0.0.1:{store.port}"]
    without = site.call(capsys, *flags)
    assert without.code == 1
    assert "  field: --kb\n" in without.err

    store.busy = True
    away = site.call(capsys, *flags, *kb)
    assert away.code == 75
    assert away.err == ("Error: MongoDB is away.\n  remedy: Nothing is wrong with the command; try it again in 7 s.\n")
    store.busy = False
    wrong = site.call(capsys, *flags, *kb, "--project", "a/b")
    assert wrong.code == 1
    assert "  field: spec.projectId\n" in wrong.err
    assert store.kept == []

    done = site.call(capsys, *flags, *kb)
    assert done.code == 0, done.err
    [(owner, media, body)] = store.kept
    assert owner == {"clientId": "acme", "groupId": "platform"}
    assert media == "text/plain; charset=utf-8"
    assert body == file.read_bytes()
    spec = place.get("minutes")["spec"]
    assert "content" not in spec
    assert spec["contentRef"]["bytes"] == 40_000
    assert spec["contentRef"]["store"] == "gridfs"


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
    place: site.Site, capsys: pytest.CaptureFixture[str], tmp_path: Path, store: outside.Store
) -> None:
    file, photo = tmp_path / "disk.eml", tmp_path / "photo.jpg"
    file.write_bytes(ATTACHED)
    photo.write_bytes(b"jpg")
    flags = ["submit", str(file), "--client", "acme", *place.flags()]
    refused = site.call(capsys, *flags, "--attach", str(photo))
    assert refused.code == 1
    assert "kept in the knowledge base: 'report.pdf', 'photo.jpg'." in refused.err
    assert "  field: --kb\n" in refused.err
    assert "--no-attachments" in refused.err
    assert place.names() == []

    kb = ["--kb", f"http://127.0.0.1:{store.port}"]
    done = site.call(capsys, *flags, "--attach", str(photo), "--name", "disk", *kb)
    assert done.code == 0, done.err
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
    without = site.call(capsys, *flags, "--no-attachments", "--name", "without")
    assert (without.code, len(store.kept)) == (0, 2), without.err
    assert place.get("without")["spec"]["attachments"] == []
    for path, why in ((tmp_path / "nothing", "cannot be read"), (tmp_path / "empty", "is empty")):
        if why == "is empty":
            path.touch()
        wrong = site.call(capsys, *flags, "--attach", str(path), *kb)
        assert (wrong.code, why in wrong.err, "  field: --attach\n" in wrong.err) == (1, True, True), wrong.err


def test_what_is_too_large_is_said_before_it_is_sent(
    place: site.Site, capsys: pytest.CaptureFixture[str], tmp_path: Path, store: outside.Store
) -> None:
    file = tmp_path / "minutes.txt"
    file.write_text("a" * 40_000)
    flags = ["submit", str(file), "--client", "acme", "--kb", f"http://127.0.0.1:{store.port}", *place.flags()]
    refused = site.call(capsys, *flags, "--max-bytes", "39999")
    assert (refused.code, store.kept) == (1, [])
    assert "has 40000 bytes; the knowledge base stores at most 39999" in refused.err


def test_a_dry_run_stores_nothing(
    place: site.Site, capsys: pytest.CaptureFixture[str], tmp_path: Path, store: outside.Store
) -> None:
    file = tmp_path / "disk.eml"
    file.write_bytes(ATTACHED)
    flags = ["submit", str(file), "--client", "acme", "--dry-run", *place.flags()]
    for kb in ([], ["--kb", f"http://127.0.0.1:{store.port}"]):
        done = site.call(capsys, *flags, "-o", "json", *kb)
        assert done.code == 0, done.err
        [attachment] = done.json["spec"]["attachments"]
        assert attachment["contentRef"]["sha256"] == hashlib.sha256(b"%PDF-").hexdigest()
    assert site.call(capsys, *flags).out.endswith(" created (server dry run)\n")
    assert (store.kept, place.names()) == ([], [])
    wrong = site.call(capsys, *flags, "--type", "ScheduledTask")
    assert (wrong.code, "schedule is required" in wrong.err) == (1, True)
    assert site.call(capsys, *flags, "--wait").code == 1


def test_what_only_the_apiserver_knows_is_refused_by_it(
    place: site.Site, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "x.txt"
    file.write_text("x")
    flags = ["submit", str(file), "--client", "acme", *place.flags()]
    scheduled = site.call(capsys, *flags, "--type", "ScheduledTask")
    assert scheduled.code == 1
    assert "schedule is required for type ScheduledTask" in scheduled.err
    assert "  field: spec\n" in scheduled.err
    named = site.call(capsys, *flags, "--name", "Not A Name")
    assert named.code == 1
    assert "  field: metadata.name\n" in named.err


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
def test_waiting_tells_how_it_ended(
    place: site.Site, capsys: pytest.CaptureFixture[str], tmp_path: Path, status: Any, code: int
) -> None:
    file = tmp_path / "q.txt"
    file.write_text("Where?")
    operator = threading.Thread(target=play_operator, args=(lambda: place.status("q", status),))
    operator.start()
    done = site.call(capsys, "submit", str(file), "--client", "acme", "--name", "q", "--wait", *place.flags())
    operator.join()
    assert done.code == code, done.err
    assert done.err == "pendingtask.jervis.dev/q created\n"
    assert f"Phase:     {status['phase']}" in done.out
    assert status.get("result", {}).get("summary", "") in done.out


def play_operator(act: Callable[[], Any]) -> None:
    """Act once the task is there."""
    from kubernetes.client import ApiException

    def acted() -> bool:
        try:
            act()
        except ApiException as error:
            if error.status != 404:
                raise
            return False
        return True

    until(acted, "the task is there")


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
