"""Ad-hoc queries: the knowledge base says which run, the apiserver what became of their Jobs.

The Job posts the result itself, with its own token. What is done here: make the Job of each query once, say why one has
no result that ended without one, and remove the Jobs of queries that are over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import structlog

import kube
from codegraph import api
from controllers import job_tracker, metrics
from controllers.codeanalysis import job, jobs, outcome, status
from crds import connection, errors
from kb import client as kb
from sources.core import repositories

log = structlog.get_logger(__name__)


class Queries:
    """`knowledge` shows the operator's token; `find` gives the Connection of a namespace and name."""

    def __init__(
        self,
        knowledge: kb.Client,
        made: jobs.Jobs,
        *,
        find: Callable[[str, str], connection.Connection | None],
        measured: metrics.Metrics,
    ) -> None:
        self._kb, self._jobs, self._find, self._metrics = knowledge, made, find, measured

    async def reconcile(self, there: Mapping[str, kube.Object], most: int) -> int:
        """Bring Jobs and queries together; how many of their Jobs run. `there` are all Jobs of analyses by name, `most`
        of them may be queries'. Raises `crds.errors.Operational`."""
        try:
            running = await self._kb.analyze.claim(max(0, most))
        except errors.Operational as error:
            log.info("queries not claimed", reason=error.message)
            return _running(there)
        except kb.Rejected as error:
            # An older knowledge base, or a token that may not: the tasks' analyses go on.
            log.warning("queries are refused", reason=error.message)
            return _running(there)
        count = 0
        for one in running:
            count += await self._runs(one, there)
        names = {_name(one) for one in running}
        for name, raw in there.items():
            if not _ours(name) or name in names or self._jobs.expires(raw):
                continue
            # Its query has a result, or is gone; the pod ends by itself.
            end = job_tracker.ended(raw)
            if end is None:
                count += 1
            else:
                failed = outcome.failure(end)
                self._metrics.code_analyses.labels(status.SUCCEEDED if failed is None else failed.reason).inc()
                await self._jobs.expire(name)
        return count

    async def _runs(self, one: api.QueryWork, there: Mapping[str, kube.Object]) -> bool:
        async def reconcile() -> bool:
            try:
                return await self._reconcile_job(one, there)
            except kube.Forbidden as error:
                # A quota, most often. A query is not waited for: it would hold the place of all others.
                raise kube.Refused(error.message) from error

        async def refused(error: errors.Permanent) -> None:
            why = outcome.Failure(reason="JobRefused", message=f"Its Job is refused: {error.message}")
            with suppress(errors.Operational):  # the next pass says it
                await self._fail(one, why)

        return await self._jobs.reconcile_job(_name(one), reconcile, refused)

    async def _reconcile_job(self, one: api.QueryWork, there: Mapping[str, kube.Object]) -> bool:
        found = there.get(_name(one))
        if found is None and one.job_uid:
            await self._fail(one, outcome.Failure(reason="JobLost", message="Its Job vanished."))
            return False
        if found is None or not one.job_uid:
            made = self._attempt(one)
            if made is None:
                await self._jobs.delete(_name(one))
                why = f"Its scope may read no Git Connection {one.connection} in namespace {one.namespace}."
                await self._fail(one, outcome.Failure(reason=status.NOT_FOUND, message=why))
                return False
            uid = await self._jobs.make(made, found)
            await self._kb.analyze.made(one.id, uid)
            return True
        end = job_tracker.ended(found)
        if end is None:
            return True
        # Its pod has ended and posted nothing.
        result = await self._jobs.result(one.id, end)
        silent = outcome.Failure(reason="ReportFailed", message="Its pod ended without a result.")
        await self._fail(one, result.failure or silent, result.report.commit)
        await self._jobs.expire(_name(one))
        return False

    def _attempt(self, one: api.QueryWork) -> job.Attempt | None:
        source = self._find(one.namespace, one.connection)
        if source is None or not status.readable(source, one.scope):
            return None
        return job.Attempt(
            one.id,
            _name(one),
            one.namespace,
            one.connection,
            repositories.of(source.spec.url).path,
            one.ref,
            one.scope,
            query=one.query,
            seconds=one.seconds,
        )

    async def _fail(self, one: api.QueryWork, why: outcome.Failure, commit: str = "") -> None:
        text = f"{why.message} {status.REMEDIES.get(why.reason, '')}".strip()
        failure = api.QueryFailure(reason=why.reason, message=text[:4096])
        with suppress(kb.Rejected):  # it is gone by now
            await self._kb.analyze.end(one.id, api.QueryResult(commit=commit, failure=failure))
        self._metrics.code_analyses.labels(status.label(why.reason)).inc()
        log.info("query failed", query=one.id, reason=why.reason)


def _running(there: Mapping[str, kube.Object]) -> int:
    return sum(_ours(name) and job_tracker.ended(raw) is None for name, raw in there.items())


def _ours(name: str) -> bool:
    return name.startswith(job.QUERY_PREFIX)


def _name(one: api.QueryWork) -> str:
    return f"{job.QUERY_PREFIX}{one.id}"
