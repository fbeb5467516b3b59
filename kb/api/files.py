"""Files, and files that came with documents: how those are named, and what was made of them."""

from __future__ import annotations

import hashlib
from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints

from contracts.api import message
from crds import scope
from kb.api import ingest
from kb.api.words import Text

ATTACHMENT = "attachment"
"""The kind of documents that came with another one."""


def attachment_urn(attached_to: str, name: str) -> str:
    """The source URN of a file that came with the document `attached_to`; the same two always give the same."""
    # What stands between document and name stands in no name, so that a URN says whose file it is.
    return f"{_attachments(attached_to)}{' '.join(name.split()).replace(_NAMED, f', {_NAMED[1:]}')}"


def attachment_sources(attached_to: str) -> str:
    """All attachments of a document as a member of `sources`."""
    return f"{_attachments(attached_to)}*"


def attached_to(urn: str) -> str | None:
    """The URN of the document that an attachment's URN names; None for any other URN, or one that was too long."""
    of, mark, _ = urn.rpartition(_NAMED)
    return of.removeprefix(_OF) if mark and of.startswith(_OF) and _CUT not in of else None


def came_with(urn: str, document: str) -> bool:
    """Whether the URN is of a file that came with this very document."""
    return urn.rpartition(_NAMED)[0] + _NAMED == _attachments(document)


_OF, _NAMED, _CUT = "attachment::of:", ",name:", "~sha256-"


def _attachments(document: str) -> str:
    # With a name of 255 characters it stays within the 1024 of a URN.
    if len(document) > 700:
        document = f"{document[:600]}{_CUT}{hashlib.sha256(document.encode()).hexdigest()[:16]}"
    return f"{_OF}{document}{_NAMED}"


class AttachmentDraft(message.Request):
    """A stored file (`contentRef`, of the same scope) that came with the document `attachedTo`, titled `title`.

    Its type is what its bytes say. The same name at the same document replaces what was known from it before. With
    `looks` false the pages of a PDF are read by their text alone.
    """

    scope: scope.Scope
    attached_to: message.Urn
    name: Annotated[Text, StringConstraints(max_length=255)]
    content_ref: ingest.ContentRef
    title: Annotated[str, StringConstraints(max_length=1000)] = ""
    observed_at: AwareDatetime | None = None
    looks: bool = True


class FileReply(ingest.IndexReply):
    """What was made of a file: its type as its content says, its bytes, the characters of its text.

    `pages`: those of a PDF that have little text, so that a vision model looked at them; `problems` name those that it
    could not look at, too. `pageImages`: images of its
    pages are stored soon (`/search/pages`).
    """

    media_type: str
    characters: int
    title: str
    size: int
    pages: list[int] = Field(default_factory=list)
    page_images: bool = False
