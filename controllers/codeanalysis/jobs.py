"""The Jobs of analyses at the apiserver: made once, with their token, read, and left to expire or deleted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import kube
from contracts.tokens import runtoken
from controllers import job_tracker, metrics
from controllers.codeanalysis import job, outcome
from controllers.pendingtask import job as runs
from crds import labels
from kube import lease


class Jobs(job_tracker.JobTracker):
    """All of them are in the release's namespace. `signer` signs their tokens; `token` is that of the present Lease."""

    def __init__(
        self,
        api: kube.Kube,
        template: job.Template,
        *,
        signer: runtoken.Signer,
        token: Callable[[], lease.FencingToken],
        measured: metrics.Metrics,
    ) -> None:
        super().__init__(api, template.run.namespace, labels.CODE_ANALYSIS)
        self.template, self._signer, self._token, self._metrics = template, signer, token, measured

    async def make(self, one: job.Attempt, found: kube.Object | None) -> str:
        """The uid of its Job, which has its Secret then. One of that name, `found` or not, was made before a kill.
        Raises `kube.Unavailable`, `kube.Refused`."""
        if found is None:
            found, new = await self.create(job.manifest(one, self.template, self._token()))
            if new:
                self._metrics.code_analyses.labels("begun").inc()
        return await self.create_token_secret(
            found, one.id, lambda uid: job.secret(one, self.template, uid, self._signer)
        )

    async def result(self, id_: str, end: job_tracker.JobEnd) -> outcome.Ended:
        """What became of a Job that has ended."""
        return outcome.read(await self.pods(id_), outcome.failure(end))

    async def expire(self, name: str) -> None:
        """What became of it is recorded: it goes after the time to live of runs' Jobs."""
        patch = runs.expiry(self.template.ttl_seconds, self._token())
        with suppress(kube.NotFound):
            await self.api.merge(kube.JOBS, self.namespace, name, patch)

    def expires(self, raw: kube.Object) -> bool:
        """Whether it was left to expire."""
        return (raw["spec"].get("ttlSecondsAfterFinished") or 0) != job.UNTENDED_SECONDS
