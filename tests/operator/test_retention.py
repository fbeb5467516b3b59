"""What is kept of deleted tasks goes, what is kept of others stays; a wrong clock deletes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controllers.archive import mongo, retention, sweep
from controllers.archive.retention import FEW
from controllers.pendingtask import job
from tests.cli import site
from tests.operator import accounts
from tests.operator.conftest import Space
from tests.operator.housekeeping import LEASE, Open, ended, house, opened
from tests.operator.kubelet import Kubelet, never
from tests.operator.process import Start
from tests.waiting import until

__all__ = ["opened"]
pytestmark = [pytest.mark.apiserver, pytest.mark.services]
NONE = "00000000-0000-0000-0000-{:012d}"


def now() -> datetime:
    return datetime.now(UTC)


def remember(database: Any, uid: str, namespace: str, name: str, *, hours: float = 48) -> None:
    """A memory of this operator's, and one document of everything else that a run leaves."""
    for collection, field in mongo.LEFTOVERS.items():
        row: dict[str, Any] = {"_id": uid} if field == "_id" else {"_id": f"{uid}/{collection}", field: uid}
        if collection == mongo.MEMORY:
            row = memory(uid, namespace, name, hours)
        database[collection].replace_one({"_id": row["_id"]}, row, upsert=True)


def memory(uid: str, namespace: str, name: str, hours: float = 48, lease: str = LEASE) -> dict[str, Any]:
    """As the leader under that Lease writes one."""
    at = now() - timedelta(hours=hours)
    return {"_id": uid, "namespace": namespace, "name": name, "updatedAt": at, "leaseCreated": lease}


def kept(database: Any) -> set[str]:
    """The uids that something is kept of: in every collection or in none."""
    found = [{row[field] for row in database[name].find()} for name, field in mongo.LEFTOVERS.items()]
    assert all(uids == found[0] for uids in found)
    return found[0]


async def test_what_is_kept_of_a_deleted_task_goes_and_of_no_other(opened: Open, space: Space, database: Any) -> None:
    async with opened(live=lambda uid: uid == NONE.format(7)) as here:
        uids = {
            "waits": space.submit("waits")["metadata"]["uid"],
            "finished": (await ended(here, space, "finished", now()))["metadata"]["uid"],
            "deleted": NONE.format(1),
            "replaced": NONE.format(2),
            "recent": NONE.format(3),
            "elsewhere": NONE.format(4),
            "nowhere": NONE.format(5),
            "archived": NONE.format(6),
            "known": NONE.format(7),
        }
        space.submit("replaced")
        for name, uid in uids.items():
            namespace = f"{space.name}-other" if name == "elsewhere" else space.name
            remember(database, uid, namespace, name, hours=1 if name == "recent" else 48)
        # Written before memories said whose they are: it cannot be asked about.
        database["task_memory"].update_one({"_id": uids["nowhere"]}, {"$unset": {"namespace": 1}})
        database["task_archive"].insert_one(
            {"_id": uids["archived"], "namespace": space.name, "archivedAt": now(), "object": {"metadata": {}}}
        )
        await here.archivist.sweep_once()
        stay = set(uids.values()) - {uids["deleted"], uids["replaced"]}
        assert kept(database) == stay
        assert here.metric("swept_documents_total", collection="task_memory") == 2
        noted = {row["_id"] for row in database["task_memory"].find({"archived": True})}
        assert noted == {uids["archived"], uids["finished"]}, "not looked at again"

        space.delete("waits")
        await here.archivist.sweep_once()
        assert kept(database) == stay - {uids["waits"]}


async def test_what_is_kept_for_a_namespace_that_cannot_be_listed_stays(
    space: Space, kubeconfig: Path, mongodb_uri: str, database: Any
) -> None:
    remember(database, NONE.format(1), space.name, "deleted")
    remember(database, NONE.format(2), "forbidden", "hidden")
    place = site.Site(kubeconfig, None, space.core, space.name)
    account = place.user("tidy")
    tasks = {"apiGroups": ["jervis.dev"], "resources": ["pendingtasks"], "verbs": ["get", "list", "patch", "delete"]}
    accounts.permit(space.api, space.name, "tidy", tasks)
    async with house(space, account, mongodb_uri, namespaces=["forbidden", space.name]) as here:
        await here.archivist.sweep_once()
    assert kept(database) == {NONE.format(2)}


def test_a_mail_that_is_deleted_while_it_waits_leaves_nothing_in_mongodb(
    space: Space, start: Start, database: Any
) -> None:
    with start(ARCHIVE_SECONDS=0.2, DELETED_DAYS=0.00001) as operator:
        space.bring("ReadyForGpu", "mail", "ASK the secret question", mode="Background")
        found = database["task_memory"].find_one()
        assert (found["namespace"], found["name"]) == (space.name, "mail"), "whose it is stands with it"
        until(lambda: operator.metric("jervis_operator_queue_depth") == 0, "nothing is left to do")
        assert database["task_memory"].count_documents({}) == 1, "a live one's stays"
        space.delete("mail")
        until(lambda: database["task_memory"].count_documents({}) == 0, "it is gone")
        assert operator.metric("jervis_operator_reconcile_failures_total") == 0


def test_what_is_kept_of_a_deleted_task_stays_as_long_as_its_run_is_there(
    space: Space, start: Start, database: Any
) -> None:
    """The run ends in its own time, and what it writes until then would not be found afterwards."""
    with Kubelet(space.api, space.name, never) as kubelet:
        kubelet.lingering.add("runs")
        with start(ARCHIVE_SECONDS=0.2):
            uid = space.submit("runs", type="UserInputProcessing", mode="Foreground")["metadata"]["uid"]
            until(lambda: space.phase("runs") == "Orchestrating", "it runs")
            old = {"$set": {"updatedAt": now() - timedelta(days=3)}}  # it runs for longer than `deletedDays`
            database["task_memory"].update_one({"_id": uid}, old)
            space.delete("runs")
            until(lambda: not space.jobs(), "its Job is deleted")
            assert [one.metadata.labels[job.UID_LABEL] for one in kubelet.pods()] == [uid]
            for number in (1, 2):  # the second by a sweep that began when the Job had gone
                swept(space, database, NONE.format(number))
            assert memories(database) == {uid}
            kubelet.lingering.clear()
            until(lambda: memories(database) == set(), "it goes once the pod has gone")


def test_a_task_that_is_deleted_before_its_job_is_due_takes_it_with_it(space: Space, start: Start) -> None:
    with (
        Kubelet(space.api, space.name),
        start(ARCHIVE_SECONDS=0.2, FINISHED_TTL_SECONDS=0, JOB_TTL_SECONDS=3600),
    ):
        space.submit("runs", type="UserInputProcessing", mode="Foreground")
        until(lambda: bool(space.jobs()), "it runs")
        until(lambda: not space.every(), "it is finished and deleted")
        assert not space.jobs()


def swept(space: Space, database: Any, uid: str) -> None:
    """Return once a sweep has removed what is kept of another deleted task."""
    remember(database, uid, space.name, "deleted")
    until(lambda: uid not in memories(database), "a sweep removes what has no run")


def memories(database: Any) -> set[str]:
    return {row["_id"] for row in database["task_memory"].find()}


@pytest.mark.parametrize("ahead", [timedelta(days=730), timedelta(days=-730), timedelta(minutes=6)])
async def test_with_a_wrong_clock_tasks_are_archived_and_nothing_is_deleted(
    opened: Open, space: Space, database: Any, ahead: timedelta
) -> None:
    remember(database, NONE.format(1), space.name, "deleted", hours=10**5)
    database["task_archive"].insert_one(
        {"_id": NONE.format(2), "namespace": space.name, "archivedAt": now() - timedelta(days=2000), "sweptAt": now()}
    )
    terms = sweep.Terms(success=timedelta(0), per_client=0)
    began = now()
    async with opened(terms=terms, wall=lambda: now() + ahead) as here:
        await ended(here, space, "task", now() - timedelta(days=2))
        await here.archivist.sweep_once()
        assert len(space.every()) == 1
        assert {row["_id"] for row in database["task_archive"].find()} >= {NONE.format(2)}
        stored = database["task_archive"].find_one({"name": "task"})
        assert stored["archivedAt"] <= now() + timedelta(seconds=2), "the earlier of the two clocks"
        assert kept(database) == {NONE.format(1)}
        late = (now() - began).total_seconds()
        assert here.metric("clock_skew_seconds") == pytest.approx(ahead.total_seconds(), abs=30 + late)
    async with opened(terms=terms) as here:
        await here.archivist.sweep_once()
        assert space.every() == []
        assert database["task_archive"].count_documents({"_id": NONE.format(2)}) == 0
        assert kept(database) == set()


def history(database: Any, space: Space, old: int, young: int) -> None:
    database["task_archive"].insert_many(
        {
            "_id": NONE.format(number),
            "namespace": space.name,
            "archivedAt": now() - timedelta(days=400 if number < old else 1),
            "sweptAt": now(),
        }
        for number in range(old + young)
    )


@pytest.mark.parametrize(
    ("old", "young", "share", "left"),
    [
        (FEW + 50, 10, 0.2, FEW + 60),
        (FEW + 50, 10, 1.0, 10),
        (FEW, 10, 0.2, 10),
        (FEW + 10, 400, 0.2, 400),
    ],
    ids=["too much at once", "confirmed", "few", "its share"],
)
async def test_a_sweep_removes_no_more_than_its_share_of_the_history(
    opened: Open, space: Space, database: Any, old: int, young: int, share: float, left: int
) -> None:
    """Both clocks may be wrong, on a machine that is the whole cluster."""
    history(database, space, old, young)
    async with opened(periods=retention.Periods(share=share)) as here:
        await here.archivist.sweep_once()
        assert database["task_archive"].count_documents({}) == left
        held = left == old + young
        assert here.metric("removal_held", what="history") == held
        assert here.metric("removal_held", what="abandoned") == 0


@pytest.mark.parametrize(("live", "deleted"), [(30, 60), (0, 60), (0, retention.MOST_ASKED + 20)])
async def test_however_many_tasks_were_deleted_at_once_what_is_kept_of_them_goes(
    opened: Open, space: Space, database: Any, live: int, deleted: int
) -> None:
    """`kubectl delete pt --all`, for instance: their memories are this operator's, and the apiserver has been asked."""
    rows = [memory(NONE.format(n), space.name, f"t{n}") for n in range(live + deleted)]
    database["task_memory"].insert_many(rows)
    alive = {NONE.format(n) for n in range(live)}
    async with opened(live=lambda uid: uid in alive) as here:
        await here.archivist.sweep_once()
        assert database["task_memory"].count_documents({}) == live + max(0, deleted - retention.MOST_ASKED)
        await here.archivist.sweep_once()
        assert {row["_id"] for row in database["task_memory"].find()} == alive
        assert here.metric("removal_held", what="abandoned") == 0


@pytest.mark.parametrize("lease", ["", "2020-01-01T00:00:00Z"], ids=["of an older release", "of another operator"])
async def test_a_sweep_takes_no_more_than_its_share_of_what_another_operator_wrote(
    opened: Open, space: Space, database: Any, lease: str
) -> None:
    """As it looks to an operator that was given the MongoDB of another cluster. Its own tasks do not wait for that."""
    strangers = [memory(NONE.format(n), space.name, f"t{n}", lease=lease) for n in range(FEW + 1)]
    database["task_memory"].insert_many(strangers)
    async with opened() as here:
        for number in (FEW + 1, FEW + 2):
            remember(database, NONE.format(number), space.name, "deleted")
            await here.archivist.sweep_once()
            assert {row["_id"] for row in database["task_memory"].find()} == {one["_id"] for one in strangers}
            assert here.metric("removal_held", what="abandoned") == 1
    async with opened(periods=retention.Periods(share=1.0)) as here:
        await here.archivist.sweep_once()
        assert database["task_memory"].count_documents({}) == 0
        assert here.metric("removal_held", what="abandoned") == 0


async def test_a_few_of_an_older_release_go_like_others(opened: Open, space: Space, database: Any) -> None:
    database["task_memory"].insert_many(memory(NONE.format(n), space.name, f"t{n}", lease="") for n in range(FEW))
    async with opened() as here:
        await here.archivist.sweep_once()
        assert database["task_memory"].count_documents({}) == 0


async def test_behind_many_live_tasks_a_deleted_one_is_found_by_a_later_sweep(
    opened: Open, space: Space, database: Any
) -> None:
    """One sweep looks at a bounded number of memories; the next goes on behind them, and at last from the beginning."""
    many = retention.MOST_WALKED * retention.PAGE
    database["task_memory"].insert_many(memory(NONE.format(n), space.name, f"t{n}") for n in range(many + 1))
    live = {NONE.format(n) for n in range(many)}
    async with opened(live=lambda uid: uid in live) as here:
        await here.archivist.sweep_once()
        assert database["task_memory"].count_documents({}) == many + 1
        await here.archivist.sweep_once()
        assert database["task_memory"].count_documents({}) == many
        live.discard(NONE.format(0))
        await here.archivist.sweep_once()
        assert database["task_memory"].count_documents({}) == many - 1
