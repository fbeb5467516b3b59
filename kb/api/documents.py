"""The documents that are known, and how far each has come."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from contracts.api import message
from crds import scope

State = Literal["Extracted", "Indexed", "Unfinished", "Failed"]


class DocumentVersion(message.Reply):
    """A version that was replaced, and is kept for `asOf`: valid from a moment (null: always) until another one."""

    title: str
    valid_from: AwareDatetime | None = None
    valid_until: AwareDatetime | None = None


class Document(message.Reply):
    """A document and its state.

    Extracted    found by words, vectors and the graph
    Indexed      found by words and vectors; its extraction waits in the queue (`reason` of its last attempt)
    Unfinished   a request is open: what is shown, if `chunks` is not 0, is the version before it
    Failed       the last request failed for `reason`; what is shown, if `chunks` is not 0, is the version before it

    `kind`, `title`, `observedAt` and `validFrom` (null: always) are those of the version that is shown, "" and null
    where none is; `versions` are those before it that are kept, the latest first.
    """

    id: str
    scope: scope.Scope
    source_urn: str
    kind: str
    title: str
    state: State
    chunks: int
    reason: str
    observed_at: AwareDatetime | None = None
    valid_from: AwareDatetime | None = None
    versions: list[DocumentVersion] = Field(default_factory=list)


class Documents(message.Reply):
    """A page of documents, in order of their ids; `next` is where the following one starts, null after the last."""

    documents: list[Document]
    next: str | None = None
