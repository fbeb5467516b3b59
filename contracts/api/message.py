"""What every message of the API has in common: how names are written, and how a failure is answered.

Names are camelCase on the wire and snake_case in Python. Requests refuse unknown fields (a misspelt field is an error
that names it); replies ignore them, so that an older client can talk to a newer service.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    StringConstraints,
)
from pydantic.alias_generators import to_camel

VERSION = "1"
"""Of the wire format; the paths start with /api/v1."""

Urn = Annotated[str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True)]
Kind = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")]
Urgency = Literal["low", "normal", "high"]


class Request(BaseModel):
    """What a caller sends: strict about field names."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Reply(BaseModel):
    """What the service answers: tolerant of fields that a newer service adds."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)


Key = Annotated[str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True)]


class Problem(Reply):
    """Why a request failed: `field` is the dotted path of the wrong field, `remedy` one sentence on what to do."""

    code: str
    message: str
    field: str | None = None
    remedy: str | None = None


class ErrorReply(Reply):
    """The body of every answer that is not a success."""

    error: Problem
