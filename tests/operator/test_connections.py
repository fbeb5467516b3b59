"""Connections: Secrets that come late; issues and repositories that are polled from a real Gitea and a git daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crds import given_graph
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.process import Start
from tests.operator.test_polling import Begin, condition, due, sources, status
from tests.sources import gitea
from tests.sources.git import making
from tests.sources.git.making import Repository
from tests.sources.git.test_repository import log
from tests.waiting import until

__all__ = ["sources"]

pytestmark = [pytest.mark.apiserver, pytest.mark.services]


def reason(space: Space, type_: str) -> str:
    return space.condition("mailbox", type_, "connections")["reason"]


def test_what_is_missing_is_said_until_it_is_there(space: Space, start: Start) -> None:
    spec: dict[str, Any] = {
        "type": "Email", "clientId": "acme", "url": "imaps://mail.example.org", "secretRef": {"name": "mailbox"},
    }  # fmt: skip
    with start():
        space.create("connections", "Connection", "mailbox", spec)
        until(lambda: reason(space, "Ready") == "SecretNotFound", "the Secret is missed")
        space.secret("mailbox", username="ada")
        until(lambda: reason(space, "CredentialsValid") == "SecretKeyMissing", "the password is missed")
        space.secret("mailbox", password="secret")
        until(lambda: reason(space, "CredentialsValid") == "NotTried", "nothing is missed")
        assert "secret" not in str(space.get("mailbox", "connections")["status"])


def test_the_login_of_the_mail_server_has_a_condition_of_its_own(space: Space, start: Start) -> None:
    smtp = {"url": "smtps://mail.example.org", "from": "a@example.org", "secretRef": {"name": "sender"}}
    spec: dict[str, Any] = {
        "type": "Email", "clientId": "acme", "url": "imaps://mail.example.org", "secretRef": {"name": "mailbox"},
        "smtp": smtp,
    }  # fmt: skip
    with start():
        space.secret("mailbox", username="ada", password="secret")
        space.create("connections", "Connection", "mailbox", spec)
        until(lambda: reason(space, "SendingReady") == "SecretNotFound", "the Secret is missed")
        assert reason(space, "CredentialsValid") == "NotTried", "the mailbox is read all the same"
        # The object is looked at again.
        space.edit("mailbox", {"smtp": {**smtp, "secretRef": {"name": "mailbox"}}}, "connections")
        until(lambda: reason(space, "SendingReady") == "NotTried", "nothing is missed")
        space.edit("mailbox", {"smtp": None}, "connections")
        until(lambda: reason(space, "SendingReady") == "", "nothing is sent any more")


def test_an_object_that_cannot_be_parsed_says_so_and_is_served_once_it_can(space: Space, start: Start) -> None:
    spec: dict[str, Any] = {
        "type": "Git", "clientId": "acme", "url": "https://example.org/a.git",
        "filter": {"since": "9999-12-31T00:00:00Z"},
    }  # fmt: skip
    with start():
        space.create("connections", "Connection", "mailbox", spec)
        until(lambda: reason(space, "Ready") == "Unreadable", "it says so")
        (condition,) = space.get("mailbox", "connections")["status"]["conditions"]
        assert condition["status"] == "False"
        assert condition["message"].startswith("Field: spec.filter.since. ")
        version = space.get("mailbox", "connections")["metadata"]["resourceVersion"]
        space.create("connections", "Connection", "other", {**spec, "filter": None})
        until(lambda: "status" in space.get("other", "connections"), "others are served")
        assert space.get("mailbox", "connections")["metadata"]["resourceVersion"] == version, "it is written once"
        space.edit("mailbox", {"filter": None}, "connections")
        until(lambda: reason(space, "Ready") == "PollingNotEnabled", "it is served now")
        space.edit("mailbox", {"filter": {"since": "9999-12-31T00:00:00Z"}}, "connections")
        until(lambda: reason(space, "Ready") == "Unreadable", "and no more")


@pytest.fixture(scope="module")
def server() -> Iterator[gitea.Gitea]:
    with gitea.running() as one:
        yield one


def test_an_issue_is_a_task_with_its_facts_and_so_is_each_change_of_it(
    space: Space, start: Start, sources: Begin, server: gitea.Gitea, knowledge: Knowledge
) -> None:
    repository = server.repository("shop")
    number = server.issue(repository, "The pump leaks", "Fixes #7, see src/pump.py. " + "x" * 40_000, assignees=["ada"])
    server.issue(repository, "Another")
    server.ask("POST", f"repos/{repository}/issues/{number}/assets", files={"attachment": ("a.txt", b"error 7")})
    space.secret("forge", token=server.token)
    said = {"type": "Gitea", "clientId": "acme", "url": f"{server.url}/{repository}", "secretRef": {"name": "forge"}}

    def of(urn: str) -> list[dict[str, Any]]:
        return [one for one in space.every() if one["spec"]["sourceUrn"] == urn]

    with start(SOURCES=True), sources(SWEEP_SECONDS=2):
        space.create("connections", "Connection", "issues", {**said, "pollInterval": "10s"})
        until(lambda: len(space.every()) >= 2, "each issue is a task")
        until(lambda: condition(space, "Ready", "issues") == ("True", "Polled"), "the Connection says so")
        assert condition(space, "CredentialsValid", "issues") == ("True", "Accepted")
        assert f"{repository} issues: " in status(space, "issues")["cursor"]
        task = of(f"gitea::{repository}#{number}")[0]
        assert task["metadata"]["annotations"]["jervis.dev/title"] == f"#{number} The pump leaks"
        assert task["spec"]["type"] == "BugTrackerProcessing"
        assert task["spec"]["contentRef"]["bytes"] > 40_000
        [file] = task["spec"]["attachments"]
        assert (file["name"], knowledge.stored[file["contentRef"]["key"]]) == ("a.txt", b"error 7")
        found = given_graph.Facts.model_validate(task["spec"]["facts"])
        assert {(one.type, one.target) for one in found.relationships} == {
            ("reported_by", "user:ada"),
            ("assigned_to", "user:ada"),
            ("fixes", f"document::gitea::{repository}#7"),
            ("mentions_file", "file:src/pump.py"),
        }
        server.comment(repository, number, "Since Monday.")
        until(lambda: len(of(f"gitea::{repository}#{number}")) >= 2, "a comment makes it new")


def test_a_token_that_is_refused_and_a_repository_that_is_none(
    space: Space, start: Start, sources: Begin, server: gitea.Gitea, knowledge: Knowledge
) -> None:
    repository = server.repository("closed")
    for name, token in (("good", server.token), ("bad", "0" * 40)):
        space.secret(name, token=token)
    said = {"type": "Gitea", "clientId": "acme", "pollInterval": "10s"}
    with start(SOURCES=True), sources():
        space.create(
            "connections", "Connection", "refused",
            {**said, "url": f"{server.url}/{repository}", "secretRef": {"name": "bad"}},
        )  # fmt: skip
        space.create(
            "connections",
            "Connection",
            "none",
            {**said, "url": f"{server.url}/ada/none", "secretRef": {"name": "good"}},
        )
        until(lambda: condition(space, "Ready", "refused") == ("False", "CredentialsRejected"), "it says so")
        assert condition(space, "CredentialsValid", "refused") == ("False", "CredentialsRejected")
        until(lambda: condition(space, "Ready", "none") == ("False", "Misconfigured"), "it says so")
        assert "Correct the address or the filter" in space.condition("none", "Ready", "connections")["message"]


def test_a_repository_is_cloned_read_and_reported(
    space: Space, start: Start, sources: Begin, knowledge: Knowledge, tmp_path: Path, database: object
) -> None:
    made = Repository(tmp_path / "srv" / "acme" / "storage.git")
    made.many(70)
    spec = {"type": "Git", "clientId": "acme", "projectId": "storage", "pollInterval": "10s"}
    with (
        making.daemon(tmp_path / "srv") as url,
        start(SOURCES=True),
        sources(WORKSPACE=tmp_path / "clones") as process_,
    ):
        space.create("connections", "Connection", "gone", {**spec, "url": f"{url}/acme/other.git"})
        space.create("connections", "Connection", "code", {**spec, "url": f"{url}/acme/storage.git"})
        until(lambda: knowledge.commits == log(made), "every commit once, oldest first")
        until(lambda: condition(space, "WorkspaceReady", "code") == ("True", "Cloned"), "the clone is there")
        until(lambda: condition(space, "Ready", "code") == ("True", "Polled"), "it is polled")
        assert status(space, "code")["workspace"] == {"state": "Ready", "retryCount": 0, "lastError": ""}
        assert status(space, "code")["cursor"] == f"main: {made.sha('main')[:12]}"
        until(lambda: condition(space, "WorkspaceReady", "gone") == ("False", "CloneFailed"), "the other has none")
        assert condition(space, "Ready", "gone") == ("False", "Misconfigured")
        said = status(space, "gone")["workspace"]
        assert (said["state"], said["retryCount"]) == ("CloneFailed", 1)
        assert "no such repository" in said["lastError"]
        [task] = space.every()
        assert (task["spec"]["type"], task["spec"]["sourceUrn"]) == (
            "GitProcessing", "git::acme/storage@main:overview",
        )  # fmt: skip
        assert process_.metric("jervis_sources_commits_total") == 70
        made.commit("One more", {"a": b"1"})
        until(due(database, lambda: knowledge.commits == log(made)), "what is new, and nothing again")
