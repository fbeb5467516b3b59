"""The registry in MongoDB, and its stand-in, by one contract."""

from __future__ import annotations

import pytest

from kb import mongo
from kb.aliases import mongo as aliases_mongo
from kb.aliases import registry
from tests.kb import clock as clocks
from tests.kb.aliases import contract, memory


class TestMemory(contract.Contract):
    @pytest.fixture
    def names(self, clock: clocks.Clock) -> registry.Registry:
        return memory.Registry(clock)


@pytest.mark.services
class TestMongo(contract.Contract):
    @pytest.fixture
    def names(self, database: mongo.Database, clock: clocks.Clock) -> registry.Registry:
        return aliases_mongo.Registry(database, clock)
