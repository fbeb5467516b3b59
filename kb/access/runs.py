"""What a run token opens: its own scope, to read, by the routes that a run calls; nothing of the service's upkeep.

The token of a Job that analyzes code writes in its own scope what the Job found, and reads nothing else.
A new route is closed to runs until it stands here.
"""

from __future__ import annotations

from dataclasses import dataclass

from crds import priority, runtoken, scope

_ROUTES = frozenset(
    {
        # The tools for agents: each counts as a call of its routes.
        ("POST", "/mcp"),
        ("GET", "/api/v1/rules"),
        ("GET", "/api/v1/user-context"),
        ("GET", "/api/v1/content/{key}"),
        ("GET", "/api/v1/memory/task/{uid}"),
        ("GET", "/api/v1/memory/session"),
        ("GET", "/api/v1/memory/procedural"),
        ("GET", "/api/v1/chunks/{chunkId}"),
        ("POST", "/api/v1/retrieve"),
        ("POST", "/api/v1/search/hybrid"),
        ("POST", "/api/v1/chunks/by-kind"),
        ("GET", "/api/v1/graph/nodes"),
        ("POST", "/api/v1/graph/traverse"),
        ("GET", "/api/v1/graph/relationship"),
        ("POST", "/api/v1/code/callers"),
        ("POST", "/api/v1/code/callees"),
        ("POST", "/api/v1/code/impact"),
        ("POST", "/api/v1/code/path"),
        ("POST", "/api/v1/code/where"),
        ("POST", "/api/v1/code/map"),
        ("POST", "/api/v1/code/history"),
        ("POST", "/api/v1/code/neighbourhood"),
    }
)
_ANALYSIS_ROUTES = frozenset(
    {
        ("POST", "/api/v1/content"),
        ("POST", "/api/v1/ingest/git-structure"),
        ("POST", "/api/v1/ingest/cpg"),
        ("POST", "/api/v1/analyze/code/{id}/result"),
    }
)
"""What a Job that analyzes code hands over, in its own scope; of a structure, that of its own repository."""


@dataclass(frozen=True, slots=True)
class Pass:
    """The rights of one verified run token."""

    claims: runtoken.Claims

    @property
    def name(self) -> str:
        """For messages and logs: the run, without anything of its content."""
        if self.claims.analysis:
            return f"analysis {self.claims.task_uid} in {self.claims.namespace}"
        return f"run {self.claims.attempt} of task {self.claims.task_uid} in {self.claims.namespace}"

    @property
    def erase(self) -> bool:
        """Never."""
        return False

    @property
    def ceiling(self) -> priority.Priority:
        """The most urgent priority that counts."""
        return self.claims.ceiling

    @property
    def principals(self) -> tuple[str, ...]:
        """As whom it asks; (): it sees all of its scope."""
        return self.claims.principals

    def permits(self, method: str, route: str) -> bool:
        """Whether a run may call the route at all; `route` as it is registered, with its parameters' names."""
        return (method, route) in (_ANALYSIS_ROUTES if self.claims.analysis else _ROUTES)

    def allows(self, where: scope.Scope, *, writing: bool) -> bool:
        """Whether it may read in `where`: exactly its scope, and what belongs to no client. An analysis may write
        in its scope, and has nothing to do with what belongs to no client."""
        if self.claims.analysis:
            return where == self.claims.scope
        return not writing and (where.is_global or where == self.claims.scope)
