"""Ad-hoc queries of Joern (seed 001 "Features": Code Analysis)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints, field_validator, model_validator

from contracts.api import message
from crds import scope

QUERY_BYTES = 8 << 10
RESULT_CHARS = 1 << 20
MOST_SECONDS = 3600
_Namespace = Annotated[str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
_Object = Annotated[str, StringConstraints(max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]
_Ref = Annotated[str, StringConstraints(max_length=255, pattern=r"^([^\s~^:?*\[\\-][^\s~^:?*\[\\]*)?$")]


class CodeQuery(message.Request):
    """A query in Joern's language about a branch that a Git Connection of the scope reads."""

    scope: scope.Scope
    namespace: _Namespace
    """Namespace of the Connection."""
    connection: _Object
    """Its name."""
    ref: _Ref = ""
    """Name of the branch; empty: the default branch."""
    query: Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
    """CPGQL, at most 8 KiB: an expression over `cpg`. It is a program."""
    seconds: Annotated[int, Field(ge=30, le=MOST_SECONDS)] = 600
    """Upper bound of its Job; the operator's setting is one too."""

    @field_validator("query")
    @classmethod
    def _short(cls, value: str) -> str:
        if len(value.encode(errors="replace")) > QUERY_BYTES:
            raise ValueError(f"a query has at most {QUERY_BYTES} bytes")
        return value


class QueryState(StrEnum):
    """How far a query is."""

    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class CodeAnswer(message.Reply):
    """A query and what became of it. `reason` is one CamelCase word, `message` a sentence, of one that failed."""

    id: str
    state: QueryState
    result: str = ""
    reason: str = ""
    message: str = ""
    commit: str = ""
    created_at: AwareDatetime
    expires_at: AwareDatetime


class QueryClaim(message.Request):
    """`most` queries may run at the same time."""

    most: Annotated[int, Field(ge=0, le=100)]


class QueryWork(message.Reply):
    """A query that runs. `job_uid`: of its Job, empty until that is known to exist."""

    id: str
    scope: scope.Scope
    namespace: str
    connection: str
    ref: str
    query: str
    seconds: int
    job_uid: str = ""


class QueryClaims(message.Reply):
    """All queries that run."""

    queries: list[QueryWork]


class QueryMade(message.Request):
    """The Job of a query exists."""

    job_uid: Annotated[str, StringConstraints(min_length=1, max_length=63)]


class QueryFailure(message.Request):
    """Why a query has no result."""

    reason: Annotated[str, StringConstraints(max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$")]
    message: Annotated[str, StringConstraints(max_length=4096)] = ""


class QueryResult(message.Request):
    """The end of a query: its result as text, or why there is none."""

    commit: Annotated[str, StringConstraints(max_length=64, pattern=r"^[0-9a-f]*$")] = ""
    result: Annotated[str, StringConstraints(max_length=RESULT_CHARS)] | None = None
    failure: QueryFailure | None = None

    @model_validator(mode="after")
    def _one(self) -> QueryResult:
        if (self.result is None) == (self.failure is None):
            raise ValueError("give exactly one of result and failure")
        return self
