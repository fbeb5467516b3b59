"""What of a repository needs no model: commits and the source files of branches go straight to the knowledge base.

A request of a process that was frozen, whose successor may have newer ones, is refused there.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kb import api
from kb import client as kb
from sources import metrics
from sources.core import assignments, port


class DirectIngest:
    """`wall` gives the time in UTC."""

    def __init__(
        self,
        knowledge: kb.Client,
        assigned: assignments.Assignments,
        measured: metrics.Metrics,
        *,
        wall: Callable[[], datetime],
    ) -> None:
        self._kb, self._assigned, self._metrics, self._wall = knowledge, assigned, measured, wall

    async def commit(self, claim: assignments.Claim, request: api.GitCommits) -> list[port.Failure]:
        """Have commits known; those that can never be. Raises `kb.Unavailable` where they can be later."""
        try:
            reply = await self._kb.git_commits(request, on=claim.observation)
        except kb.Rejected as error:
            await self._outrun(claim, error)
            theirs = (error.field or "").startswith(("commits", "contents"))
            if not request.commits or not (error.status == 413 or theirs):
                raise  # not because of a commit: a right, an address
            if len(request.commits) == 1 and request.contents:
                return await self.commit(claim, request.model_copy(update={"contents": {}}))
            if len(request.commits) == 1:
                commit = request.commits[0]
                title = commit.message.partition("\n")[0][:200]
                return [port.Failure(f"commit:{commit.hash}", title, error.message)]
            # One of them is the cause: the others pass.
            half = len(request.commits) // 2
            parts = request.commits[:half], request.commits[half:]
            asked = [request.model_copy(update={"commits": part, "removed": []}) for part in parts]
            if request.removed:
                asked.append(request.model_copy(update={"commits": []}))
            return [failure for part in asked for failure in await self.commit(claim, part)]
        titles = {one.hash: one.message.partition("\n")[0][:200] for one in request.commits}
        failed = []
        for one in reply.outcomes:
            self._metrics.commits.labels(one.result).inc()
            if one.result == "Failed":
                why = one.problem.message if one.problem else "The knowledge base does not say why."
                if one.retryable:
                    raise kb.Unavailable(f"The knowledge base has not stored commit {one.hash[:12]} yet: {why}")
                failed.append(port.Failure(f"commit:{one.hash}", titles.get(one.hash, one.hash), why))
        return failed

    async def _outrun(self, claim: assignments.Claim, error: kb.Rejected) -> None:
        """Raises `Lost` where the knowledge base refuses a request because another process has the Connection now."""
        if error.code == "conflict":
            self._metrics.outrun.inc()
            await self._assigned.renew(claim, self._wall())

    async def structure(self, claim: assignments.Claim, tree: port.Tree) -> list[port.Failure]:
        """Have the source files of a branch known; those that cannot be. Raises `kb.Unavailable`, as `commit`."""
        request = tree.request.model_copy(update={"access": claim.spec.access})
        try:
            reply = await self._kb.code.send(request, tree.read, on=claim.observation)
        except kb.Rejected as error:
            await self._outrun(claim, error)
            if error.status == 403:
                raise
            return [port.Failure(f"code:{request.branch}", f"Code of branch {request.branch}"[:200], error.message)]
        return [
            port.Failure(f"code:{request.branch}:{one.path}"[:512], one.path[:200], one.problem.message)
            for one in reply.failed
        ]
