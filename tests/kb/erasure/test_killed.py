"""kill -9 before each call of an erasure: the next process goes on with it, and nothing of the scope returns.

`make test` kills before each ninth call, `make test-thorough` before each.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crds.priority import Priority
from kb import mongo
from kb.erasure import book, places
from kb.rules import mongo as rules
from router import client as router_client
from tests import thorough
from tests.fakes.ollama import process
from tests.kb import conftest, scopes, world
from tests.kb.ingest import test_killed_operations as killed
from tests.kb.ingest import victim

pytestmark = pytest.mark.services


async def fill(database: mongo.Database) -> None:
    """Nothing but a rule of each of two projects."""
    for name in (book.COLLECTION, places.COLLECTION, rules.COLLECTION):
        await database[name].delete_many({})
    for owner in (scopes.SHOP, scopes.BLOG):
        await database[rules.COLLECTION].insert_one({"_id": str(owner), **mongo.names(owner)})


async def prepare(kb: world.ObservedState) -> None:
    """Of one project a document with a version before, one that waits for models and one that broke off."""
    await kb.ingest(world.request("JERV-1 is done.", owner=scopes.BLOG))
    await kb.ingest(world.request("JERV-1 is assigned to Jana Novak.", urn="note:1"))
    await kb.ingest(world.request("JERV-1 is done.", urn="note:1"))
    await kb.pipeline.index(world.request(), Priority.P3)
    await killed.broken_off(kb, kb.ingest(world.request("Jana Novak fixed JERV-123.", urn="note:2")))


async def succeeded(folder: Path, router: router_client.Client, database: mongo.Database) -> dict[str, object]:
    """What there is when the next process has nothing more to do."""
    async with victim.opened(folder, router) as kb:
        works, closes = victim.erasing(kb, database)
        await closes.look()
        for loop in (killed.recover, victim.worked):
            await loop(kb)
        passes = 0
        while await closes.look():
            await works.step()
            assert (passes := passes + 1) < 4
        rows = [row["_id"] async for row in database[rules.COLLECTION].find({})]
        found = await killed.everything(kb, folder)
        for loop in killed.LATER:
            await loop(kb)
        assert await killed.everything(kb, folder) == found
        return found | {"rules": rows}


async def test_an_erasure_is_gone_on_from_before_each_call(
    tmp_path: Path, router: router_client.Client, fake: process.Fake, database: mongo.Database
) -> None:
    uri = conftest.required("JERVIS_TEST_MONGODB_URI")
    (before := tmp_path / "before").mkdir()
    async with victim.opened(before, router) as kb:
        await prepare(kb)

    async def ended(deadly: int) -> tuple[list[str], dict[str, object]]:
        folder = Path(shutil.copytree(before, tmp_path / f"killed{deadly}"))
        await fill(database)
        place = {"ollama": fake.url, "mongodb": uri, "name": database.name}
        calls = victim.run(place, folder, "erase", "", deadly)
        return calls, await succeeded(folder, router, database)

    calls, expected = await ended(0)
    assert expected["rules"] == [str(scopes.BLOG)]
    assert len(expected["graph"]) == 1  # type: ignore[arg-type]  # the rows of another project
    wrong = []
    points = range(calls.index("open") + 2, len(calls) + 1)
    for deadly in thorough.part(points, thorough.KILLS):
        _, found = await ended(deadly)
        wrong += [(calls[deadly - 1], key) for key in found if found[key] != expected[key]]
    assert wrong == []
