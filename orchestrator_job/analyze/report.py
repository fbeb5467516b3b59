"""What was found out about a branch, handed to the knowledge base: overview, structure, Joern's export, an answer.

Each step is safe to repeat. A failure of one is the outcome of the container, not its end: what other steps found
stays. The calls of one step are repeated by `kb.client`; what stays away after that is a failure like others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from codegraph import api
from crds import errors, scope
from kb import client as kb_client
from orchestrator_job.analyze import layout
from orchestrator_job.analyze.layout import Failure, Work
from sources.providers.git import overview, tree

OVERVIEW, STRUCTURE, CPG = "Overview", "Structure", "Cpg"
_STALE = 409
_PAUSE = 5.0
_T = TypeVar("_T")


class Report:
    """Of one container. `owner` is the scope of all that is stored; a service that is away is asked for `seconds`."""

    def __init__(
        self,
        kb: kb_client.Client,
        work: Work,
        owner: scope.Scope,
        seconds: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kb, self._work, self._owner = kb, work, owner
        self._deadline, self._monotonic, self._sleep = monotonic() + seconds, monotonic, sleep

    async def steps(self, asked: Sequence[str]) -> tuple[dict[str, Any], Failure | None]:
        """Do these steps: what they found, for the termination message, and the first failure."""
        try:
            source = self._work.source()
        except Failure as error:
            return {}, error
        found: dict[str, Any] = source.model_dump(exclude={"default"})
        first: Failure | None = None
        known = {OVERVIEW: self._overview, STRUCTURE: self._structure, CPG: self._cpg}
        for name in asked:
            try:
                found |= await known[name](source)
            except Failure as error:
                first = first or error
            except errors.JervisError as error:
                first = first or Failure("RepositoryUnreadable", error.message)
        return found, first

    async def answered(self, query: str) -> tuple[dict[str, Any], Failure | None]:
        """Hand the answer of the query with that id over. The id is not shown to Joern."""
        commit, failure = "", None
        try:
            commit = self._work.source().commit
            answer = self._work.answer()
            if answer.state != "Succeeded":
                raise Failure(answer.reason or "JoernFailed", answer.message)
            said = api.QueryResult(commit=commit, result=answer.result)
        except Failure as error:
            failure = error
            why = api.QueryFailure(reason=error.reason, message=error.message[:4096])
            said = api.QueryResult(commit=commit, failure=why)
        try:
            await self._retried(lambda: self._kb.analyze.end(query, said))
        except Failure as error:
            failure = failure or error
        return {"commit": commit}, failure

    async def _overview(self, source: layout.Source) -> dict[str, Any]:
        default = source.branch == source.default
        about = await asyncio.to_thread(
            overview.of, self._work.git, source.commit, source.repository, source.branch, default=default
        )
        body = about.text.encode(errors="replace")
        kept = await self._retried(lambda: self._kb.store(self._owner, body, "text/plain"))
        return {"overview": kept.model_dump(mode="json", by_alias=True)}

    async def _structure(self, source: layout.Source) -> dict[str, Any]:
        """Send the tree, unless the knowledge base has it: the sources process sends it with the times of files, which
        a shallow clone does not know."""
        files, skipped = await asyncio.to_thread(tree.files, self._work.git, source.commit)
        counts: dict[str, Any] = {"files": len(files), "skipped": len(skipped)}
        if await self._retried(lambda: self._known(source)):
            return {"structure": counts | {"known": True}}
        by_path = {one.path: one.model_copy(update={"modified": None}) for one in files}

        async def read(paths: Sequence[str]) -> Mapping[str, str]:
            wanted = [by_path[path] for path in paths if path in by_path]
            return await asyncio.to_thread(tree.contents, self._work.git, wanted)

        request = api.GitStructure(
            scope=self._owner,
            repository=source.of,
            branch=source.branch,
            commit=source.commit,
            files=list(by_path.values()),
            skipped=skipped,
        )
        reply = await self._retried(lambda: self._kb.code.send(request, read))
        counts |= {"files": reply.files, "skipped": len(reply.skipped), "symbols": reply.symbols, "calls": reply.calls}
        return {"structure": counts | {"failed": len(reply.failed)}}

    async def _known(self, source: layout.Source) -> bool:
        """Whether the knowledge base has the structure of that commit: it says what is wrong with an empty request."""
        try:
            await self._kb.code.enrich(self._of(source, None))
        except kb_client.Rejected as error:
            if error.status == _STALE:
                return error.field == "export"
            raise
        return True

    async def _cpg(self, source: layout.Source) -> dict[str, Any]:
        export = await asyncio.to_thread(self._work.export)
        request = self._of(source, export)
        try:
            reply = await self._retried(lambda: self._kb.code.enrich(request))
        except kb_client.Rejected as error:
            if error.field != "branch":
                raise _moved(source, error) from error
            await self._structure(source)
            try:
                reply = await self._retried(lambda: self._kb.code.enrich(request))
            except kb_client.Rejected as again:
                raise _moved(source, again) from again
        counts = reply.model_dump(by_alias=True, include={"signatures", "calls", "extends", "uses_type", "unmatched"})
        missing = [one.language for one in export.missing]
        more = {"methods": len(export.methods), "types": len(export.types), "truncated": export.truncated}
        return {"cpg": counts | more | {"languages": layout.names(export.languages), "missing": layout.names(missing)}}

    def _of(self, source: layout.Source, export: api.CpgExport | None) -> api.Cpg:
        return api.Cpg(
            scope=self._owner, repository=source.of, branch=source.branch, commit=source.commit, export=export
        )

    async def _retried(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat a call while the service is away. Raises `Failure`, or `Rejected` for what is stale."""
        while True:
            try:
                return await call()
            except kb_client.Rejected as error:
                if error.status == _STALE:
                    raise
                raise Failure("KnowledgeBaseRefused", f"{error.message} {error.remedy or ''}".strip()) from error
            except kb_client.Unavailable as error:
                pause = max(_PAUSE, error.retry_after or 0.0)
                if self._monotonic() + pause > self._deadline:
                    raise Failure("KnowledgeBaseAway", error.message) from error
                await self._sleep(pause)


def _moved(source: layout.Source, error: kb_client.Rejected) -> Failure:
    """What was analysed is not what the knowledge base has: sending it would bring a former commit back."""
    return Failure("CommitMoved", f"{source.branch} was analysed at {source.commit}: {error.message}.")
