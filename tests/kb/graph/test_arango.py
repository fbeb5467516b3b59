"""The production graph store. Its contract runs where JERVIS_TEST_ARANGO_URL names a server."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from string import ascii_letters, digits

import pytest
from arango.client import ArangoClient
from hypothesis import given
from hypothesis import strategies as st

from kb import errors
from kb.graph import arango
from kb.graph.arango import keys
from tests.kb import ports, scopes
from tests.kb.graph import contract

URL = os.environ.get("JERVIS_TEST_ARANGO_URL", "")


@pytest.fixture
async def store() -> AsyncIterator[arango.Store]:
    """A database of its own, dropped afterwards."""
    client = ArangoClient(hosts=URL)
    password = os.environ.get("JERVIS_TEST_ARANGO_PASSWORD", "")
    system = client.db("_system", username="root", password=password)
    name = f"test_kb_{uuid.uuid4().hex[:12]}"
    system.create_database(name)
    opened = arango.Store(URL, name, "root", password)
    yield opened
    await opened.close()
    system.delete_database(name)
    client.close()


@pytest.mark.skipif(not URL, reason="JERVIS_TEST_ARANGO_URL is not set: the ArangoDB store was NOT tested")
class TestArango(contract.Contract):
    """The contract on the real thing."""


@given(st.text(min_size=1, max_size=300))
def test_any_text_makes_a_key_that_arangodb_takes(text: str) -> None:
    key = keys.safe_key(text)
    assert 0 < len(key.encode()) <= 254
    assert set(key) <= set(ascii_letters + digits + "_-:.@()+,=;$!*'%")


def test_keys_stay_apart_and_readable() -> None:
    assert keys.safe_key("jira::JERV-123") == "jira::JERV-123"
    assert keys.safe_key("file::src/Main.kt") == "file::src%2FMain.kt"
    long = ["x" * 199, "x" * 200, "x" * 201, "x" * 202, "y" + "x" * 300, "x" * 300 + "y", "é" * 100, "é" * 101]
    assert len({keys.safe_key(text) for text in long}) == len(long)
    assert keys.safe_key("x" * 200) == "x" * 200


async def test_a_server_that_is_not_there_is_away_and_the_start_does_not_wait_for_it() -> None:
    store = arango.Store(f"http://127.0.0.1:{ports.free()}", "any", "root", "")
    await store.prepare()
    with pytest.raises(errors.Away, match="arangodb"):
        await store.ready()
    with pytest.raises(errors.Away, match="arangodb"):
        await store.replace(scopes.SHOP, contract.patch(scopes.SHOP, "u:1", [("n:a", "to", "n:b")]))
    await store.close()
