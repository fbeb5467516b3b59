"""ARCHITECTURE.md's reading paths of an ingest and of a retrieval are the ways of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb import api
from tests import flow
from tests.flow import recording
from tests.kb import scopes, world
from tests.kb.service import program

__all__ = ["recording"]
pytestmark = pytest.mark.services


async def test_a_document_and_a_question_take_the_reading_paths(run: program.Running, recording: Path) -> None:
    async with run() as kb:
        flow.begin(kb.pid, recording)
        await kb.client.ingest(world.request("Petr Novak wrote the parser."))
        flow.agrees("an ingest", flow.end(kb.pid, recording))
        flow.begin(kb.pid, recording)
        await kb.client.retrieve(api.RetrieveRequest(scope=scopes.SHOP, query="Who wrote the parser?"))
        flow.agrees("a retrieval", flow.end(kb.pid, recording))
