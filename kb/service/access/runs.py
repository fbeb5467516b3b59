"""What a run token opens: its own scope, by the routes that a run calls; nothing of the service's upkeep.

A run reads, stores content, and adds what its tools are for: pages that it was allowed to fetch, what a user said. A
rule it writes with the right alone that its token has from a person's approval. A run on behalf of a user adds nothing
that others would see.

The token of a Job that analyzes code writes in its own scope what the Job found, and reads nothing else. That of a Job
that runs a command of an agent reads and stores content, the workspace and its result.
A new route is closed to runs until it stands here.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts.tokens import runtoken
from crds import priority, scope

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
        # The decision agent answers a run's own question (`orchestrator_job.run.consult`).
        ("POST", "/api/v1/agentic_search"),
        ("GET", "/api/v1/agentic_search/{stream}"),
        ("DELETE", "/api/v1/agentic_search/{stream}"),
    }
)
_CONTENT = ("POST", "/api/v1/content")
_ADDS = frozenset(
    {
        ("POST", "/api/v1/crawl"),
        ("POST", "/api/v1/store"),
        ("PUT", "/api/v1/memory/procedural"),
        ("POST", "/api/v1/memory/procedural/uses"),
    }
)
"""What the tools of a run write beside content, which is found by its key alone."""
_RULES = ("PUT", "/api/v1/rules")
"""Only for the run of a task in which a person has approved a rule, and only that rule (`kb.service.http.rules`)."""
_ANALYSIS_ROUTES = frozenset(
    {
        _CONTENT,
        ("POST", "/api/v1/ingest/git-structure"),
        ("POST", "/api/v1/ingest/cpg"),
        ("POST", "/api/v1/analyze/code/{id}/result"),
    }
)
"""What a Job that analyzes code hands over, in its own scope; of a structure, that of its own repository."""


_SANDBOX_ROUTES = frozenset({_CONTENT, ("GET", "/api/v1/content/{key}")})


@dataclass(frozen=True, slots=True)
class Pass:
    """The rights of one verified run token."""

    claims: runtoken.Claims

    @property
    def name(self) -> str:
        """For messages and logs: the run, without anything of its content."""
        if self.claims.analysis:
            return f"analysis {self.claims.task_uid} in {self.claims.namespace}"
        if self.claims.sandbox:
            return f"sandbox of task {self.claims.task_uid} in {self.claims.namespace}"
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
        asked = (method, route)
        if self.claims.analysis:
            return asked in _ANALYSIS_ROUTES
        if self.claims.sandbox:
            return asked in _SANDBOX_ROUTES
        if asked == _RULES:
            return bool(self.claims.rules)
        return asked in _ROUTES or asked == _CONTENT or (asked in _ADDS and not self.claims.principals)

    def reads(self, method: str, route: str) -> bool:
        """Whether the route is one of those that a run reads by: the tools at `/mcp` add nothing for it, because there
        is no person there who approves."""
        return self._runs and (method, route) in _ROUTES

    def allows(self, where: scope.Scope, *, writing: bool) -> bool:
        """Whether it may read or write in `where`: exactly its scope, and to read, what belongs to no client. The
        Jobs beside a run have nothing to do with that."""
        reads_global = where.is_global and not writing and self._runs
        return reads_global or where == self.claims.scope

    @property
    def _runs(self) -> bool:
        """Whether it is of a run itself."""
        return not self.claims.analysis and not self.claims.sandbox
