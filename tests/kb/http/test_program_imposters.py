"""The whole service while other programs answer on the ports of Weaviate and MongoDB: its loops go on."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from kb import client
from tests import ports, waiting
from tests.fakes.ollama import process
from tests.kb import imposters, scopes, world
from tests.kb.http import program

SWEEPS = {
    "JERVIS_KB_RECOVERY_INTERVAL": "0.1",
    "JERVIS_KB_RECOVERY_PATIENCE": "0",
    "JERVIS_KB_ERASURE_INTERVAL": "0.1",
    "JERVIS_KB_EMBED_MODEL": "qwen3-embedding:8b",
}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=60, verify=False) as made:
        yield made


@pytest.mark.services
async def test_another_server_in_weaviate_s_place_is_an_outage(
    tmp_path: Path, http: httpx.AsyncClient, settings: dict[str, str]
) -> None:
    with imposters.http("404 Not Found", b"no", "text/plain").listening() as web:
        own = {"JERVIS_KB_WEAVIATE_URL": f"http://127.0.0.1:{web.port}", "JERVIS_KB_WEAVIATE_GRPC_PORT": "1"}
        async with program.running(tmp_path, ports.free(), settings | SWEEPS | own) as kb:
            with pytest.raises(client.Unavailable, match="weaviate is away"):
                await client.Client(kb.url, http, attempts=1).ingest(world.request())
            # The request is open: what resumes it asks Weaviate again and again.
            before = web.asked

            await waiting.eventually(lambda: web.asked >= before + 5)
            assert "Traceback" not in kb.log.read_text()


async def test_a_mongodb_with_a_full_disk_is_an_outage(
    tmp_path: Path, fake: process.Fake, http: httpx.AsyncClient
) -> None:
    full = {"code": 14031, "codeName": "OutOfDiskSpace", "errmsg": "no space left"}
    with imposters.mongodb(full).listening() as mongo:
        settings = SWEEPS | {
            "JERVIS_KB_ROUTER_URL": fake.url,
            "JERVIS_KB_WEAVIATE_URL": "http://127.0.0.1:1",
            "JERVIS_KB_MONGODB_URI": f"mongodb://127.0.0.1:{mongo.port}",
        }
        async with program.running(tmp_path, ports.free(), settings) as kb:
            opened = client.Client(kb.url, http, attempts=1)
            for call in (opened.ingest(world.request()), opened.store(scopes.SHOP, b"body")):
                with pytest.raises(client.Unavailable, match="mongodb is away"):
                    await call
            assert "Traceback" not in kb.log.read_text()


async def test_an_error_that_is_not_foreseen_ends_no_loop(
    tmp_path: Path, fake: process.Fake, http: httpx.AsyncClient
) -> None:
    refusal = {"code": 2, "codeName": "BadValue", "errmsg": "unknown operator: $nonsense"}
    with imposters.mongodb(refusal).listening() as server:
        settings = SWEEPS | {
            "JERVIS_KB_ROUTER_URL": fake.url,
            "JERVIS_KB_WEAVIATE_URL": "http://127.0.0.1:1",
            "JERVIS_KB_MONGODB_URI": f"mongodb://127.0.0.1:{server.port}",
        }
        async with program.running(tmp_path, ports.free(), settings) as kb:

            async def counted() -> bool:
                text = (await http.get(f"{kb.url}/metrics")).text
                found = dict(re.findall(r'jervis_kb_loop_errors_total\{loop="(\w+)"\} (\d+)', text))
                return all(int(found.get(loop, 0)) >= 2 for loop in ("erasures", "aliases", "erasing"))

            await waiting.eventually(counted)
            assert (await http.get(f"{kb.url}/healthz")).status_code == 200
            assert "nonsense" in kb.log.read_text()
