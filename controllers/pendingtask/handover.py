"""What the pod of a warm Job is to do: it asks, and gets the environment and the token of its run.

The wire format is `contracts.api.warm_assignment`.

A pod proves which one it is by a token that the kubelet has bound to it. Its Job is read from its owner, the run from
the labels of the Job, and the task from the API: so an answer is for the pod of the one Job that runs the attempt now,
whatever a cache holds. Any replica answers.

The pod is annotated when it has asked, which the pool waits for, and before it gets its task: a run whose pod does not
get so far in time is started without the pool (`warm_pool`).

Of two Jobs of one attempt, as after a claim that arrived late, `workloads` counts one; the other gets no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import structlog
from aiohttp import web

import kube
from contracts.api import warm_assignment as wire
from contracts.tokens import runtoken, token_reviews
from controllers import admission
from controllers.archive import http, tickets
from controllers.pendingtask import job, views, warm, warm_pool
from controllers.pendingtask.effects import run_token
from controllers.pendingtask.observed import JobState
from crds import errors, pendingtask
from crds.phases import HOLDS_SLOT

log = structlog.get_logger(__name__)

KEPT_SECONDS = 30.0
"""How long the answer of a TokenReview counts."""
LOOK_SECONDS = 1.0
"""Between two looks at a claimed Job whose task is not in order yet."""
_LONGEST = 8192
_POD_NAME, _POD_UID = "authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid"


class Pod(NamedTuple):
    """The pod that a token is bound to."""

    name: str
    uid: str


class Handover:
    """`account`: the ServiceAccount of runs, `signer` makes their tokens (None: they have none)."""

    def __init__(
        self,
        api: kube.Kube,
        pool: warm_pool.WarmPool,
        template: job.Template,
        *,
        account: str,
        signer: runtoken.Signer | None,
        admitted: admission.Admission | None,
        monotonic: Callable[[], float],
    ) -> None:
        self._api, self._pool, self._template = api, pool, template
        self._holder = f"system:serviceaccount:{template.namespace}:{account}"
        self._signer, self._admission, self._monotonic = signer, admitted, monotonic
        self._tokens = token_reviews.Reviewed(self._ask, now=monotonic, fresh=KEPT_SECONDS, bad=KEPT_SECONDS)
        self._closing = False

    def serve(self, application: web.Application) -> None:
        """Add the path. Requests that wait end when the application shuts down."""

        async def close(_: web.Application) -> None:
            self._closing = True

        application.router.add_get(wire.PATH, http.answering(self._answer))
        application.on_shutdown.append(close)

    async def _answer(self, request: web.Request) -> web.Response:
        pod = await self._pod(http.ticket(request), request.remote or "")
        try:
            given = await self.given(pod, _seconds(request.query.get("wait", "")))
        except tickets.Denied:
            raise
        except errors.Permanent as error:
            # Unusable keys, or a refused write: nothing that the pod could change. It asks again.
            log.warning("a warm pod gets no task", pod=pod.name, reason=error.message)
            return http.failure(503, "unavailable", error.message)
        if given is None:
            return web.Response(status=204)
        headers = {"Cache-Control": "no-store"}
        return web.Response(body=given.model_dump_json().encode(), content_type="application/json", headers=headers)

    async def given(self, pod: Pod, seconds: float) -> wire.Given | None:
        """What the pod is to do; None if its Job has no task within `seconds`. Raises `tickets.Denied` for a pod that
        belongs to no warm Job, and the errors of the API."""
        found, owner = await self._owner(pod)
        if not warm.has_asked(found):
            await self._write(pod, warm.asks(found))
        ends = self._monotonic() + seconds
        while True:
            raw = self._pool.job(owner[0]) or await self._job(owner)
            if raw["metadata"]["uid"] != owner[1]:
                raise _denied("its Job is gone")
            claimed = warm.is_claimed(raw)
            if claimed:
                # The cache may be behind what the leader has written meanwhile.
                run = await self._job(owner)
                given = await self._of(run)
                if given is not None:
                    patch = warm.gives(run, found)
                    if patch is not None:
                        await self._write(pod, patch)
                    return given
            left = ends - self._monotonic()
            if left <= 0 or self._closing:
                return None
            await self._pool.changed(min(left, LOOK_SECONDS))

    async def _of(self, raw: kube.Object) -> wire.Given | None:
        """Environment and token of the run that the Job is claimed for; None if it is not to work now."""
        view = views.job_view(raw)
        if view.state is not JobState.ACTIVE or not views.believed(raw, self._template.namespace):
            return None
        uid, namespace, name = view.task
        try:
            task = pendingtask.PendingTask.model_validate(await self._api.get(kube.TASKS, namespace, name))
        except kube.NotFound:
            return None
        status = task.status
        if task.metadata.uid != uid or status.attempt != view.attempt or status.phase not in HOLDS_SLOT:
            return None
        if status.dispatch is None or not await self._chosen(raw, status.dispatch.job_name):
            log.warning("a claimed Job is not the one of its run", job=view.name, run=views.run_name(raw))
            return None
        chosen = admission.flags_of(self._admission, task).values
        token = "" if self._signer is None else run_token.sign(self._signer, self._template, task, view.attempt)
        log.info("a warm pod gets its task", job=view.name, task=name, namespace=namespace, attempt=view.attempt)
        return wire.Given(environment=job.own(task, view.attempt, self._template, chosen), token=token)

    async def _chosen(self, raw: kube.Object, named: str) -> bool:
        """Whether the Job is the one that counts for its run, of all that the API has of it."""
        name, meta = raw["metadata"]["name"], raw["metadata"]["labels"]
        if named == name:
            return True
        labels = ",".join(f"{key}={meta[key]}" for key in (job.UID_LABEL, job.ATTEMPT_LABEL))
        found = [one["metadata"]["name"] async for one in self._api.each(kube.JOBS, self._template.namespace, labels)]
        return bool(named == views.run_name(raw) and named not in found and name == min(filter(warm.named, found)))

    async def _write(self, pod: Pod, patch: Mapping[str, Any]) -> None:
        """Each of these writes is true whoever makes it and whenever it arrives: any replica may."""
        try:
            made = await self._api.merge(kube.PODS, self._template.namespace, pod.name, patch, fenced=False)
        except (kube.NotFound, kube.Conflict) as error:
            raise _denied("its pod is gone") from error
        self._pool.observe_pod(made)

    async def _owner(self, pod: Pod) -> tuple[kube.Object, tuple[str, str]]:
        """The pod, and name and uid of the warm Job that controls it."""
        try:
            raw = await self._api.get(kube.PODS, self._template.namespace, pod.name)
        except kube.NotFound as error:
            raise _denied("its pod is gone") from error
        owners = raw["metadata"].get("ownerReferences") or ()
        owner: Mapping[str, Any] = next((one for one in owners if one.get("controller")), {})
        if raw["metadata"]["uid"] != pod.uid or not warm.is_warm(raw) or owner.get("kind") != "Job":
            raise _denied("its pod was not started in advance")
        return raw, (owner["name"], owner["uid"])

    async def _job(self, owner: tuple[str, str]) -> kube.Object:
        try:
            return await self._api.get(kube.JOBS, self._template.namespace, owner[0])
        except kube.NotFound as error:
            raise _denied("its Job is gone") from error

    async def _pod(self, token: str, source: str) -> Pod:
        """The pod that the token is bound to. Raises `tickets.Denied`, `tokenreviews.Busy`, or the error of the
        review."""
        if not token or len(token) > _LONGEST:
            raise _denied("there is no token")
        pod = await self._tokens.find(token, source)
        if pod is None:
            raise _denied("the token is not valid")
        return pod

    async def _ask(self, token: str) -> Pod | None:
        return self._bound(await self._api.review(token, wire.AUDIENCE))

    def _bound(self, status: Mapping[str, Any]) -> Pod | None:
        """The pod of a token of a run's account for our audience; None for anything else."""
        user = status.get("user") or {}
        if not status.get("authenticated") or wire.AUDIENCE not in (status.get("audiences") or ()):
            return None
        extra = user.get("extra") or {}
        names: list[str] = extra.get(_POD_NAME) or []
        uids: list[str] = extra.get(_POD_UID) or []
        if user.get("username") != self._holder or len(names) != 1 or len(uids) != 1:
            return None
        return Pod(names[0], uids[0])


def _seconds(wanted: str) -> float:
    """How long a request waits: as it says in whole seconds, and not for longer than the usual time."""
    known = wanted.isascii() and wanted.isdigit() and len(wanted) < 4
    return min(float(wanted), wire.WAIT_SECONDS) if known else wire.WAIT_SECONDS


def _denied(why: str) -> tickets.Denied:
    return tickets.Denied(
        f"no task for this pod: {why}",
        field="Authorization",
        remedy="Only pods of the operator's warm pool ask here, with the token that the kubelet gives them.",
    )
