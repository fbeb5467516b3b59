"""What commands ask the apiserver for, counted at the wire: a queue that the operator reports and a deletion read no
content of any task."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import kube, output, session
from cli.commands import erase as command
from cli.commands import queue
from contracts.api import queue_api
from crds import scope
from tests.cli import outside, site
from tests.cli.test_erase import service
from tests.cli.test_views import answer, told

__all__ = ["service"]  # a fixture
pytestmark = pytest.mark.apiserver

LONG = "x" * 32_000
METADATA = "PartialObjectMetadataList"
PER_TASK = 3_000
"""Bytes of a task's metadata, at most; the whole object has more than 32,000."""


@pytest.fixture
def relay(place: site.Site, tmp_path: Path) -> Iterator[outside.Relay]:
    with outside.Relay(place.kubeconfig).in_thread() as server:
        server.config(tmp_path / "relayed")
        yield server


@pytest.fixture
def call(call: site.Call, place: site.Site, relay: outside.Relay, tmp_path: Path) -> site.Call:
    """The command leads through the relay."""
    return functools.partial(call, flags=["--kubeconfig", str(tmp_path / "relayed"), "-n", place.namespace])


def names(done: site.Done) -> list[str]:
    assert done.code == 0, done.err
    return [line.split()[1] for line in done.out.splitlines()[1:]]


def waiting(place: site.Site) -> list[str]:
    """Five long tasks; their uids."""
    made = [place.task(f"t-{number}", {"content": LONG}, {"phase": "ReadyForGpu"}) for number in range(5)]
    return [one["metadata"]["uid"] for one in made]


def test_the_operator_has_said_all_that_the_table_shows(
    place: site.Site, relay: outside.Relay, call: site.Call
) -> None:
    place.operator()
    uids = waiting(place)
    said = [told(f"t-{number}", queue_api.Reason.NO_FREE_SLOT, uid=uids[number]) for number in (3, 1, 4, 0, 2)]
    relay.queue = answer(*said).wire()
    done = call("queue")
    assert names(done) == ["t-3", "t-1", "t-4", "t-0", "t-2"]
    assert relay.of_tasks() == []
    assert [one.verb for one in relay.asked] == ["GET", "POST", "GET"], "where it is, a token for it, its answer"

    # With more than what waits the rest comes from the objects.
    place.task("runs", {"content": LONG}, {"phase": "Orchestrating", "dispatch": {"backend": "gpu-0"}})
    relay.asked.clear()
    done = call("queue", "--all")
    assert names(done) == ["t-3", "t-1", "t-4", "t-0", "t-2", "runs"]
    assert done.out.splitlines()[0].split()[-2:] == ["BEFORE", "SINCE"]
    assert len(relay.of_tasks()) == 1

    # Programs get the objects, and what the operator says of them.
    found = call("queue", "-o", "json").json
    assert [one["metadata"]["name"] for one in found["items"]] == ["t-3", "t-1", "t-4", "t-0", "t-2"]
    assert found["queue"]["items"][0]["reason"] == "NoFreeSlot"
    assert found["queue"]["slots"] == {"total": 2, "free": 0}
    assert "queue" not in call("queue", "--phase", "Orchestrating", "-o", "json").json


def test_the_story_says_what_is_before_a_waiting_task(place: site.Site, relay: outside.Relay, call: site.Call) -> None:
    place.operator()
    uid = place.task("mail", status={"phase": "ReadyForGpu"})["metadata"]["uid"]
    place.task("runs", status={"phase": "Orchestrating", "dispatch": {"backend": "gpu-0"}})
    known = told("mail", queue_api.Reason.NO_FREE_SLOT, uid=uid, position=4, before=3, beforeOwn=["wiki"])
    relay.queue = answer(known).wire()
    story = call("get", "mail")
    assert (story.code, story.err) == (0, "")
    waits_line = next(line for line in story.out.splitlines() if line.startswith("Waits:"))
    assert waits_line.startswith("Waits:     for a GPU slot; 3 before it (wiki, ...); since 2026-11-18 11:58:30Z (")
    [asked] = [one for one in relay.asked if one.path.endswith("/proxy/api/v1/queue")]
    assert asked.query == {"client": "acme"}
    # A program reads the object alone, and what runs waits for no turn.
    relay.asked.clear()
    assert call("get", "mail", "-o", "json").json == place.get("mail")
    assert "Waits:" not in call("get", "runs").out
    assert [one.path.rpartition("/")[2] for one in relay.asked] == ["mail", "runs"]
    # A task that the operator does not list keeps what its object says.
    relay.queue = answer().wire()
    assert "ReadyForGpu, waits for a GPU\n" in call("get", "mail").out


def test_without_an_operator_what_waits_is_read_page_by_page(
    place: site.Site, relay: outside.Relay, call: site.Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(place)
    place.task("over", {"content": LONG}, {"phase": "Done"})
    place.task("asks", {"content": LONG}, {"phase": "UserTask", "userTask": {"kind": "Question"}})
    monkeypatch.setattr(kube, "_PAGE", "2")
    assert names(call("queue")) == [f"t-{number}" for number in range(5)]
    pages = relay.of_tasks()
    # The apiserver leaves out what is in other phases.
    assert [one.query.get("limit") for one in pages] == ["2", "2", "2"]
    assert sum(one.bytes for one in pages) < 5 * (len(LONG) + PER_TASK)
    assert call("queue", "-o", "json").json["queue"] is None


def test_a_watched_queue_reads_objects_only_when_one_has_changed(
    place: site.Site, relay: outside.Relay, tmp_path: Path
) -> None:
    waiting(place)
    passes: list[list[bool]] = []

    def sleep(_: float) -> None:
        passes.append([METADATA in one.accept for one in relay.of_tasks()])
        relay.asked.clear()
        if len(passes) == 2:
            place.patch("t-3", {"spec": {"queuePosition": 1}})
        if len(passes) == 4:
            raise KeyboardInterrupt

    door = kube.connect(str(tmp_path / "relayed"), None, place.namespace, 10.0)
    with pytest.raises(KeyboardInterrupt):
        queue._watch(session.Session(door, output.Output(output.Format.TABLE), sleep=sleep), "")
    door.close()
    assert passes == [[True, False], [True], [True, False], [True]]


def test_a_line_says_what_the_object_says(place: site.Site, call: site.Call) -> None:
    place.task("chat", {"type": "UserInputProcessing", "queuePosition": 7}, {"phase": "ReadyForQualification"})
    place.task("held", {"suspend": True, "queuePosition": 9}, {"phase": "ReadyForGpu"})
    high = {"phase": "ReadyForGpu", "route": {"decision": "ExecuteHigh"}}
    place.task("plain", status={"phase": "ReadyForGpu"})
    place.task("ours", status=high)
    retry = {"count": 1, "nextAt": "2999-01-01T00:00:00Z", "reason": "Busy: a sentence as long as the error's was."}
    place.task("again", {"queuePosition": 8}, {"phase": "New", "retry": retry})
    place.task("later", status={"phase": "Scheduled", "scheduledFor": "2999-01-01T00:00:00Z"})
    place.task("asks", status={"phase": "UserTask", "userTask": {"kind": "Approval"}})
    place.task("runs", status={"phase": "Orchestrating", "dispatch": {"backend": "gpu-0"}})
    stuck = {"type": "Dispatched", "status": "False", "reason": "ImagePullBackOff", "message": "Back-off."}
    said = {**stuck, "lastTransitionTime": "2026-11-18T12:00:00Z"}
    place.task("starts", status={"phase": "DispatchedGpu", "dispatch": {"backend": "gpu-0"}, "conditions": [said]})
    left = {**said, "reason": "NoFreeSlot"}
    place.task("started", status={"phase": "DispatchedGpu", "conditions": [left]})
    place.task("unseen")
    done = call("queue", "--all").succeeded()
    cells = {line[4:].split()[0]: [cell.strip() for cell in line.split("   ")] for line in done.out.splitlines()[1:]}
    assert list(cells)[:4] == ["chat", "again", "held", "ours"]
    lacks = {name: row[-1] for name, row in cells.items()}
    assert lacks["held"] == "resume (spec.suspend)"
    assert lacks["asks"] == "a person: Approval"
    assert lacks["runs"] == "its run on gpu-0"
    assert lacks["starts"] == "its pod: ImagePullBackOff"
    assert lacks["started"] == "its pod"
    assert lacks["unseen"] == "the operator"
    assert lacks["later"].startswith("its time, in ")
    assert lacks["again"].startswith("retry in ")
    assert "Busy" not in done.out, "sentences are in the story of a task"


def test_a_deletion_reads_no_content(
    place: site.Site,
    relay: outside.Relay,
    call: site.Call,
    service: outside.Erasures,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "_PAUSE", 0.0)
    monkeypatch.setattr(kube, "_PAGE", "2")
    waiting(place)
    place.task("other", {"clientId": "other", "content": LONG})
    given = ["erase", "--client", "acme", "--by", "jana", "--kb", service.url, "--yes"]
    done = call(*given)
    assert (done.code, place.names()) == (0, ["other"]), done.err
    pages = relay.of_tasks()
    assert all(METADATA in one.accept for one in pages)
    assert sum(one.bytes for one in pages) < 7 * PER_TASK
    # Three pages with five tasks, and one more that is empty.
    assert len(pages) == 4


@pytest.mark.parametrize(
    "where",
    [
        scope.Scope(client_id="acme"),
        scope.Scope(client_id="acme", project_id="shop"),
        scope.Scope(client_id="acme", group_id="retail"),
        scope.Scope(client_id="acme", project_id="shop", group_id="retail"),
    ],
    ids=["client", "project", "group", "both"],
)
def test_the_selector_is_what_the_scope_covers(place: site.Site, where: scope.Scope) -> None:
    owners = [
        scope.Scope(client_id=client, project_id=project, group_id=group)
        for client in ("acme", "other")
        for project in ("", "shop", "blog")
        for group in ("", "retail", "wholesale")
    ]
    for number, one in enumerate(owners):
        given = {key: value for key, value in one.model_dump(by_alias=True).items() if value}
        place.task(f"t-{number}", given)
    door = kube.connect(str(place.kubeconfig), None, place.namespace, 10.0)
    chosen = {str(raw["metadata"]["name"]) for raw in door.metadata(fields=command.selector(where))}
    door.close()
    assert chosen == {f"t-{number}" for number, one in enumerate(owners) if where.covers(one)}
