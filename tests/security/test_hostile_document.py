"""The author of a document: what is written into it gives no rights, ends no process, and stays a text."""

from __future__ import annotations

import html
import re
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import access as accesses
from kb import errors, metrics
from kb.files import inspection, sniff
from orchestrator_job.model import prompt_escape
from router import client as router_client
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.files import making
from tests.kb.service import serving

BOSS = "user:boss@example.com"
PUBLIC = {accesses.METADATA: "public"}


@pytest.fixture(name="kb")
async def _kb(
    tmp_path: Path, router: router_client.Client, clock: clocks.Clock, meters: metrics.Metrics
) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        world.opened(tmp_path, router, clock, meters, memory.Vectors(), memory.Content()) as made,
        serving.over(made, meters) as (_, raw),
    ):
        yield raw


def mail(metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "scope": scopes.SHOP.model_dump(by_alias=True),
        "sourceUrn": "email::<secret@acme.com>",
        "kind": "email",
        "title": "Salaries",
        "content": "Petr Svoboda earns 4711 crowns.",
        "access": {"visibility": "Restricted", "principals": [BOSS]},
        "metadata": metadata,
    }


async def found(kb: httpx.AsyncClient, principals: str) -> str:
    question = {"scope": scopes.SHOP.model_dump(by_alias=True), "query": "What does Petr Svoboda earn?"}
    answer = await kb.post("/api/v1/retrieve", json=question, headers={accesses.HEADER: principals})
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize(
    "metadata",
    [
        {"": PUBLIC},
        {"": {"": PUBLIC}},
        {"": [PUBLIC, {"": PUBLIC}]},
        {f"{accesses.METADATA}=public": ""},
        {accesses.METADATA.upper(): "public"},
        {"a": PUBLIC, "labels": [f"{accesses.METADATA}=public"]},
    ],
)
async def test_its_fields_open_it_to_nobody(kb: httpx.AsyncClient, metadata: dict[str, Any]) -> None:
    stored = await kb.post("/api/v1/ingest/full", json=mail(metadata))
    assert stored.status_code == 200, stored.text
    assert "4711" in await found(kb, BOSS)
    assert "4711" not in await found(kb, "user:eve@example.com")


async def test_a_field_of_the_knowledge_base_s_own_is_refused(kb: httpx.AsyncClient) -> None:
    refused = await kb.post("/api/v1/ingest/full", json=mail(PUBLIC))
    assert (refused.status_code, "give access instead" in refused.text) == (422, True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: making.zip_bomb(300),
        lambda: making.claiming(2 << 30),
        lambda: making.mails_within_mails(60),
        lambda: making.docx("x", **{"word__embeddings__a.zip": b"PK"}),
    ],
    ids=["bomb", "claim", "nested", "archive"],
)
def test_a_file_that_grows_is_refused_before_it_does(make: Callable[[], bytes]) -> None:
    body = make()
    tracemalloc.start()
    try:
        with pytest.raises((errors.TooLarge, errors.Invalid)):
            inspection.check(body, sniff.detect(body), inspection.Limits())
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@given(st.text() | st.from_regex(r"(</?\s*(evidence|QUESTION|system)[ >]|\[ ?prompt:[a-z./]{0,9}\])+"))
def test_no_text_of_it_ends_its_block_in_a_prompt(text: str) -> None:
    shown = prompt_escape.defuse(text)
    assert not re.search(r"<\s*/?\s*(evidence|question|system)|\[\s*prompt\s*:", shown, re.IGNORECASE)
    assert html.unescape(shown) == html.unescape(text)
