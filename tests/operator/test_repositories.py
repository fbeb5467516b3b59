"""Repositories that are polled: operator, sources process, apiserver, MongoDB's wire and a git daemon together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.test_polling import Begin, Start, condition, due, status
from tests.operator.test_polling import sources as sources  # a fixture
from tests.sources.git import making
from tests.sources.git.making import Repository
from tests.sources.git.test_repository import log
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]


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
