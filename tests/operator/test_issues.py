"""Issues that are polled: operator, sources process, apiserver, MongoDB's wire and a real Gitea together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from crds import facts
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.test_polling import Begin, Start, condition, sources, status
from tests.sources import gitea
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
__all__ = ["sources"]


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
    secrets: Any = client.CoreV1Api(space.api)
    body = {"metadata": {"name": "forge"}, "stringData": {"token": server.token}}
    secrets.create_namespaced_secret(space.name, body)
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
        found = facts.Facts.model_validate(task["spec"]["facts"])
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
    secrets: Any = client.CoreV1Api(space.api)
    for name, token in (("good", server.token), ("bad", "0" * 40)):
        secrets.create_namespaced_secret(space.name, {"metadata": {"name": name}, "stringData": {"token": token}})
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
        [ready] = [one for one in status(space, "none")["conditions"] if one["type"] == "Ready"]
        assert "Correct the address or the filter" in ready["message"]
