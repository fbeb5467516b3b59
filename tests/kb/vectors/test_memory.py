"""The stand-in for Weaviate keeps the same contract, or the tests that use it would prove nothing."""

from __future__ import annotations

import pytest

from tests.kb import memory
from tests.kb.vectors import contract


@pytest.fixture
def store() -> memory.Vectors:
    return memory.Vectors()


class TestMemory(contract.Contract, contract.History):
    """The contract in memory."""
