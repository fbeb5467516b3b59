"""The routes of the code graph, a row each (`contracts.http_routes`); the service of the knowledge base has them.

A new route is a row here, a handler in `kb.service.http`, and a method in `codegraph.client` where something calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pydantic

from codegraph import api
from contracts.http_routes import SCOPE, Caller, Route

_Reply = TypeVar("_Reply", bound=pydantic.BaseModel)


def _question(
    kind: str, summary: str, asked: Callable[[], type[api.CodeQuestion]], reply: Callable[[], type[_Reply]]
) -> Route[_Reply]:
    """A question that is sent as a body; a run asks it, and principals see what they may."""
    callers = frozenset({Caller.RUN})
    path = f"/api/v1/code/{kind}"
    return Route("POST", path, summary, body=asked, reply=reply, asks=True, principals=True, callers=callers)


# --- Questions about a branch
CALLERS = _question("callers", "Who calls a function, method or class", lambda: api.Callers, lambda: api.CallsReply)
CALLEES = _question("callees", "What a function or method calls", lambda: api.Callers, lambda: api.CallsReply)
IMPACT = _question(
    "impact",
    "What may break when a declaration changes, and the tests to run",
    lambda: api.Impact,
    lambda: api.ImpactReply,
)
PATH = _question(
    "path",
    "The shortest way by calls from one declaration to another",
    lambda: api.CodePath,
    lambda: api.PathReply,
)
WHERE = _question(
    "where", "Files and functions that the text of an issue is about", lambda: api.CodeWhere, lambda: api.WhereReply
)
MAP = _question(
    "map", "An outline of a repository within a number of tokens", lambda: api.CodeMap, lambda: api.MapReply
)
HISTORY = _question(
    "history",
    "Which commits changed a declaration or a file",
    lambda: api.CodeHistory,
    lambda: api.HistoryReply,
)
NEIGHBOURHOOD = _question(
    "neighbourhood",
    "The callers and callees of a declaration, one or two steps away",
    lambda: api.CodeNeighbourhood,
    lambda: api.NeighbourhoodReply,
)

# --- What is known of a branch
GIT_STRUCTURE = Route(
    "POST",
    "/api/v1/ingest/git-structure",
    "Make the source files of a branch known without a model: send the tree, then the contents that are missing",
    body=lambda: api.GitStructure,
    reply=lambda: api.GitStructureReply,
    callers=frozenset({Caller.ANALYSIS}),
    observed=True,
)
CPG = Route(
    "POST",
    "/api/v1/ingest/cpg",
    "Put what Joern says beside the structure of a branch at the same commit",
    body=lambda: api.Cpg,
    reply=lambda: api.CpgReply,
    callers=frozenset({Caller.ANALYSIS}),
)

# --- Ad-hoc queries of Joern
QUERY_ASK = Route(
    "POST",
    "/api/v1/analyze/code",
    "Run a query of Joern about a branch; off unless the installation allows it",
    status=202,
    body=lambda: api.CodeQuery,
    reply=lambda: api.CodeAnswer,
)
QUERY_SHOW = Route(
    "GET", "/api/v1/analyze/code/{id}", "What became of a query", reply=lambda: api.CodeAnswer, query=SCOPE
)
QUERY_CLAIM = Route(
    "POST",
    "/api/v1/analyze/code/claims",
    "For the operator: all queries that run, after waiting ones were let go up to a number",
    body=lambda: api.QueryClaim,
    reply=lambda: api.QueryClaims,
)
QUERY_MADE = Route(
    "POST",
    "/api/v1/analyze/code/{id}/job",
    "For the operator: the Job of a query exists",
    body=lambda: api.QueryMade,
    reply=lambda: api.CodeAnswer,
)
QUERY_END = Route(
    "POST",
    "/api/v1/analyze/code/{id}/result",
    "For the Job of a query: its result, or why there is none",
    body=lambda: api.QueryResult,
    reply=lambda: api.CodeAnswer,
    callers=frozenset({Caller.ANALYSIS}),
)

ALL: tuple[Route[pydantic.BaseModel], ...] = tuple(
    value for value in tuple(vars().values()) if isinstance(value, Route)
)
"""Every row."""
