"""The shell of GpuBackend: probe with backoff, write the status when something changed, know what is on offer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime

import httpx
import pydantic
import structlog

from controllers import backoff, events, kube, lease, metrics, queue
from controllers.gpubackend import absence, decide, probe, slots
from crds import conditions, errors, gpubackend

log = structlog.get_logger(__name__)


class Backends:
    """All GpuBackends by uid. `changed` is called when the offer of slots may be another one."""

    def __init__(
        self,
        api: kube.Kube,
        http: httpx.AsyncClient,
        *,
        work: queue.WorkQueue[str],
        poster: events.Poster,
        measured: metrics.Metrics,
        leadership: lease.Lease,
        interval: float,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self._api, self._http, self._work, self._poster = api, http, work, poster
        self._metrics, self._lease, self._interval = measured, leadership, interval
        self._wall, self._monotonic, self._changed = wall, monotonic, changed
        self._known: dict[str, tuple[int, kube.Object, gpubackend.GpuBackend]] = {}
        self._failures: dict[str, int] = {}
        self._absent = absence.Absence(monotonic)
        self.may_act = asyncio.Event()

    def offers(self) -> Iterator[slots.Offer]:
        """What may be booked: Ready GPU backends that do not drain."""
        for _, _, backend in self._known.values():
            usable = backend.spec.kind is gpubackend.Kind.GPU and not backend.spec.drain and decide.ready(backend)
            yield slots.Offer(backend.metadata.name, backend.spec.num_parallel if usable else 0)

    def reservable(self, model: str) -> bool:
        """Is a GPU there whose model sets name the model, and another backend for everybody who is kept off it?"""
        serving = [one.spec for _, _, one in self._known.values() if not one.spec.drain and decide.ready(one)]
        gpus = (spec for spec in serving if spec.kind is gpubackend.Kind.GPU)
        named = {member.name.lower() for spec in gpus for one in spec.model_sets for member in one.models}
        return len(serving) > 1 and model.lower() in named

    def gone_in(self, name: str) -> float | None:
        """Seconds until what runs on that backend has to stop, because it is deleted or not Ready; None: it serves.

        One that drains serves what runs on it. "" is no backend: what runs without one loses none.
        """
        if not name:
            return None
        serving = (one for _, _, one in self._known.values() if decide.serves(one))
        return self._absent.gone_in(name, present=any(one.metadata.name == name for one in serving))

    def known(self, namespace: str) -> Iterator[kube.Object]:
        """The backends of a namespace, as they were seen last."""
        return (raw for _, raw, _ in self._known.values() if raw["metadata"]["namespace"] == namespace)

    def observe(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a GpuBackend."""
        uid = raw["metadata"]["uid"]
        if deleted:
            self._known.pop(uid, None)
            self._failures.pop(uid, None)
            self._work.forget(uid)
            self._changed()
            return
        fresh, respecified = self._take(raw)
        if respecified:
            self._work.put(uid, (raw["metadata"]["name"],))
        if fresh:
            self._changed()

    async def work(self) -> None:
        """One worker: probe until cancelled."""
        await self.may_act.wait()
        while True:
            uid = await self._work.get()
            try:
                await self._look(uid)
            except errors.JervisError as error:
                log.info("backend looked at in vain", reason=error.message)
                self._later(uid, backoff.PROBE.first)
            except Exception:
                # The edge of a look: one backend that trips a bug of ours must not stop the others.
                self._metrics.failures.inc()
                log.exception("looking at a backend failed")
                self._later(uid, self._interval)
            finally:
                self._work.done(uid)

    async def _look(self, uid: str) -> None:
        known = self._known.get(uid)
        if known is None:
            return
        found = await probe.ask(self._http, known[2].spec.url)
        failed = isinstance(found, probe.Failure)
        self._metrics.probes.labels(found.reason if isinstance(found, probe.Failure) else "Answered").inc()
        self._failures[uid] = self._failures.get(uid, 0) + 1 if failed else 0
        current = self._known.get(uid)
        if current is None:
            return
        _, raw, backend = current
        patch = decide.patch(backend, found, self._wall())
        if patch:
            await self._write(backend, raw, patch)
        self._later(uid, backoff.PROBE.delay(self._failures[uid]) if failed else self._interval)

    async def _write(self, backend: gpubackend.GpuBackend, raw: kube.Object, patch: dict[str, object]) -> None:
        meta = backend.metadata
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": {**patch, "leaderEpoch": self._lease.epoch},
        }
        try:
            written = await self._api.merge(kube.BACKENDS, meta.namespace, meta.name, body, "status")
        except kube.Conflict:
            self._metrics.conflicts.inc()
            self._take(await self._api.get(kube.BACKENDS, meta.namespace, meta.name))
            raise
        except kube.NotFound:
            self._known.pop(meta.uid, None)
            return
        before = decide.ready(backend)
        self._take(written)
        after = self._known[meta.uid][2]
        condition = conditions.find(after.status.conditions, decide.READY)
        if condition is not None and (decide.ready(after) != before or not backend.status.conditions):
            good = condition.status is conditions.Status.TRUE
            self._poster.post(written, condition.reason, condition.message, warning=not good)
            log.info("backend changed", backend=meta.name, ready=good, reason=condition.reason)
        self._changed()

    def _take(self, raw: kube.Object) -> tuple[bool, bool]:
        """(newer than what is known, its spec is another one)."""
        uid, number = raw["metadata"]["uid"], int(raw["metadata"]["resourceVersion"])
        known = self._known.get(uid)
        if known is not None and number <= known[0]:
            return False, False
        try:
            backend = gpubackend.GpuBackend.model_validate(raw)
        except pydantic.ValidationError as error:
            log.error("backend cannot be read", backend=raw["metadata"]["name"], error=str(error))
            return False, False
        respecified = known is None or known[2].metadata.generation != backend.metadata.generation
        slim = {**raw, "metadata": {k: v for k, v in raw["metadata"].items() if k != "managedFields"}}
        self._known[uid] = (number, slim, backend)
        return True, respecified

    def _later(self, uid: str, seconds: float) -> None:
        known = self._known.get(uid)
        if known is not None:
            self._work.wake(uid, (known[2].metadata.name,), self._monotonic() + seconds)

    def gauges(self) -> None:
        """Bring the gauges up to date; called before a scrape."""
        ready = sum(decide.ready(backend) for _, _, backend in self._known.values())
        self._metrics.backends.labels("true").set(ready)
        self._metrics.backends.labels("false").set(len(self._known) - ready)
