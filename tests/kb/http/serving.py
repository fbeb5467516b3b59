"""The HTTP application over a test's world, on a real loopback socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from aiohttp import test_utils

from kb import client, metrics, wire
from kb.http import app, content, health, knowledge
from kb.ingest import lanes
from kb.retrieve import search
from tests.kb import world


@asynccontextmanager
async def over(
    made: world.World, meters: metrics.Metrics, *, width: int = 5, waiting: int = 200
) -> AsyncIterator[tuple[client.Client, httpx.AsyncClient]]:
    """The typed door and a raw client, both at the service's root."""
    faces = app.Faces(
        knowledge.Writing(made.pipeline, lanes.Lanes(meters, width=width, waiting=waiting)),
        knowledge.Reading(made.finder(search.Breadth())),
        content.Content(made.content, limit=100_000),
        health.Health({"weaviate": made.vectors.ready, "mongodb": made.content.ready}, meters),
    )
    server = test_utils.TestServer(app.build(faces, meters, max_body=50_000, version=wire.VERSION))
    await server.start_server()
    base = str(server.make_url("")).rstrip("/")
    try:
        async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=30) as http:
            yield client.Client(base, http), http
    finally:
        await server.close()
