"""The stand-in for MongoDB keeps the same contract."""

from __future__ import annotations

import pytest

from tests.kb import memory
from tests.kb.content import contract


@pytest.fixture
def store() -> memory.Content:
    return memory.Content()


class TestMemory(contract.Contract):
    """The contract in memory."""
