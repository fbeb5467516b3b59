"""One Secret per run with its token, named like the Job, which owns it: the garbage collector removes both.

The Job is created first: the Secret needs its uid as owner, and a pod without its Secret waits. After a crash between
the two, the first reconciliation of the running task writes the Secret. A run that resumes after a suspension gets a
new token, because the deadline of its Job starts again. The pod of a warm Job mounts no Secret: it asks for its token
(`handover`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import kube
from contracts.tokens import runtoken
from controllers import confined
from controllers.pendingtask import job, workloads
from controllers.pendingtask.observed import JobState, JobView
from crds import errors, order, pendingtask, priority, scope

MARGIN = timedelta(minutes=5)
"""Beyond the deadline and the grace period: scheduling, and the last calls of a run that is being stopped."""


class RunTokens:
    """Without a `signer` (no key is configured) runs have no token, and nothing is written."""

    def __init__(
        self, api: kube.Kube, known: workloads.Workloads, template: job.Template, signer: runtoken.Signer | None
    ) -> None:
        self._api, self._known, self._template, self._signer = api, known, template, signer
        self._issued: set[str] = set()  # uids of Jobs

    def lacks(self, run: JobView) -> bool:
        """Whether the Job runs without a token that this process has written for it."""
        wanted = self._signer is not None and not run.warm
        return wanted and run.state is JobState.ACTIVE and run.uid not in self._issued

    def usable(self, task: pendingtask.PendingTask, attempt: int) -> bool:
        """Whether the keys can sign the token of that run."""
        try:
            if self._signer is not None:
                sign(self._signer, self._template, task, attempt)
        except runtoken.Unusable:
            return False
        return True

    async def issue(self, task: pendingtask.PendingTask, run: JobView) -> None:
        """Write a new token, whether or not one exists.

        Raises `kube.Unavailable`, `kube.Refused`, `runtoken.Unusable`; `lacks` is then true.
        """
        self._issued.discard(run.uid)
        if self._signer is None or run.warm:
            return
        namespace = self._template.namespace
        body = _secret(task, run, namespace, sign(self._signer, self._template, task, run.attempt))
        try:
            await self._api.create(kube.SECRETS, namespace, body)
        except (kube.AlreadyExists, kube.Forbidden) as error:
            await self._replace(body, error)
        self._remember(run.uid)

    async def _replace(self, body: dict[str, Any], error: errors.JervisError) -> None:
        """Replace an existing Secret. An exhausted quota forbids the creation even of a Secret that exists."""
        try:
            await self._api.replace(kube.SECRETS, body)
        except (kube.NotFound, kube.Forbidden) as found:
            if isinstance(error, kube.Forbidden):
                raise error from None
            if isinstance(found, kube.Forbidden):
                raise
            raise kube.Unavailable(f"Secret {body['metadata']['name']} was there and is gone") from found

    def _remember(self, uid: str) -> None:
        if len(self._issued) >= 10_000:
            self._issued &= {view.uid for _, views in self._known.jobs() for view in views}
        self._issued.add(uid)


def sign(signer: runtoken.Signer, template: job.Template, task: pendingtask.PendingTask, attempt: int) -> str:
    """The token of one run, valid for its deadline from now. Raises `runtoken.Unusable`."""
    lifetime = timedelta(seconds=job.deadline(task, template) + template.grace_seconds) + MARGIN
    return signer.sign(_run(task, attempt, priority.Priority(template.priority)), lifetime)


def _run(task: pendingtask.PendingTask, attempt: int, ceiling: priority.Priority) -> runtoken.Run:
    spec = task.spec
    return runtoken.Run(
        task_uid=task.metadata.uid,
        namespace=task.metadata.namespace,
        attempt=attempt,
        scope=scope.Scope(client_id=spec.client_id, project_id=spec.project_id or "", group_id=spec.group_id or ""),
        mode=order.mode(spec),
        ceiling=ceiling,
        principals=spec.on_behalf_of,
        **({} if spec.on_behalf_of else {"rules": _rules(task), "teaches": bool(spec.answers)}),
    )


def _rules(task: pendingtask.PendingTask) -> tuple[str, ...]:
    """Keys of the rules that persons have approved in the task: the last word about each counts."""
    last = {done.rule_key: done.verdict for done in task.status.approvals if done.rule_key}
    return tuple(key for key, verdict in last.items() if verdict is pendingtask.Verdict.APPROVED)


def _secret(task: pendingtask.PendingTask, run: JobView, namespace: str, token: str) -> dict[str, Any]:
    values = {confined.TOKEN_KEY: token}
    return confined.secret(run.name, run.uid, namespace, job.labels(task, run.attempt), values)
