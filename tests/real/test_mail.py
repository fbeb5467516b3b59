"""A mail is read by a real model, found by its meaning, and nothing is stored that it does not say."""

from __future__ import annotations

import httpx
import pytest

from bench.real import corpus, facts, passes
from kb import api, client
from tests.kb.service import program
from tests.real import serving

pytestmark = pytest.mark.services

MAIL = """From: Ann Novak <ann@acme.example>
To: Team Router <router@acme.example>
Subject: Release of the router

The release of the router is planned for Friday the 13th of March 2026.
Bob Svoboda tests the failover on Wednesday.
The canteen serves soup.
"""
URN = "email::<release@acme.example>"
BESIDE = {
    "Parking": "From the first of May bicycles stand in the yard behind the house.",
    "Soup": "The canteen serves goulash and dumplings until the end of the month.",
}


def request(urn: str = URN, title: str = "Release", content: str = MAIL) -> api.IngestRequest:
    return api.IngestRequest(scope=passes.OWNER, source_urn=urn, kind="email", title=title, content=content)


async def test_one_mail_is_read_and_found(kb: program.Program, http: httpx.AsyncClient, ollama: serving.Ollama) -> None:
    reading = client.Client(kb.url, http, attempts=1)
    before = len(ollama.ended("/api/chat"))
    reply = await reading.ingest(request())
    assert reply.chunk_ids
    assert reply.problems == []
    assert set(ollama.ended("/api/chat")[before:]) == {200}
    document = corpus.Document(URN, "email", "en", "Release", MAIL, ())
    stored = await passes.read_back(reading, document, reply)
    assert facts.count(document, stored).invented == 0
    for title, content in BESIDE.items():
        await reading.ingest(request(f"email::<{title.lower()}@acme.example>", title, content))
    # No word of it but "the" stands in the mail.
    found = await reading.retrieve(api.RetrieveRequest(scope=passes.OWNER, query="Which date does the launch have?"))
    assert found.items[0].provenance.source_urn == URN
