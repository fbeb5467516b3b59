"""What the demonstration connects: objects that the apiserver takes, and only what the release may read and reach; data
services in a cluster of yours are reached from the release alone."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy
from pathlib import Path
from urllib.parse import urlsplit

from codegraph.answer import index
from codegraph.parse import extraction
from codegraph.resolve import calls, project, resolution
from crds import connection
from hack.cluster import layout, lifecycle, process
from hack.demo import connected, planted, servers, services
from tests.chart import policies
from tests.chart.policies import End

THERE = servers.Servers("198.18.0.2", Path("/nowhere"), "word", "token")


def test_the_release_may_read_the_secrets_and_reach_the_ports_of_all_connections() -> None:
    made = connected.manifests(THERE, "demo")
    secrets = {one["metadata"]["name"] for one in made if one["kind"] == "Secret"}
    specs = [connection.Spec.model_validate(one["spec"]) for one in made if one["kind"] == "Connection"]
    values = connected.values()
    assert {one.secret_ref.name for one in specs if one.secret_ref} == secrets
    assert set(values["rbac"]["connectionSecrets"]) == secrets
    assert {urlsplit(one.url).port for one in specs} <= set(values["networkPolicy"]["sources"]["ports"])
    assert {urlsplit(one.url).scheme for one in specs} == {"imaps", "https"}, "no password travels readable"


def test_everything_that_is_put_has_a_story() -> None:
    stories = planted.stories()
    assert len(stories) == len(planted.MAILS) + len(planted.ISSUES) + 1
    assert planted.urn(1) in stories
    assert planted.MAILS[0].urn == f"email::{planted.ON_CALL}"


def test_the_mail_answers_first_and_the_edited_issue_then() -> None:
    said = message_from_bytes(planted.MAILS[0].raw(datetime(2026, 11, 26, tzinfo=UTC)), policy=policy.default)
    assert said["Message-ID"] == f"<{planted.ON_CALL}>"
    assert planted.FIRST in str(said["From"])
    assert planted.FIRST in planted.MAILS[0].text
    others = [*(mail.text for mail in planted.MAILS[1:]), *(issue.body for issue in planted.ISSUES)]
    assert not any(planted.FIRST in text or planted.THEN in text for text in others)
    assert planted.THEN in planted.CHANGED


def test_the_planted_code_has_the_call_that_is_asked_about() -> None:
    files = {path: extraction.extract(path, body.encode(), "python", calls.facts)
             for path, body, _ in planted.COMMITS if path.endswith(".py")}  # fmt: skip
    known = index.Index(resolution.resolve(files, {}), planted.BRANCH, "demo")
    [edge] = known.callers[known.find(planted.SYMBOL)]
    assert known.qualified(project.Target(edge.caller_file, edge.caller)) == planted.CALLER


def test_the_servers_end_with_the_cluster(tmp_path: Path) -> None:
    place = layout.of(tmp_path, "no-such-cluster-here")
    guests = [process.Daemon(name, place.daemons) for name in lifecycle.GUESTS]
    for one in guests:
        one.start(["sleep", "60"])
    lifecycle.halt(place)
    assert {one.identity() for one in guests} == {None}


def test_what_asks_for_no_password_is_reached_from_the_release_alone() -> None:
    rules = [dict(services.wall("shown"))]
    database = End(services.NAMESPACE, {"app.kubernetes.io/name": "mongodb"})
    assert policies.allows(rules, End("shown", {}), database, 27017)
    for other in (End("team-a", {"app.kubernetes.io/name": "jervis"}), End(services.NAMESPACE, {}), End("jervis", {})):
        assert not policies.allows(rules, other, database, 27017)
