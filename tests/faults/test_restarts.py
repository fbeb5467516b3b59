"""kube-apiserver and etcd are killed under load and come back on their data; the record goes on without a gap."""

from __future__ import annotations

import pytest

from hack.cluster import standalone
from tests.faults import campaigns
from tests.faults.campaigns import Begin

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
SEED = 20270301


@pytest.mark.parametrize("part", ["etcd", "api"])
async def test_nothing_is_lost(begin: Begin, server: standalone.Server, part: str) -> None:
    async with begin() as on:
        outcome = await campaigns.restarts(on, SEED, getattr(server, part), times=1, tasks=30)
    assert outcome.sentences() == []
