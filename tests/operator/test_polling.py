"""Mailboxes that are polled: operator, sources process, apiserver, MongoDB's wire and a real Dovecot together."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controllers.connection import polling
from crds import labels
from sources.core import assignments
from tests.operator.conftest import Space, database_name
from tests.operator.knowledge import Knowledge
from tests.operator.process import Start
from tests.sources import dovecot, process
from tests.sources.process import Sources
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
CLAIM_SECONDS = 4
Begin = Callable[..., AbstractContextManager[Sources]]


@pytest.fixture(scope="module")
def mailserver() -> Iterator[dovecot.Dovecot]:
    with dovecot.running() as place:
        yield place


@pytest.fixture
def sources(kubeconfig: Path, space: Space, knowledge: Knowledge, tmp_path: Path, mongodb_uri: str) -> Begin:
    """Start a sources process on this namespace's database; settings can be overridden."""
    known: dict[str, object] = {
        "KUBECONFIG": kubeconfig,
        "KB_URL": knowledge.url,
        "MONGODB_URI": mongodb_uri,
        "MONGODB_DATABASE": database_name(space),
        "CLAIM_SECONDS": CLAIM_SECONDS,
    }
    return lambda name="sources", **settings: process.running(tmp_path / f"{name}.log", **{**known, **settings})


def connect(space: Space, url: str, user: str, name: str = "mailbox", **spec: Any) -> None:
    """A Connection with its Secret."""
    space.secret(name, username=user, password=dovecot.PASSWORD)
    said = {"type": "Email", "clientId": "acme", "url": url, "secretRef": {"name": name}, "pollInterval": "10s"}
    space.create("connections", "Connection", name, {**said, **spec})


def status(space: Space, name: str = "mailbox") -> dict[str, Any]:
    found: dict[str, Any] = space.get(name, "connections").get("status", {})
    return found


def condition(space: Space, type_: str, name: str = "mailbox") -> tuple[str, str]:
    found = space.condition(name, type_, "connections")
    return found["status"], found["reason"]


def due(database: Any, condition: Callable[[], bool]) -> Callable[[], bool]:
    """The condition, with every Connection due until it holds: the ten seconds of an interval are waited for once, in
    the test of mails that become tasks."""

    def met() -> bool:
        database[assignments.CONNECTIONS].update_many({}, {"$set": {"pollAt": datetime(1970, 1, 1, tzinfo=UTC)}})
        return condition()

    return met


def titles(space: Space) -> list[str]:
    return sorted(one["metadata"]["annotations"]["jervis.dev/title"] for one in space.every())


def test_mails_become_tasks_and_the_status_says_so(
    space: Space, start: Start, sources: Begin, mailserver: dovecot.Dovecot, knowledge: Knowledge
) -> None:
    picture = base64.b64encode(b"\x89PNG a picture").decode()
    attached = (
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nASSIGNED See it.\r\n"
        "--b\r\nContent-Type: image/png; name=rack.png\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        f"{picture}\r\n--b--\r\n"
    )
    mailserver.put(
        dovecot.mail(1, "INFO"), dovecot.mail(2, "x" * 40_000), dovecot.mail(3, "", more=attached), user="one"
    )
    with start(SOURCES=True), sources() as process_:
        connect(space, mailserver.url, "one")
        until(lambda: len(space.every()) == 3, "each mail is a task")
        until(lambda: condition(space, "Ready") == ("True", "Polled"), "the Connection says that it is polled")
        assert condition(space, "CredentialsValid") == ("True", "Accepted")
        until(lambda: status(space).get("items") == {"new": 0, "indexing": 0, "indexed": 3, "failed": 0}, "counted")
        assert status(space)["cursor"].startswith("INBOX: UID 3 of ")
        assert status(space)["lastSuccessTime"] <= status(space)["lastPollTime"]
        by_title = {one["metadata"]["annotations"]["jervis.dev/title"]: one for one in space.every()}
        large, pictured = by_title["Mail 2"]["spec"], by_title["Mail 3"]["spec"]
        assert ("content" in large, large["contentRef"]["bytes"] > 40_000) == (False, True)
        [file] = pictured["attachments"]
        assert (file["name"], knowledge.stored[file["contentRef"]["key"]]) == ("rack.png", b"\x89PNG a picture")
        assert {one["spec"]["sourceUrn"] for one in space.every()} == {f"email::{n}@example.com" for n in (1, 2, 3)}
        mailserver.put(dovecot.mail(4), dovecot.mail(3, "", more=attached), user="one")
        until(lambda: titles(space) == ["Mail 1", "Mail 2", "Mail 3", "Mail 4"], "one more, and none twice")
        until(lambda: process_.metric("jervis_sources_items_total") >= 8, "all are counted")
        space.edit("mailbox", {"suspend": True}, "connections")
        until(lambda: condition(space, "Ready") == ("False", "Suspended"), "it rests")
        polls = process_.metric("jervis_sources_polls_total")
        mailserver.put(dovecot.mail(5), user="one")
        space.edit("mailbox", {"suspend": False}, "connections")
        until(lambda: "Mail 5" in titles(space), "it goes on at once")
        assert process_.metric("jervis_sources_polls_total") == polls + 1


def test_no_more_tasks_than_the_connection_allows(
    space: Space, start: Start, sources: Begin, mailserver: dovecot.Dovecot, knowledge: Knowledge, database: Any
) -> None:
    mailserver.put(*(dovecot.mail(number, "ASSIGNED") for number in range(6)), user="window")
    knowledge.gate.clear()
    with start(SOURCES=True), sources():
        connect(space, mailserver.url, "window", maxInFlightTasks=2)
        until(lambda: status(space).get("items", {}).get("indexed") == 2, "two are begun")
        assert status(space)["items"] == {"new": 4, "indexing": 0, "indexed": 2, "failed": 0}
        assert len(space.every()) == 2
        for one in space.every():
            space.delete(one["metadata"]["name"])
        knowledge.gate.set()
        until(due(database, lambda: status(space)["items"]["indexed"] == 4), "two more have room")


def test_a_source_that_fails_says_why_and_is_polled_again(
    space: Space, start: Start, sources: Begin, mailserver: dovecot.Dovecot, database: Any
) -> None:
    mailserver.put(dovecot.mail(1), user="wrong")
    with start(SOURCES=True), sources():
        connect(space, mailserver.url, "wrong")
        until(lambda: len(space.every()) == 1, "it is polled")
        connect(space, mailserver.url, "nobody", "other", filter={"include": ["Nowhere"]})
        until(lambda: condition(space, "Ready", "other") == ("False", "Misconfigured"), "the folder is missed")
        assert condition(space, "CredentialsValid", "other")[0] != "False"
        space.secret("other", password="no")
        refused = ("False", "CredentialsRejected")
        until(due(database, lambda: condition(space, "CredentialsValid", "other") == refused), "refused")
        assert condition(space, "Ready", "other") == refused
        assert dovecot.PASSWORD not in str(status(space, "other"))
        space.secret("other", password=dovecot.PASSWORD)
        space.edit("other", {"filter": None}, "connections")
        until(due(database, lambda: condition(space, "Ready", "other") == ("True", "Polled")), "it is polled again")
        assert condition(space, "Ready") == ("True", "Polled"), "the other one was not disturbed"


def test_two_processes_and_kills_make_no_task_twice(
    space: Space, start: Start, sources: Begin, mailserver: dovecot.Dovecot, knowledge: Knowledge
) -> None:
    mailserver.put(*(dovecot.mail(number, "INFO") for number in range(100)), user="killed")
    knowledge.gate.clear()
    with start(SOURCES=True):
        with sources("first") as first:
            connect(space, mailserver.url, "killed", maxInFlightTasks=50)
            until(lambda: len(space.every()) > 10, "some are made")
            first.kill()
        assert len(space.every()) <= 50
        knowledge.gate.set()
        space.edit("mailbox", {"maxInFlightTasks": 1000}, "connections")
        with sources("second"), sources("third"):
            until(lambda: len(space.every()) == 100, "the others are made once the claim of the first has ended")
        assert len({one["spec"]["sourceUrn"] for one in space.every()}) == 100


def test_a_connection_that_cannot_be_parsed_rests_and_keeps_its_place(
    space: Space, start: Start, sources: Begin, mailserver: dovecot.Dovecot, database: Any
) -> None:
    mailserver.put(dovecot.mail(1), user="unread")
    with start(SOURCES=True), sources():
        connect(space, mailserver.url, "unread")
        until(lambda: condition(space, "Ready") == ("True", "Polled"), "it is polled")
        [before] = database[assignments.CONNECTIONS].find()
        space.edit("mailbox", {"filter": {"since": "9999-12-31T00:00:00Z"}}, "connections")
        until(lambda: not database[assignments.CONNECTIONS].find_one({"wanted": True}), "it rests")
        time.sleep(polling.EVERY_SECONDS + 1)
        [after] = database[assignments.CONNECTIONS].find()
        assert after["cursor"] == before["cursor"]
        assert database[assignments.ITEMS].count_documents({}) == 1
        space.edit("mailbox", {"filter": None}, "connections")
        until(lambda: condition(space, "Ready") == ("True", "Polled"), "it goes on")


def test_a_deleted_connection_is_forgotten(
    space: Space, start: Start, sources: Begin, mailserver: dovecot.Dovecot, database: Any
) -> None:
    mailserver.put(dovecot.mail(1), user="gone")
    with start(SOURCES=True), sources():
        connect(space, mailserver.url, "gone")
        until(lambda: len(space.every()) == 1, "it is polled")
        space.delete("mailbox", "connections")
        until(lambda: not list(database[assignments.CONNECTIONS].find()), "its cursor goes")
        assert list(database[assignments.ITEMS].find()) == []
        assert len(space.every()) == 1, "its tasks stay"


def test_a_connection_of_a_namespace_that_is_gone_is_found_to_be_absent(
    space: Space, start: Start, database: Any
) -> None:
    long_ago = {"servedAt": datetime.now(UTC) - timedelta(hours=1), "wanted": True, "name": "mailbox"}
    rows = database[assignments.CONNECTIONS]
    rows.insert_one({"_id": "uid-gone", "namespace": f"{space.name}-gone", **long_ago})
    connect(space, "imap://127.0.0.1:1", "served")
    with start(SOURCES=True):
        until(lambda: rows.find_one({"_id": "uid-gone", "absent": True, "wanted": False}), "it is left over")
        uid = space.get("mailbox", "connections")["metadata"]["uid"]
        until(lambda: rows.find_one({"_id": uid, "servedAt": {"$ne": None}}), "the other one is served")


def test_a_mail_that_is_deleted_takes_its_task_and_its_document_along(
    space: Space, start: Start, sources: Begin, mailserver: dovecot.Dovecot, knowledge: Knowledge
) -> None:
    texts = ("ASK", "INFO", "INFO", *["INFO"] * 9)
    mailserver.put(*(dovecot.mail(number, text) for number, text in enumerate(texts)), user="left")
    mailserver.put(dovecot.mail(99, "INFO"), folder="Old", user="left")
    with start(SOURCES=True), sources(SWEEP_SECONDS=2) as polling:
        connect(space, mailserver.url, "left", rateLimit={"requestsPerMinute": 6000, "burst": 1000})
        until(lambda: condition(space, "DeletionsApplied") == ("True", "Swept"), "swept")
        until(lambda: len(knowledge.requests) == 13, "all are qualified")
        with mailserver.mailbox("left") as mail:
            mail.select("INBOX")
            mail.copy("3", "Old")
            mail.store("1:3", "+FLAGS", "\\Deleted")
            mail.expunge()
        until(lambda: sorted(knowledge.forgotten) == [f"email::{n}@example.com" for n in (0, 1)], "documents go")
        assert "Mail 0" not in titles(space), "it was not begun"
        assert "Mail 1" in titles(space), "it was done: its record stays"
        until(lambda: polling.metric("jervis_sources_deletions_total") >= 4, "2 missing, 2 removed")
        with mailserver.mailbox("left") as mail:
            mail.select("INBOX")
            mail.store("1:*", "+FLAGS", "\\Deleted")
            mail.expunge()
        until(lambda: condition(space, "DeletionsApplied") == ("False", "TooManyMissing"), "the brake")
        assert len(knowledge.forgotten) == 2
        text = space.condition("mailbox", "DeletionsApplied", "connections")["message"]
        wish(space, labels.CONFIRM_DELETIONS, text.rpartition(" ")[2])
        until(lambda: len(knowledge.forgotten) == 11, "a person says so")
        mailserver.put(dovecot.mail(1, "INFO"), user="left")
        until(lambda: titles(space).count("Mail 1") == 2, "it is back, and a task again")


def wish(space: Space, annotation: str, value: str) -> None:
    space.mark("mailbox", {"annotations": {annotation: value}}, "connections")


def test_failed_items_are_named_and_what_people_ask_for_is_done_once(
    space: Space, start: Start, sources: Begin, mailserver: dovecot.Dovecot, database: Any
) -> None:
    space.quota("pendingtasks.jervis.dev", 0)
    mailserver.put(b"\r\n \r\n", dovecot.mail(1), user="wished")
    began = time.monotonic()
    with start(SOURCES=True) as operator, sources():
        connect(space, mailserver.url, "wished", pollInterval="1h")
        until(lambda: status(space).get("items", {}).get("failed") == 2, "both fail")
        refused, unread = sorted(status(space)["failures"], key=lambda one: one["title"], reverse=True)
        assert (refused["title"], refused["remedy"], "retryAt" in refused) == ("Mail 1", "Retry", True)
        assert "exceeded quota" in refused["reason"]
        assert (unread["title"][:6], unread["remedy"], "retryAt" in unread) == ("INBOX/", "Retry", True)
        assert unread["reason"].startswith("This is no usable mail: ")
        space.core.delete_namespaced_resource_quota("most", space.name)
        wish(space, labels.RETRY, "once")
        until(lambda: status(space).get("lastHandledRetry") == "once", "it is tried again")
        [task] = space.every()
        assert [one["title"][:6] for one in status(space)["failures"]] == ["INBOX/"], "it is no mail this time either"
        assert [one["title"] for one in status(space)["latest"]] == ["Mail 1"]
        assert status(space)["items"] == {"new": 0, "indexing": 0, "indexed": 1, "failed": 1}
        space.delete(task["metadata"]["name"])
        [before] = database[assignments.ITEMS].find({"state": "Failed"})
        wish(space, labels.RESYNC, "all of it")
        until(lambda: status(space).get("lastHandledResync") == "all of it", "the source is read again")
        [after] = database[assignments.ITEMS].find({"state": "Failed"})
        assert after["found"] > before["found"], "what could not be read was read once more"
        assert space.every() == [], "what is known makes no second task"
        exported = operator.get("/metrics").text
        assert 'jervis_operator_connections{ready="true",reason="Polled",type="Email"} 1.0' in exported
        assert 'jervis_operator_connection_items{state="failed",type="Email"} 1.0' in exported
        age = operator.metric("jervis_operator_connection_success_age_seconds")
        assert 0 <= age < 2 + time.monotonic() - began, "it was polled since the test began"
        assert operator.metric("jervis_operator_connection_lag_seconds") == 0
        polled = status(space)["lastPollTime"]
        mailserver.put(dovecot.mail(2), user="wished")
        wish(space, labels.RETRY, "twice")
        until(lambda: titles(space) == ["Mail 2"], "another wish is another poll")
        assert status(space)["lastPollTime"] >= polled
