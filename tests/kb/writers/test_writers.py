"""Four writers over one MongoDB, Weaviate and graph, and kill -9 at any moment: the end is that of one writer.

Longer campaigns: `python -m tests.kb.writers.campaign SEED OPERATIONS KILLS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.ollama import process
from tests.kb import conftest
from tests.kb.writers import campaign

pytestmark = pytest.mark.services


@pytest.fixture
async def services(fake: process.Fake) -> AsyncIterator[tuple[campaign.Services, campaign.Services]]:
    """Two installations over the same servers: for the many writers, and for the one."""
    with campaign.graphs() as graph:
        place = (fake.url, *conftest.stores(), graph)
        both = campaign.Services(*place), campaign.Services(*place)
        yield both
        for one in both:
            await campaign.clean(one)


async def test_many_writers_end_where_one_would(
    services: tuple[campaign.Services, campaign.Services], tmp_path: Path
) -> None:
    many, alone = services
    report = await campaign.run(many, alone, tmp_path, seed=7, steps=6, kills=3)
    assert report.killed == 3
    assert report.acknowledged >= 48
    assert report.documents > 5
