"""Items at once while models fail: all end, and nothing is done twice. At length: `python -m bench.qualify load`."""

from __future__ import annotations

import pytest

from bench.qualify import load, site
from tests import thorough


@pytest.mark.services
# Models that fail: tests/kb/extract/qualifier/test_engines.py, tests/kb/queue/test_worker.py; many at once:
# tests/kb/writers.
@thorough.only
async def test_all_end_once_while_models_fail(where: site.Services) -> None:
    found = await load.run(where, count=60, at_once=10, seed=3, faults=True)
    assert found["problems"] == []
    assert found["faultsMet"] >= 5, "the load without its faults shows nothing"
