"""The services of the tests of this folder."""

from __future__ import annotations

import pytest

from bench.qualify import site
from tests.kb import conftest


@pytest.fixture
def where() -> site.Services:
    """The stores; models are the simulator's."""
    return site.Services(*conftest.stores())
