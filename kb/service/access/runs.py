"""What a run token opens: its own scope, by the routes that a run calls; nothing of the service's upkeep.

A run reads, stores content, and adds what its tools are for: pages that it was allowed to fetch, what a user said. A
rule it writes with the right alone that its token has from a person's approval. A run on behalf of a user adds nothing
that others would see.

The token of a Job that analyzes code writes in its own scope what the Job found, and reads nothing else. That of a Job
that runs a command of an agent reads and stores content, the workspace and its result.
Which routes these are says their row (`contracts.http_routes.Caller`); a new one is closed to runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts.http_routes import Caller
from contracts.tokens import runtoken
from crds import priority, scope


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

    def permits(self, callers: frozenset[Caller]) -> bool:
        """Whether a run may call a route that is open to `callers`."""
        if self.claims.analysis:
            return Caller.ANALYSIS in callers
        if self.claims.sandbox:
            return Caller.SANDBOX in callers
        if Caller.APPROVED_RUN in callers and self.claims.rules:
            return True
        adds = Caller.ADDING_RUN in callers and not self.claims.principals
        return adds or Caller.RUN in callers or Caller.STORING_RUN in callers

    def reads(self, callers: frozenset[Caller]) -> bool:
        """Whether a run reads by a route that is open to `callers`: the tools at `/mcp` add nothing for it, because
        there is no person there who approves."""
        return self._runs and Caller.RUN in callers

    def allows(self, where: scope.Scope, *, writing: bool) -> bool:
        """Whether it may read or write in `where`: exactly its scope, and to read, what belongs to no client. The
        Jobs beside a run have nothing to do with that."""
        reads_global = where.is_global and not writing and self._runs
        return reads_global or where == self.claims.scope

    @property
    def _runs(self) -> bool:
        """Whether it is of a run itself."""
        return not self.claims.analysis and not self.claims.sandbox
