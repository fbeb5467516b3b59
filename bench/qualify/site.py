"""The place of a measurement: a knowledge base as a process, real stores, and models behind a `spy`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx
import pymongo

from bench import variables
from bench.qualify import spy as spies
from crds import scope
from kb import api, client
from kb.vectors import weaviate
from tests import ports
from tests.fakes.ollama import process

ROOT = Path(__file__).resolve().parents[2]
MODEL, EMBED = "qwen2.5:7b", "qwen3-embedding:8b"
_START_TRIES, _STOP_SECONDS = 1200, 60


@dataclass(frozen=True)
class Services:
    """Where the stores are, and the real model if there is one: `ollama` is the URL of its server."""

    weaviate: str
    grpc: int
    mongodb: str
    ollama: str | None = None
    model: str = MODEL


def services() -> Services:
    """From the variables that the tests use. SystemExit names the one that is missing, and the remedy."""
    return Services(
        variables.required("JERVIS_TEST_WEAVIATE_URL"),
        int(variables.required("JERVIS_TEST_WEAVIATE_GRPC_PORT")),
        variables.required("JERVIS_TEST_MONGODB_URI"),
        os.environ.get("JERVIS_TEST_OLLAMA_URL") or None,
        os.environ.get("JERVIS_TEST_OLLAMA_MODEL") or MODEL,
    )


@dataclass(frozen=True)
class Site:
    """A knowledge base that serves. `fake` is the simulator: it embeds, and without a real model it also answers."""

    kb: client.Client
    http: httpx.AsyncClient
    url: str
    spy: spies.Spy
    fake: process.Fake
    log: Path


@asynccontextmanager
async def opened(
    where: Services, today: datetime, *, root: Path = ROOT, width: int = 10, **settings: str
) -> AsyncIterator[Site]:
    """The knowledge base of the checkout at `root`, empty, with `today` as its date; its data goes at the end.

    `width` requests have models read for them at once. `settings` are more of `JERVIS_KB_*`, in small letters.
    """
    name = f"qualify_{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="bench-qualify-") as folder, process.running(num_parallel=8) as fake:
        async with spies.between(where.ollama or fake.url, fake.url) as spy:
            port = ports.free()
            given = {
                "host": "127.0.0.1",
                "port": str(port),
                "data_dir": f"{folder}/data",
                "router_url": spy.url,
                "weaviate_url": where.weaviate,
                "weaviate_grpc_port": str(where.grpc),
                "mongodb_uri": where.mongodb,
                "mongodb_database": name,
                "index": name,
                "embed_model": EMBED,
                "extract_model": where.model,
                "vision_model": where.model,
                "lane_width": str(width),
                "recovery_patience": "3600",
                "audit": "off",
                "log_level": "warning",
            }
            environment = {key: value for key, value in os.environ.items() if not key.startswith("JERVIS_")}
            environment |= {f"JERVIS_KB_{key.upper()}": value for key, value in (given | settings).items()}
            log = Path(folder) / "kb.log"
            running = _started(root, today, environment, log)
            try:
                url = f"http://127.0.0.1:{port}"
                async with httpx.AsyncClient(trust_env=False, timeout=600, verify=False) as http:
                    await _serving(running, http, url, log)
                    kb = client.Client(url, http, attempts=1)
                    # Models are loaded and collections made before anything is measured.
                    owner = scope.Scope(client_id="warm-up")
                    await kb.ingest(
                        api.IngestRequest(scope=owner, source_urn="a", kind="wiki", content="The rack is new.")
                    )
                    spy.calls.clear()
                    fake.forget()
                    yield Site(kb, http, url, spy, fake, log)
            finally:
                running.send_signal(signal.SIGTERM)
                try:
                    await asyncio.to_thread(running.wait, _STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    running.kill()
                    running.wait()
                await _cleaned(where, name)


def _started(root: Path, today: datetime, environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(Path(__file__).with_name("served.py")), today.isoformat()]
    environment = environment | {"PYTHONPATH": str(root.resolve())}
    with log.open("wb") as output:
        return subprocess.Popen(command, cwd=root, env=environment, stdout=output, stderr=output)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:]


async def _serving(running: subprocess.Popen[bytes], http: httpx.AsyncClient, url: str, log: Path) -> None:
    for _ in range(_START_TRIES):
        if running.poll() is not None:
            break
        try:
            if (await http.get(f"{url}/readyz")).is_success:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.05)
    raise RuntimeError(f"the knowledge base does not serve; the end of its log:\n{_end_of(log)}")


async def _cleaned(where: Services, name: str) -> None:
    store = weaviate.Store(where.weaviate, where.grpc, EMBED, index=name)
    await store.destroy()
    await store.close()
    with pymongo.MongoClient[dict[str, object]](where.mongodb) as database:
        database.drop_database(name)
