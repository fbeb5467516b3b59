"""What the phases of one run share beside the state: what is asked about, and the reading of its chunks beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from crds import errors as root
from crds import priority
from kb import api, errors
from kb.extract import answers, document_node, draft, extraction
from kb.rules import overrides


class Extracted(Protocol):
    """What was said in the chunks of a draft."""

    @property
    def problems(self) -> list[str]:
        """The passages that nothing usable was said about."""
        ...

    @property
    def extractions(self) -> Mapping[str, extraction.Extraction]:
        """By chunk id."""
        ...


@dataclass
class Run:
    """One run: what is asked about, and what the phases share beside the state."""

    request: api.IngestRequest
    text: str
    made: draft.Draft
    urgency: priority.Priority
    read: Callable[[draft.Draft, answers.Spent], Awaitable[Extracted]]
    monotonic: Callable[[], float]
    prompt_rules: Sequence[str] = ()
    overrides: overrides.Overrides = overrides.NONE
    earlier: str = ""
    stopped: root.JervisError | None = None
    unjudged: errors.Unusable | None = None
    chunks: asyncio.Task[Extracted | root.JervisError] | None = None
    chunks_spent: answers.Spent = field(default_factory=answers.Spent)
    chunk_seconds: float = 0.0

    @property
    def sight(self) -> priority.Priority:
        """Images are looked at before what runs in the background: a document waits for them."""
        return min(self.urgency, priority.Priority.P2)

    def start_chunks(self) -> None:
        """Have the chunks read from now on."""
        if self.chunks is None:
            self.chunks = asyncio.create_task(self._read_chunks())

    async def forget_chunks(self) -> None:
        """What is still being read of the chunks is not needed any more."""
        if self.chunks is not None:
            self.chunks.cancel()
            await asyncio.gather(self.chunks, return_exceptions=True)
            self.chunks = None

    async def _read_chunks(self) -> Extracted | root.JervisError:
        since = self.monotonic()
        try:
            return await self.read(self.made, self.chunks_spent)
        except root.JervisError as error:
            return error
        finally:
            self.chunk_seconds = self.monotonic() - since

    @property
    def derived(self) -> document_node.DocumentNode:
        """What the sourceUrn calls the document."""
        return document_node.derive(self.request.source_urn, self.request.kind, self.request.scope)
