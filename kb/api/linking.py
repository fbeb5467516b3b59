"""The request to read a link, with what a person has said about it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import StringConstraints

from kb.api.ingest import IngestRequest


class LinkAnswer(StrEnum):
    """What a person says about a link that is Unclear: about its page (Yes, No), or about its host from now on (Always,
    Never). None of them opens what is never opened.
    """

    YES = "Yes"
    NO = "No"
    ALWAYS = "Always"
    NEVER = "Never"


class LinkRequest(IngestRequest):
    """A link to read. `answer` is a person's, to the question that an earlier reading of the link had."""

    answer: LinkAnswer | None = None
    answered_by: Annotated[str, StringConstraints(max_length=253)] = ""

    def document(self) -> IngestRequest:
        """Without the answer."""
        return IngestRequest.model_construct(**{name: getattr(self, name) for name in IngestRequest.model_fields})
