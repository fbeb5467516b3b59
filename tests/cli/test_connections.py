"""Connections on the command line, against a real apiserver: what is shown, and what people ask of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli import complete
from crds import labels
from tests.cli import site, test_acting

pytestmark = pytest.mark.apiserver

SPEC = {"type": "Email", "clientId": "acme", "url": "imaps://mail.example.org", "secretRef": {"name": "mail"}}


def ago(**span: float) -> str:
    return f"{datetime.now(UTC) - timedelta(**span):%Y-%m-%dT%H:%M:%SZ}"


def ready(status: str, reason: str, message: str = "") -> dict[str, str]:
    said = {"type": "Ready", "status": status, "reason": reason, "message": message}
    return {**said, "lastTransitionTime": ago(hours=3)}


def failure(title: str, remedy: str, **more: str) -> dict[str, str]:
    return {"title": title, "reason": f"{title} is too large", "remedy": remedy, "foundAt": ago(minutes=30), **more}


def status(*failures: dict[str, str], **more: Any) -> dict[str, Any]:
    """Of a Connection that is polled."""
    items = {"new": 2, "indexing": 1, "indexed": 40, "failed": len(failures)}
    said = {"conditions": [ready("True", "Polled")], "lastSuccessTime": ago(minutes=20), "items": items}
    return {**said, "failures": list(failures), **more}


def shown(done: site.Done) -> dict[str, list[str]]:
    """The cells of each line, by the first."""
    lines = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in done.out.splitlines() if line]
    return {line[0]: line[1:] for line in lines}


def test_each_is_a_line_with_its_next_step(place: site.Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.call(capsys, "connections", *place.flags()).out == "No Connections are in this namespace.\n"
    place.connection("fresh", SPEC, None)
    place.connection("well", SPEC, status(waitingSince=ago(minutes=50)))
    place.connection("paused", {**SPEC, "suspend": True}, status(conditions=[ready("False", "Suspended")]))
    place.connection("refused", SPEC, status(conditions=[ready("False", "CredentialsRejected", "It says no.")]))
    place.connection("failed", SPEC, status(failure("one", "Retry"), failure("two", "Resync")))
    lines = shown(site.call(capsys, "connections", *place.flags()))
    assert lines == {
        "NAME": ["TYPE", "READY", "REASON", "SUCCEEDED", "LAG", "NEW", "INDEXED", "FAILED", "NEXT"],
        "failed": [
            *("Email", "True", "Polled", "20m", "-", "3", "40", "2", "kubectl jervis retry connection/failed"),
        ],
        "fresh": ["Email", "Unknown", "NotSeenYet", "-", "-", "0", "0", "0", "-"],
        "paused": [
            *("Email", "False", "Suspended", "20m", "-", "3", "40", "0", "kubectl jervis resume connection/paused"),
        ],
        "refused": [
            *(
                "Email",
                "False",
                "CredentialsRejected",
                "20m",
                "-",
                "3",
                "40",
                "0",
                "kubectl jervis connections refused",
            ),
        ],
        "well": ["Email", "True", "Polled", "20m", "50m", "3", "40", "0", "-"],
    }
    listed = site.call(capsys, "connections", "-o", "json", *place.flags()).json
    assert next((one["kind"], one["metadata"]["name"]) for one in listed["items"]) == ("Connection", "failed")


def test_one_says_why_its_items_failed(place: site.Site, capsys: pytest.CaptureFixture[str]) -> None:
    later = f"{datetime.now(UTC) + timedelta(minutes=5, seconds=30):%Y-%m-%dT%H:%M:%SZ}"
    failures = failure("one\x1b[2J", "Resync"), failure("two", "Retry", retryAt=later)
    place.connection("mailbox", SPEC, status(*failures, cursor="INBOX: UID 7 of 9", waitingSince=ago(minutes=50)))
    said = site.call(capsys, "connections", "mailbox", *place.flags())
    lines = shown(said)
    assert "3 without a task, 40 with one, 2 failed; the oldest waits for 50m" in said.out
    assert "Failed items, the last 2 of 2" in said.out
    assert lines["two"][:2] == ["30m", lines["two"][1]]
    assert lines["two"][1].startswith("itself, in 5m")
    assert lines["one\N{REPLACEMENT CHARACTER}[2J"][1] == "resync"
    assert lines["Next:"] == ["kubectl jervis resync mailbox"]
    assert (
        site.call(capsys, "connections", "connection/mailbox", "-o", "json", *place.flags()).json["kind"]
        == "Connection"
    )
    assert site.call(capsys, "connections", "nothing", *place.flags()).code == 1


def test_pause_and_resume(place: site.Site, capsys: pytest.CaptureFixture[str]) -> None:
    place.connection("mailbox", SPEC, status())

    def suspended() -> bool:
        return bool(place.get("mailbox", "connections")["spec"].get("suspend", False))

    dry = site.call(capsys, "pause", "mailbox", "--dry-run", *place.flags())
    assert (dry.out, suspended()) == ("connection.jervis.dev/mailbox paused (server dry run)\n", False)
    assert site.call(capsys, "pause", "mailbox", *place.flags()).out == "connection.jervis.dev/mailbox paused\n"
    assert suspended()
    assert "was paused already" in site.call(capsys, "suspend", "conn/mailbox", *place.flags()).out
    refused = site.call(capsys, "resync", "mailbox", *place.flags())
    assert (refused.code, "kubectl jervis resume connection/mailbox" in refused.err) == (1, True)
    resumed = site.call(capsys, "resume", "connection/mailbox", *place.flags())
    assert (resumed.out, suspended()) == ("connection.jervis.dev/mailbox resumed\n", False)


def test_a_wish_is_said_once_until_it_is_done(place: site.Site, capsys: pytest.CaptureFixture[str]) -> None:
    place.connection("mailbox", SPEC, status())

    def asked() -> str:
        return str(place.get("mailbox", "connections")["metadata"]["annotations"][labels.RESYNC])

    first = site.call(capsys, "resync", "mailbox", *place.flags())
    assert first.out.endswith(" will be polled now: its source is read from its beginning\n")
    wish = asked()
    assert "was asked for that already" in site.call(capsys, "resync", "mailbox", *place.flags()).out
    assert asked() == wish
    assert "its source is being read" in site.call(capsys, "connections", *place.flags()).out
    place.status("mailbox", {"lastHandledResync": wish}, "connections")
    assert "is being read" not in site.call(capsys, "connections", *place.flags()).out
    site.call(capsys, "resync", "connections/mailbox", *place.flags())
    assert asked() > wish


def test_the_shell_completes_names(place: site.Site) -> None:
    for name in ("mailbox", "mails", "wiki"):
        place.connection(name, SPEC, None)
    place.task("mail-1")
    for verb in ("connections", "pause", "resync"):
        assert complete.lines([verb, *place.flags(), "mail"]) == ["mailbox", "mails", ":4"]


def test_those_who_act_on_tasks_are_sent_for_another_role(place: site.Site, capsys: pytest.CaptureFixture[str]) -> None:
    place.connection("mailbox", SPEC, status())
    alice = place.flags(place.user("alice"))
    test_acting.grant(place, "alice", "create", "patch")
    refused = site.call(capsys, "pause", "mailbox", *alice)
    assert (refused.code, "or admin (to act)" in refused.err) == (1, True), refused.err
    assert site.call(capsys, "connections", *alice).code == 0


def test_what_is_retried(place: site.Site, capsys: pytest.CaptureFixture[str]) -> None:
    place.connection("mailbox", SPEC, status())
    none = site.call(capsys, "retry", "connection/mailbox", *place.flags())
    assert (none.code, "has no failed items" in none.err) == (1, True)
    place.status("mailbox", status(failure("one", "Resync")), "connections")
    unread = site.call(capsys, "retry", "connection/mailbox", *place.flags())
    assert (unread.code, "kubectl jervis resync mailbox" in unread.err) == (1, True)
    place.status("mailbox", status(failure("one", "Resync"), failure("two", "Retry")), "connections")
    done = site.call(capsys, "retry", "connection/mailbox", *place.flags())
    assert done.out.endswith(" will be polled now: its failed items are tried again\n"), done.err
    assert labels.RETRY in place.get("mailbox", "connections")["metadata"]["annotations"]
    both = site.call(capsys, "retry", "connection/mailbox", "mail-7", *place.flags())
    assert (both.code, "exclude each other" in both.err) == (1, True)
    place.status("mailbox", status(conditions=[ready("False", "PollingNotEnabled")]), "connections")
    assert "is not polled" in site.call(capsys, "resync", "mailbox", *place.flags()).err
    assert "no PendingTask" not in site.call(capsys, "retry", "mailbox", *place.flags()).out, "a plain name is a task's"


def test_what_is_kept_back_is_confirmed_by_the_time_that_was_seen(
    place: site.Site, capsys: pytest.CaptureFixture[str]
) -> None:
    place.connection("mailbox", SPEC, status())
    seen = ago(minutes=1)
    none = site.call(capsys, "resync", "mailbox", "--confirm", seen, *place.flags())
    assert (none.code, "are kept back" in none.err) == (1, True)
    held = {**ready("False", "TooManyMissing", "8 of 20 items."), "type": "DeletionsApplied"}
    place.status("mailbox", status(conditions=[ready("True", "Polled"), held]), "connections")
    wrong = site.call(capsys, "resync", "mailbox", "--confirm", "yes", *place.flags())
    assert (wrong.code, "is no time" in wrong.err) == (1, True), wrong
    done = site.call(capsys, "resync", "mailbox", "--confirm", seen, *place.flags())
    assert done.out.endswith(f" will be swept now: what was missing at {seen} leaves\n"), done.err
    annotations = place.get("mailbox", "connections")["metadata"]["annotations"]
    assert (annotations[labels.CONFIRM_DELETIONS], labels.RESYNC in annotations) == (seen, False)
    assert "already" in site.call(capsys, "resync", "mailbox", "--confirm", seen, *place.flags()).out
