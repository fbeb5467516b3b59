"""A document taken apart: what its heading says, and what changes the ids of its chunks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from kb.extract import draft
from tests.kb import world

NOON = datetime.fromisoformat("2026-03-02T12:00:00Z")
THERE = datetime.fromisoformat("2026-03-02T13:00:00+01:00")
LATER = datetime.fromisoformat("2026-03-09T08:30:00Z")


def made(observed: datetime, kind: str = "email", **more: Any) -> draft.Draft:
    asked = world.request("One sentence. Another one.", kind=kind, observed_at=observed, **more)
    return draft.make(asked, asked.content or "", size=4000, overlap=200)


def test_one_moment_is_one_document_in_whatever_zone_it_is_told() -> None:
    assert made(NOON) == made(THERE)
    assert made(NOON).heading == "Login bug | 2026-03-02 12:00"


@pytest.mark.parametrize("kind", ["wiki_page", "file", "confluence", "document"])
def test_a_page_that_is_saved_again_keeps_its_chunks(kind: str) -> None:
    assert made(NOON, kind) == made(LATER, kind)
    assert made(NOON, kind).heading == "Login bug"


@pytest.mark.parametrize("kind", ["email", "EmailProcessing", "chat", "bugtracker"])
def test_what_is_said_at_a_time_says_it(kind: str) -> None:
    assert made(NOON, kind).pieces[0].id != made(LATER, kind).pieces[0].id


def test_who_speaks_does_so_at_a_time() -> None:
    assert made(NOON, "note", metadata={"author": "Jana"}).heading == "Login bug | Jana | 2026-03-02 12:00"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_that_utc_cannot_say_stays_as_it_was_told(text: str) -> None:
    assert made(datetime.fromisoformat(text)).heading == f"Login bug | {text[:10]} {text[11:16]}"
