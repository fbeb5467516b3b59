"""Content in a real MongoDB wire, and its stand-in, by one contract."""

from __future__ import annotations

from collections.abc import Iterator

import pymongo
import pytest

from kb import errors
from kb import mongo as kb_mongo
from kb.content import mongo
from tests import ports
from tests.kb import conftest, memory, scopes
from tests.kb.content import contract


@pytest.fixture
def rows(database: kb_mongo.Database) -> Iterator[pymongo.database.Database[dict[str, object]]]:
    with pymongo.MongoClient[dict[str, object]](conftest.required("JERVIS_TEST_MONGODB_URI")) as client:
        yield client[database.name]


class TestMemory(contract.Contract):
    @pytest.fixture
    def store(self) -> memory.Content:
        return memory.Content()


@pytest.mark.services
class TestMongo(contract.Contract):
    @pytest.fixture
    def store(self, mongo_store: mongo.Store) -> mongo.Store:
        return mongo_store

    async def test_an_upload_that_broke_off_is_not_visible_and_does_not_stand_in_the_way(
        self, store: mongo.Store, rows: pymongo.database.Database[dict[str, object]]
    ) -> None:
        body = b"y" * 600_000
        reference = await store.save(scopes.SHOP, body, "text/plain")
        rows["content.files"].delete_one({"filename": reference.key})  # what a crash before the last write leaves
        with pytest.raises(errors.NotFound):
            await store.load(scopes.SHOP, reference.key)
        assert await store.save(scopes.SHOP, body, "text/plain") == reference
        assert await store.load(scopes.SHOP, reference.key) == body

    async def test_damage_is_told(self, store: mongo.Store, rows: pymongo.database.Database[dict[str, object]]) -> None:
        reference = await store.save(scopes.SHOP, b"z" * 100, "text/plain")
        rows["content.chunks"].update_one({}, {"$set": {"data": b"q" * 100}})
        with pytest.raises(errors.Invalid, match="damaged"):
            await store.load(scopes.SHOP, reference.key)


@pytest.mark.services
async def test_a_server_that_is_not_there_is_away() -> None:
    absent = kb_mongo.Database(f"mongodb://127.0.0.1:{ports.free()}", "any", patience=0.3)
    store = mongo.Store(absent)
    with pytest.raises(errors.Away, match="mongodb"):
        await store.save(scopes.SHOP, b"body", "text/plain")
    with pytest.raises(errors.Away, match="mongodb"):
        await store.ready()
    await absent.close()
