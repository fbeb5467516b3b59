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


def test_each_is_a_line_with_its_next_step(place: site.Site, call: site.Call) -> None:
    assert call("connections").out == "No Connections are in this namespace.\n"
    place.connection("fresh", SPEC, None)
    place.connection("well", SPEC, status(waitingSince=ago(minutes=50)))
    place.connection("paused", {**SPEC, "suspend": True}, status(conditions=[ready("False", "Suspended")]))
    place.connection("refused", SPEC, status(conditions=[ready("False", "CredentialsRejected", "It says no.")]))
    place.connection("failed", SPEC, status(failure("one", "Retry"), failure("two", "Resync")))
    lines = shown(call("connections"))
    seen = ["20m", "-", "3", "40"]
    assert lines == {
        "NAME": ["TYPE", "READY", "REASON", "SUCCEEDED", "LAG", "NEW", "INDEXED", "FAILED", "NEXT"],
        "failed": ["Email", "True", "Polled", *seen, "2", "kubectl jervis retry connection/failed"],
        "fresh": ["Email", "Unknown", "NotSeenYet", "-", "-", "0", "0", "0", "-"],
        "paused": ["Email", "False", "Suspended", *seen, "0", "kubectl jervis resume connection/paused"],
        "refused": ["Email", "False", "CredentialsRejected", *seen, "0", "kubectl jervis connections refused"],
        "well": ["Email", "True", "Polled", "20m", "50m", "3", "40", "0", "-"],
    }
    listed = call("connections", "-o", "json").json
    assert next((one["kind"], one["metadata"]["name"]) for one in listed["items"]) == ("Connection", "failed")


def test_one_says_why_its_items_failed(place: site.Site, call: site.Call) -> None:
    later = f"{datetime.now(UTC) + timedelta(minutes=5, seconds=30):%Y-%m-%dT%H:%M:%SZ}"
    failures = failure("one\x1b[2J", "Resync"), failure("two", "Retry", retryAt=later)
    lacking = {"title": "Plan", "sourceUrn": "email::plan", "foundAt": ago(minutes=10), "leftOut": ["a.bin is large"]}
    known = status(*failures, cursor="INBOX: UID 7 of 9", waitingSince=ago(minutes=50), latest=[lacking])
    place.connection("mailbox", SPEC, known)
    said = call("connections", "mailbox")
    lines = shown(said)
    assert "3 without a task, 40 with one, 2 failed; the oldest waits for 50m" in said.out
    assert "Failed items, the last 2 of 2" in said.out
    assert "The last 1 items" in said.out
    assert ["Plan", "10m", "email::plan"] in [line.split() for line in said.out.splitlines()]
    assert lines["Plan"] == ["a.bin is large"]
    assert lines["two"][:2] == ["30m", lines["two"][1]]
    assert lines["two"][1].startswith("itself, in 5m")
    assert lines["one\N{REPLACEMENT CHARACTER}[2J"][1] == "resync"
    assert lines["Next:"] == ["kubectl jervis resync mailbox"]
    assert call("connections", "connection/mailbox", "-o", "json").json["kind"] == "Connection"
    call("connections", "nothing").refused()


def test_pause_and_resume(place: site.Site, call: site.Call) -> None:
    place.connection("mailbox", SPEC, status())

    def suspended() -> bool:
        return bool(place.get("mailbox", "connections")["spec"].get("suspend", False))

    dry = call("pause", "mailbox", "--dry-run")
    assert (dry.out, suspended()) == ("connection.jervis.dev/mailbox paused (server dry run)\n", False)
    assert call("pause", "mailbox").out == "connection.jervis.dev/mailbox paused\n"
    assert suspended()
    assert "was paused already" in call("suspend", "conn/mailbox").out
    call("resync", "mailbox").refused("kubectl jervis resume connection/mailbox")
    resumed = call("resume", "connection/mailbox")
    assert (resumed.out, suspended()) == ("connection.jervis.dev/mailbox resumed\n", False)


def test_a_wish_is_said_once_until_it_is_done(place: site.Site, call: site.Call) -> None:
    place.connection("mailbox", SPEC, status())

    def asked() -> str:
        return str(place.get("mailbox", "connections")["metadata"]["annotations"][labels.RESYNC])

    first = call("resync", "mailbox")
    assert first.out.endswith(" will be polled now: its source is read from its beginning\n")
    wish = asked()
    assert "was asked for that already" in call("resync", "mailbox").out
    assert asked() == wish
    assert "its source is being read" in call("connections").out
    place.status("mailbox", {"lastHandledResync": wish}, "connections")
    assert "is being read" not in call("connections").out
    call("resync", "connections/mailbox")
    assert asked() > wish


def test_the_shell_completes_names(place: site.Site) -> None:
    for name in ("mailbox", "mails", "wiki"):
        place.connection(name, SPEC, None)
    place.task("mail-1")
    for verb in ("connections", "pause", "resync"):
        assert complete.lines([verb, *place.flags(), "mail"]) == ["mailbox", "mails", ":4"]


def test_those_who_act_on_tasks_are_sent_for_another_role(place: site.Site, call: site.Call) -> None:
    place.connection("mailbox", SPEC, status())
    alice = place.flags(place.user("alice"))
    test_acting.grant(place, "alice", "create", "patch")
    call("pause", "mailbox", flags=alice).refused("or admin (to act)")
    call("connections", flags=alice).succeeded()


def test_what_is_retried(place: site.Site, call: site.Call) -> None:
    place.connection("mailbox", SPEC, status())
    call("retry", "connection/mailbox").refused("has no failed items")
    place.status("mailbox", status(failure("one", "Resync")), "connections")
    call("retry", "connection/mailbox").refused("kubectl jervis resync mailbox")
    place.status("mailbox", status(failure("one", "Resync"), failure("two", "Retry")), "connections")
    done = call("retry", "connection/mailbox")
    assert done.out.endswith(" will be polled now: its failed items are tried again\n"), done.err
    assert labels.RETRY in place.get("mailbox", "connections")["metadata"]["annotations"]
    call("retry", "connection/mailbox", "mail-7").refused("exclude each other")
    place.status("mailbox", status(conditions=[ready("False", "PollingNotEnabled")]), "connections")
    assert "is not polled" in call("resync", "mailbox").err
    assert "no PendingTask" not in call("retry", "mailbox").out, "a plain name is a task's"


def test_what_is_kept_back_is_confirmed_by_the_time_that_was_seen(place: site.Site, call: site.Call) -> None:
    place.connection("mailbox", SPEC, status())
    seen = ago(minutes=1)
    call("resync", "mailbox", "--confirm", seen).refused("are kept back")
    held = {**ready("False", "TooManyMissing", "8 of 20 items."), "type": "DeletionsApplied"}
    place.status("mailbox", status(conditions=[ready("True", "Polled"), held]), "connections")
    call("resync", "mailbox", "--confirm", "yes").refused("is no time")
    done = call("resync", "mailbox", "--confirm", seen)
    assert done.out.endswith(f" will be swept now: what was missing at {seen} leaves\n"), done.err
    annotations = place.get("mailbox", "connections")["metadata"]["annotations"]
    assert (annotations[labels.CONFIRM_DELETIONS], labels.RESYNC in annotations) == (seen, False)
    assert "already" in call("resync", "mailbox", "--confirm", seen).out
