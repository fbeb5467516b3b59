"""The Jobs of analyses at the apiserver: made once, with their token, read, and left to expire or deleted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import kube
from contracts.tokens import runtoken
from controllers import metrics
from controllers.codeanalysis import job, outcome
from controllers.pendingtask import job as runs
from crds import labels
from kube import lease

ADOPTED = "another Job has its name"


class Jobs:
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
        self._api, self.template, self._signer = api, template, signer
        self._token, self._metrics = token, measured
        self._namespace = template.run.namespace

    async def all(self) -> dict[str, kube.Object]:
        """By name."""
        found = self._api.each(kube.JOBS, self._namespace, labels.CODE_ANALYSIS)
        return {raw["metadata"]["name"]: raw async for raw in found}

    async def pods(self, id_: str) -> list[kube.Object]:
        """Those of one Job."""
        return [raw async for raw in self._api.each(kube.PODS, self._namespace, f"{labels.CODE_ANALYSIS}={id_}")]

    async def make(self, one: job.Attempt) -> str:
        """Its uid. A Job of that name is this one, made before a kill. Raises `kube.Unavailable`, `kube.Refused`."""
        body = job.manifest(one, self.template, self._token())
        try:
            made = await self._api.create(kube.JOBS, self._namespace, body)
        except kube.AlreadyExists:
            made = await self._api.get(kube.JOBS, self._namespace, one.job)
        else:
            self._metrics.code_analyses.labels("begun").inc()
        return await self.equip(one, made)

    async def equip(self, one: job.Attempt, made: kube.Object) -> str:
        """Write the Secret that its pod waits for, unless it is there. Raises as `make` does."""
        if not belongs(made, one.id):
            raise kube.Refused(f"{ADOPTED}: {one.job}", remedy=f"Delete Job {one.job} in {self._namespace}.")
        uid = str(made["metadata"]["uid"])
        with suppress(kube.AlreadyExists):
            await self._api.create(kube.SECRETS, self._namespace, job.secret(one, self.template, uid, self._signer))
        return uid

    async def end(self, id_: str, failed: outcome.Failure | None) -> outcome.Ended:
        """What became of a Job that has ended; `failed` is what its conditions say."""
        return outcome.read(await self.pods(id_), failed)

    async def expire(self, name: str) -> None:
        """What became of it is recorded: it goes after the time to live of runs' Jobs."""
        patch = runs.expiry(self.template.ttl_seconds, self._token())
        with suppress(kube.NotFound):
            await self._api.merge(kube.JOBS, self._namespace, name, patch)

    async def delete(self, name: str) -> None:
        """End it, with its pod."""
        with suppress(kube.NotFound):
            await self._api.delete(kube.JOBS, self._namespace, name)

    def expires(self, raw: kube.Object) -> bool:
        """Whether it was left to expire."""
        return (raw["spec"].get("ttlSecondsAfterFinished") or 0) != job.UNTENDED_SECONDS


def belongs(raw: kube.Object, id_: str) -> bool:
    """Whether it is the Job of that task or query."""
    return bool((raw["metadata"].get("labels") or {}).get(labels.CODE_ANALYSIS) == id_)
