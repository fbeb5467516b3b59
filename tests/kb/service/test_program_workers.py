"""A reading knowledge base of several processes on one port, and one process that reads beside one that writes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from crds.priority import Priority
from kb import api, settings
from tests import ports, waiting
from tests.fakes.arango import server as arango
from tests.kb import scopes, world
from tests.kb.service import program
from tests.kb.service.callers import rejected

_ASKED = re.compile(r'^jervis_kb_requests_total\{route="/healthz",status="200",worker="(\d)"\} (\d+)', re.MULTILINE)

TWO = {"JERVIS_KB_MODE": "read", "JERVIS_KB_WORKERS": "2"}


@pytest.fixture
def graph() -> Iterator[arango.Server]:
    with arango.Server() as running:
        yield running


@pytest.mark.services
async def test_workers_share_the_port_and_their_figures(run: program.Running, graph: arango.Server) -> None:
    async with run(**TWO, JERVIS_KB_ARANGO_URL=graph.url) as kb:
        asked, known = 0, dict[str, int]()
        parent = kb.pid
        workers = _children(parent)
        assert len(workers) == 2

        # All at once, and each on a connection of its own: both get some of them, sooner or later.
        while len(known) < 2 or min(known.values()) == 0:
            asked += sum(await asyncio.gather(*(_alive(kb) for _ in range(40))))
            known = await _figures(kb)
            assert asked < 40_000
        assert sum(known.values()) == asked, "every request is counted once, whichever worker is asked"

        async def of_both() -> str:
            # A worker that does not answer the other one in time is left out.
            text = await _metrics(kb)
            return text if text.count("process_resident_memory_bytes{") == 2 else ""

        for _ in range(5):
            text = await waiting.eventually(of_both)
            assert _counts(text) == known
        assert text.count("# TYPE jervis_kb_requests_total counter") == 1
        assert {f'process_resident_memory_bytes{{worker="{number}"}}' in text for number in (0, 1)} == {True}

        os.kill(workers[0], signal.SIGKILL)

        async def again() -> bool:
            there = _children(parent)
            return bool(await of_both()) and len(there) == 2 and workers[0] not in there

        await waiting.eventually(again)
        assert await _alive(kb)
        workers = _children(parent)
        assert await kb.end(signal.SIGTERM) == 0
    assert [one for one in workers if _runs(one)] == []


@pytest.mark.services
async def test_workers_end_with_their_parent(run: program.Running, graph: arango.Server) -> None:
    async with run(**TWO, JERVIS_KB_ARANGO_URL=graph.url) as kb:
        workers = _children(kb.pid)
        await kb.end(signal.SIGKILL)

        assert len(workers) == 2
        await waiting.eventually(lambda: not [one for one in workers if _runs(one)])


async def test_a_worker_that_cannot_work_ends_all(tmp_path: Path, graph: arango.Server) -> None:
    log = tmp_path / "kb.log"
    given = {"JERVIS_KB_DATA_DIR": str(tmp_path), "JERVIS_KB_HOST": "127.0.0.1", "JERVIS_KB_PORT": "0"}
    given |= TWO | {"JERVIS_KB_ARANGO_URL": graph.url, "JERVIS_KB_TOKENS_FILE": str(tmp_path / "none")}
    wrong = program.launch(log, given)
    assert await asyncio.to_thread(wrong.wait, waiting.PATIENCE) == 2
    assert "none cannot be read" in log.read_text()


def test_only_reading_processes_share_a_port() -> None:
    with pytest.raises(ValueError, match="JERVIS_KB_MODE=read"):
        settings.Settings(workers=2)
    with pytest.raises(ValueError, match="JERVIS_KB_MODE=read"):
        settings.Settings(workers=2, mode="write", arango_url="http://graph:8529")


def test_settings_of_the_stores_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="JERVIS_KB_WEAVIATE_QUANTIZATION"):
        settings.Settings(weaviate_index="flat", weaviate_quantization="pq")
    with pytest.raises(ValueError, match="JERVIS_KB_ARANGO_WRITE_CONCERN"):
        settings.Settings(arango_replication=2, arango_write_concern=3)


def _children(pid: int) -> list[int]:
    return sorted(int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def _alive(kb: program.Program) -> bool:
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=waiting.PATIENCE) as http:
        return (await http.get(f"{kb.url}/healthz")).is_success


async def _metrics(kb: program.Program) -> str:
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=waiting.PATIENCE) as http:
        return (await http.get(f"{kb.url}/metrics")).text


async def _figures(kb: program.Program) -> dict[str, int]:
    """Worker -> its answers to /healthz, of those that answer and were asked."""
    return _counts(await _metrics(kb))


def _counts(text: str) -> dict[str, int]:
    return {number: int(count) for number, count in _ASKED.findall(text)}


QUESTION = api.RetrieveRequest(scope=scopes.SHOP, query="Who wrote UserService?")


@pytest.mark.services
async def test_what_one_writes_the_other_one_reads_and_neither_does_both(
    tmp_path: Path, settings: dict[str, str], graph: arango.Server
) -> None:
    shared = {"JERVIS_KB_ARANGO_URL": graph.url, "JERVIS_KB_ARANGO_DATABASE": "modes"}
    folders = {mode: tmp_path / mode for mode in ("read", "write")}
    for folder in folders.values():
        folder.mkdir()
    mode = {name: settings | shared | {"JERVIS_KB_MODE": name} for name in folders}
    async with (
        program.running(folders["write"], ports.free(), mode["write"]) as writer,
        program.running(folders["read"], ports.free(), mode["read"]) as reader,
    ):
        for one in (writer, reader):
            assert (await one.http.get("/servez")).status_code == 200
        writing, reading = writer.client, reader.client
        reply = await writing.ingest(world.request(), urgency=Priority.P1)
        [item] = (await reading.retrieve(QUESTION)).items
        assert item.provenance.chunk_id in reply.chunk_ids
        for call in (reading.ingest(world.request()), writing.retrieve(QUESTION)):
            assert (await rejected(call)).status == 404
        reference = await writing.store(scopes.SHOP, b"body")
        assert await reading.fetch(scopes.SHOP, reference.key) == b"body"
        await writing.forget(scopes.SHOP, world.request().source_urn)
        assert (await reading.retrieve(QUESTION)).items == []
