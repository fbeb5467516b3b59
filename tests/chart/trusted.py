"""Every client of ours that may meet TLS, asked until it is killed: `python -m tests.chart.trusted {client: port}`.

A process of its own, because most of them read the environment once. Errors are passed over: each server sees whether
its certificate was accepted, and no real one is behind it. A client that gave up before it had judged is asked again.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import httpx
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from clients import tls_trust
from kb import mongo
from kb.graph.arango import connection as arango
from kb.vectors.weaviate import connection as weaviate
from orchestrator_job.store import mongo as runs
from router.proxy import pool

PAUSE = 0.5
"""Seconds until a client is asked again."""
PATIENCE = 30.0
"""Seconds of the clients whose patience is a parameter."""


async def operator_and_knowledge_base_at_mongodb(port: int) -> None:
    database = mongo.Database(f"mongodb://localhost:{port}/?tls=true", "jervis", patience=PATIENCE)
    try:
        await database["any"].find_one({})
    finally:
        await database.close()


async def run_at_mongodb(port: int) -> None:
    with runs.connect(f"mongodb://localhost:{port}/?tls=true") as database:
        await asyncio.to_thread(database.server_info)


async def weaviate_by_http(port: int) -> None:
    await weaviate.Connection(f"https://localhost:{port}", 1, "model").ready()


async def weaviate_by_grpc(port: int) -> None:
    # Anything but HTTP answers there, so the way to gRPC is asked for itself.
    driver = weaviate.Connection("https://localhost:1", port, "model")._client._connection
    driver.open_connection_grpc("async")
    channel = driver._grpc_channel
    assert channel is not None
    try:
        await channel.channel_ready()
    finally:
        await channel.close()


async def arangodb(port: int) -> None:
    await arango.Connection(f"https://localhost:{port}", "jervis", "root", "").ready()


async def router_at_a_backend(port: int) -> None:
    await pool.Pool(f"https://localhost:{port}").connect()


async def operator_at_a_backend_and_knowledge_base_at_tika(port: int) -> None:
    async with httpx.AsyncClient(verify=tls_trust.context(), trust_env=False, timeout=PATIENCE) as http:
        await http.get(f"https://localhost:{port}/")


async def collector_of_spans(port: int) -> None:
    spans = OTLPSpanExporter(endpoint=f"https://localhost:{port}/v1/traces", timeout=PATIENCE)
    await asyncio.to_thread(spans.export, [])


CLIENTS: dict[str, Callable[[int], Awaitable[None]]] = {
    one.__name__: one
    for one in (
        operator_and_knowledge_base_at_mongodb, run_at_mongodb, weaviate_by_http, weaviate_by_grpc, arangodb,
        router_at_a_backend, operator_at_a_backend_and_knowledge_base_at_tika, collector_of_spans,
    )
}  # fmt: skip


async def all_at(ports: dict[str, int]) -> None:
    """Each client at its port, at the same time, again and again."""

    async def one(name: str, port: int) -> None:
        while True:
            with suppress(Exception):
                await CLIENTS[name](port)
            await asyncio.sleep(PAUSE)

    await asyncio.gather(*(one(name, port) for name, port in ports.items()))


if __name__ == "__main__":
    asyncio.run(all_at(json.loads(sys.argv[1])))
