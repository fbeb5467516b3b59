"""A mail is read by a real model, found by its meaning, and nothing is stored that it does not say."""

from __future__ import annotations

import httpx
import pytest

from bench.real import corpus, facts, passes
from kb import api, client
from tests.kb.http import program
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


def request() -> api.IngestRequest:
    return api.IngestRequest(scope=passes.OWNER, source_urn=URN, kind="email", title="Release", content=MAIL)


async def test_one_mail_is_read_and_found(kb: program.Program, http: httpx.AsyncClient, ollama: serving.Ollama) -> None:
    reading = client.Client(kb.url, http, attempts=1)
    reply = await reading.ingest(request())
    assert reply.chunk_ids
    assert reply.problems == []
    assert set(ollama.ended("/api/chat")) == {200}
    document = corpus.Document(URN, "email", "en", "Release", MAIL, ())
    stored = await passes.read_back(reading, document, reply)
    assert facts.count(document, stored).invented == 0
    found = await reading.retrieve(api.RetrieveRequest(scope=passes.OWNER, query="When does the router come out?"))
    assert URN in {item.provenance.source_urn for item in found.items}
