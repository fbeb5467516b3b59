"""Texts that a run makes for people: stored in the knowledge base as content of the task's scope, sent nowhere."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from kb import client as kb_client
from orchestrator_job import outcome
from orchestrator_job.effects.tools import bounds, port
from orchestrator_job.effects.tools.connections import Line
from orchestrator_job.effects.tools.knowledge import Means


class SaveDraft(port.Arguments):
    """`name` is that of a file; `mediaType` as in text/markdown."""

    name: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^/\\]+$"), Line]
    media_type: Annotated[str, Field(max_length=127, pattern=r"^text/[A-Za-z0-9.+_-]+$|^application/json$")] = (
        "text/markdown"
    )
    text: Annotated[str, Field(min_length=1, max_length=400_000)]


class Draft:
    """A draft; the same text in the same scope has the same key."""

    name = "save_draft"
    description = "Store a text as a draft for a person: a mail, a page, a report, a form. It is sent nowhere."
    arguments = SaveDraft

    def __init__(self, means: Means) -> None:
        self._means = means

    async def read(self, given: SaveDraft, place: port.Place) -> port.Result:
        """Its key. Raises `kb_client.Unavailable`."""
        return await save(self._means, given.name, given.media_type, given.text.encode(errors="replace"))


async def save(means: Means, name: str, media_type: str, raw: bytes) -> port.Result:
    """Store it. Raises `kb_client.Unavailable`."""
    try:
        ref = await means.kb.store(means.viewer, raw, media_type)
    except kb_client.Rejected as error:
        outcome.recheck(error)
        return bounds.failed(error)
    data: dict[str, JsonValue] = {
        "name": name,
        "mediaType": media_type,
        "contentRef": ref.model_dump(mode="json", by_alias=True),
    }
    return port.Result(f"Stored {name!r} ({len(raw)} bytes) under the key {ref.key}.", data, artifacts=(ref.key,))
