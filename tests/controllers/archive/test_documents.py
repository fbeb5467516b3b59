"""From an object to its document in the archive, and from there to JSON; the collections that are swept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from contracts import mongo_collections
from contracts.api import sandbox
from controllers.archive import finished, mongo, openapi, query, record, wire
from controllers.memory import mongo as memory
from crds.phases import Phase
from orchestrator_job import outcome
from orchestrator_job.effects import journal, ledger
from orchestrator_job.effects.tools import checkout, remote_effects
from orchestrator_job.run import checkpoints
from orchestrator_job.store import artifacts, fence, task_memory_reader
from tests.controllers.archive.build import NOW, UID, raw
from tests.controllers.build import present

ENDED = datetime(2027, 3, 1, 11, 0, tzinfo=UTC)


def document(result: dict[str, Any] | None = None) -> dict[str, Any]:
    task = present(finished.of(raw()))
    return record.of(task, raw(), result, NOW)


def test_an_object_is_reduced_to_what_the_sweep_needs() -> None:
    assert finished.of(raw()) == finished.Finished(UID, "ns", "mail-1", "41", 2, "acme", Phase.COMPLETED, ENDED)
    more = raw(labels={"jervis.dev/archived": "true"}, deletionTimestamp="2027-03-01T11:30:00Z")
    more["spec"]["ttlSecondsAfterFinished"] = 0
    found = present(finished.of(more))
    assert (found.archived, found.leaving, found.ttl) == (True, True, 0)


def test_metadata_of_a_known_version_says_the_same() -> None:
    whole = raw(labels={"jervis.dev/archived": "true"}, deletionTimestamp="2027-03-01T11:30:00Z")
    whole["spec"]["ttlSecondsAfterFinished"] = 60
    found = present(finished.of(whole))
    assert finished.again(found, whole["metadata"]) is found
    # What a sweep noted of an object that it did not mark is not so at the next one.
    noted = replace(found, archived=False, leaving=False)
    assert finished.again(noted, whole["metadata"]) == found


def test_the_time_of_the_phase_stands_in_for_a_missing_completion() -> None:
    bare = raw("Error")
    bare["status"] = {"phase": "Error", "phaseTimes": {"Error": "2027-03-01T11:00:00Z"}}
    found = present(finished.of(bare))
    assert (found.completed, found.failed) == (ENDED, True)
    bare["status"] = {"phase": "Error"}
    unknown = present(finished.of(bare))
    assert unknown.completed is None


@pytest.mark.parametrize("phase", sorted(set(Phase) - {Phase.DONE, Phase.COMPLETED, Phase.ERROR}))
def test_an_unfinished_task_is_not_ours(phase: Phase) -> None:
    assert finished.of(raw(phase.value, labels={"jervis.dev/archived": "true"})) is None


def test_the_document_is_the_whole_object_without_managed_fields() -> None:
    made = document({"_id": UID, "answer": "42"})
    whole = raw()
    del whole["metadata"]["managedFields"]
    assert made["object"] == whole
    assert (made["_id"], made["version"], made["result"]) == (UID, "41", {"_id": UID, "answer": "42"})
    assert (made["completedAt"], made["archivedAt"]) == (ENDED, NOW)


def test_a_list_tells_the_end_and_one_task_tells_everything() -> None:
    found = document({"_id": UID, "createdAt": NOW, "citations": [1, None], "epoch": 3})
    page = wire.page([found], query.Query(limit=2)).model_dump(mode="json", by_alias=True)
    assert page["next"] is None
    assert {"object", "result"}.isdisjoint(page["items"][0])
    assert page["items"][0] == {
        "uid": UID,
        "namespace": "ns",
        "name": "mail-1",
        "clientId": "acme",
        "projectId": "",
        "type": "EmailProcessing",
        "phase": "Completed",
        "createdAt": "2027-03-01T10:00:00Z",
        "completedAt": "2027-03-01T11:00:00Z",
        "archivedAt": "2027-03-01T12:00:00Z",
        "attempt": 2,
        "decision": "Execute",
        "exitReason": "Answered",
        "summary": "It is done.",
        "correlationId": "",
    }
    whole = wire.whole(found).model_dump(mode="json", by_alias=True)
    assert whole["object"] == found["object"]
    assert whole["result"] == {"_id": UID, "createdAt": "2027-03-01T12:00:00Z", "citations": [1, None], "epoch": 3}


def test_a_full_page_names_the_next_one() -> None:
    following = wire.page([document()], query.Query(limit=1)).next
    assert following == f"2027-03-01T11:00:00Z_{UID}"
    assert query.parse({"before": following}).before == query.Place(ENDED, UID)


def test_parameters_are_read() -> None:
    assert query.parse({}) == query.Query(limit=50)
    given = {
        "namespace": "team-a",
        "client": "acme",
        "phase": "Done",
        "limit": "500",
        "before": "2027-03-01T13:00:00+02:00",
    }
    wanted = query.Query("team-a", "acme", "Done", limit=500, before=query.Place(ENDED))
    assert query.parse(given) == wanted
    since = {"since": "2027-03-01T13:00:00+02:00", "name": "mail-1"}
    assert query.parse(since) == query.Query(name="mail-1", since=ENDED)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"namespace": "Team A"}, "namespace"),
        ({"client": "{$ne: 1}"}, "client"),
        ({"phase": "Qualifying"}, "phase"),
        ({"limit": "0"}, "limit"),
        ({"limit": "501"}, "limit"),
        ({"limit": "1e2"}, "limit"),
        ({"limit": "٣"}, "limit"),
        ({"before": "yesterday"}, "before"),
        ({"before": "2027-03-01T13:00:00"}, "before"),
        ({"before": "2027-03-01T13:00:00Z_x"}, "before"),
        ({"clientId": "acme"}, "clientId"),
    ],
)
def test_a_wrong_parameter_is_named(given: dict[str, str], field: str) -> None:
    with pytest.raises(query.Unreadable) as caught:
        query.parse(given)
    assert caught.value.field == field
    assert caught.value.remedy


def test_the_description_knows_every_parameter_and_every_field() -> None:
    told = openapi.document()
    page, one = (told["paths"][path]["get"] for path in ("/api/v1/history", "/api/v1/history/{uid}"))
    assert tuple(known["name"] for known in page["parameters"]) == query.PARAMETERS
    assert page["parameters"][2]["schema"]["enum"] == ["Completed", "Done", "Error"]
    assert set(one["responses"]) == {"200", "400", "401", "404", "503"}
    fields = told["components"]["schemas"]["Entry"]["properties"]
    assert set(fields) == set(wire.page([document()], query.Query()).items[0].model_dump(by_alias=True))
    assert all(field["description"] for field in fields.values() if "$ref" not in field)


def test_every_collection_of_a_run_is_swept_and_the_notices_and_effects() -> None:
    assert set(mongo.LEFTOVERS) == {
        checkpoints.CHECKPOINTS,
        checkpoints.WRITES,
        artifacts.COLLECTION,
        ledger.COLLECTION,
        fence.COLLECTION,
        outcome.RESULTS,
        task_memory_reader.COLLECTION,
        journal.COLLECTION,
        checkout.COLLECTION,
        remote_effects.COLLECTION,
        sandbox.COLLECTION,
        mongo_collections.NOTICES,
        mongo_collections.EFFECTS,
    }
    assert {memory.MEMORY, memory.RESULTS, mongo.RESULTS} <= set(mongo.LEFTOVERS)


def test_the_history_itself_is_not() -> None:
    assert mongo.ARCHIVE not in mongo.LEFTOVERS
