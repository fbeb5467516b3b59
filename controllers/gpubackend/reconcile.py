"""The shell of GpuBackend: probe with backoff, write the status when something changed, know what is on offer.

GpuBackends are those of the release's namespace, as for the router. One in another watched namespace gets a condition
that says so; it is not called, and it offers nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import pydantic
import structlog

import kube
from clients import backoff
from controllers import events, metrics, queue, unreadable
from controllers.gpubackend import absence, contexts, decide, probe, token
from controllers.pendingtask.slots import bookings
from crds import conditions, errors, gpubackend
from kube import lease

log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    """An object as it was seen last. `models` are those that the server listed last; None: it was not asked yet."""

    version: int
    raw: kube.Object
    backend: gpubackend.GpuBackend
    models: frozenset[str] | None = None


def key(raw: kube.Object) -> str:
    """namespace/name: what there is one of at a time, unlike a uid."""
    return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"


class Backends:
    """All GpuBackends by namespace/name; those of `namespace`, the release's, count.

    `changed` is called when the offer of slots may be another one. A backend that stops serving counts as there for
    `gone` seconds (`absence`). `windows` are the context windows that processes ask for.
    """

    def __init__(
        self,
        api: kube.Kube,
        probed: probe.Probe,
        *,
        namespace: str,
        gone: float,
        work: queue.WorkQueue[str],
        recorder: events.Recorder,
        measured: metrics.Metrics,
        leadership: lease.Lease,
        interval: float,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        changed: Callable[[], None],
        windows: Sequence[contexts.Window] = (),
    ) -> None:
        self._api, self._probe, self._work, self._recorder = api, probed, work, recorder
        self._namespace = namespace
        self._metrics, self._lease, self._interval = measured, leadership, interval
        self._wall, self._monotonic, self._changed = wall, monotonic, changed
        self._windows = tuple(windows)
        self._known: dict[str, _Known] = {}
        self._failures: dict[str, int] = {}
        self._unreadable: dict[str, unreadable.Unreadable] = {}
        """Objects that cannot be parsed, until that is written into them."""
        self._absent = absence.Absence(monotonic, gone)

    def offers(self) -> Iterator[bookings.Offer]:
        """What may be booked, and what is expected back. A Ready GPU that does not drain may be booked."""
        offered, expected = self._offered(), self._absent.expected()
        for name in sorted({*offered, *expected}):
            yield bookings.Offer(name, offered.get(name, 0), absent=expected.get(name, 0))

    def _used(self) -> Iterator[_Known]:
        return (one for one in self._known.values() if one.backend.metadata.namespace == self._namespace)

    def _offered(self) -> dict[str, int]:
        backends = (one.backend for one in self._used())
        return {one.metadata.name: one.spec.num_parallel for one in backends if decide.offers(one)}

    def reservable(self, model: str) -> bool:
        """Is a GPU there whose model sets mean the model, and another backend for all who are kept off it?"""
        serving = [one for one in self._used() if not one.backend.spec.drain and decide.ready(one.backend)]
        gpus = (one for one in serving if decide.runs(one.backend))
        return len(serving) > 1 and any(decide.has(one.backend, model, one.models) for one in gpus)

    def serves(self, name: str) -> bool:
        """Is that backend there and Ready, or does it drain and end what runs on it?"""
        one = self._known.get(f"{self._namespace}/{name}")
        return one is not None and decide.serves(one.backend)

    def known(self, namespace: str | None) -> Iterator[kube.Object]:
        """The backends of a namespace, None for all, as they were seen last."""
        return (one.raw for one in self._known.values() if namespace in (None, one.backend.metadata.namespace))

    def version(self, uid: str) -> int | None:
        """The resourceVersion that is known of the backend with that uid."""
        found = (one for one in self._known.values() if one.backend.metadata.uid == uid)
        return next((int(one.raw["metadata"]["resourceVersion"]) for one in found), None)

    def leave(self, uid: str) -> None:
        """The backend is served no more, for now."""
        for place in [place for place, one in self._known.items() if one.backend.metadata.uid == uid]:
            self._forget(place)
        for place in [place for place, one in self._unreadable.items() if one.object["metadata"]["uid"] == uid]:
            del self._unreadable[place]

    def observe(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a GpuBackend."""
        place = key(raw)
        if deleted:
            self._unreadable.pop(place, None)
            known = self._known.get(place)
            if known is None or known.backend.metadata.uid == raw["metadata"]["uid"]:
                self._forget(place)
            return
        fresh, respecified = self._take(raw)
        if respecified:
            self._work.put(place, (raw["metadata"]["name"],))
        if fresh:
            self._slots_changed()

    def _forget(self, place: str) -> None:
        self._known.pop(place, None)
        self._failures.pop(place, None)
        self._work.forget(place)
        self._slots_changed()

    def _slots_changed(self) -> None:
        if self._absent.offered(self._offered()):
            # The tasks that wait for it are reconciled once it is not expected back any more.
            self._absent.call_at_end(self._changed)
        self._changed()

    async def work(self) -> None:
        """One worker: probe until cancelled."""
        while True:
            place = await self._work.get()
            try:
                await self._reconcile(place)
            except errors.JervisError as error:
                log.info("backend not reconciled", backend=place, reason=error.message)
                self._later(place, backoff.PROBE.first)
            except Exception:
                # The edge of a reconciliation: one backend that triggers a bug of ours must not stop the others.
                self._metrics.failures.inc()
                log.exception("reconciliation of a backend failed")
                self._later(place, self._interval)
            finally:
                self._work.done(place)

    async def _reconcile(self, place: str) -> None:
        if place in self._unreadable:
            await self._report(place, self._unreadable[place])
        known = self._known.get(place)
        if known is None:
            return
        if known.backend.metadata.namespace != self._namespace:
            patch = decide.patch(known.backend, decide.misplaced(self._namespace), self._wall())
            if patch:
                await self._write(known, patch)
            return
        found = await self._ask(known.backend)
        failed = isinstance(found, probe.Failure)
        self._failures[place] = self._failures.get(place, 0) + 1 if failed else 0
        current = self._known.get(place)
        if current is None or current.backend.metadata.uid != known.backend.metadata.uid:
            return
        if isinstance(found, probe.Answer):
            current = self._known[place] = dataclasses.replace(current, models=found.models)
        patch = decide.patch(current.backend, found, self._wall(), self._windows)
        if patch:
            await self._write(current, patch)
        self._later(place, backoff.PROBE.delay(self._failures[place]) if failed else self._interval)

    async def _report(self, place: str, found: unreadable.Unreadable) -> None:
        """Write why the object cannot be parsed. What is newer than it comes with an event."""
        meta, status = found.object["metadata"], found.status(self._wall())
        body = {
            "metadata": {"resourceVersion": meta["resourceVersion"]},
            "status": {**status, "leaderEpoch": self._lease.epoch},
        }
        try:
            if status:
                written = await self._api.merge(kube.BACKENDS, meta["namespace"], meta["name"], body, "status")
                self._recorder.post(written, unreadable.REASON, found.message, warning=True)
        except (kube.Conflict, kube.NotFound):
            pass  # the newer version is looked at when the watch reports it
        except kube.Refused as error:
            log.error("unreadable backend refuses its condition", backend=place, reason=error.message)
        if self._unreadable.get(place) is found:
            del self._unreadable[place]

    async def _ask(self, backend: gpubackend.GpuBackend) -> probe.Answer | probe.Failure:
        bearer = await token.read(self._api, backend)
        spec = backend.spec
        found = bearer if isinstance(bearer, probe.Failure) else await self._probe.ask(spec.url, bearer, spec.engine)
        self._metrics.probes.labels(found.reason if isinstance(found, probe.Failure) else "Answered").inc()
        if isinstance(found, probe.Failure):
            log.info("backend does not answer", backend=backend.metadata.name, reason=found.reason, cause=found.cause)
        return found

    async def _write(self, known: _Known, patch: dict[str, object]) -> None:
        backend, place = known.backend, key(known.raw)
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
            self._slots_changed()
            raise
        except kube.NotFound:
            self._forget(place)
            return
        before = decide.ready(backend)
        self._take(written)
        if place not in self._known:
            return  # what another has written cannot be parsed
        after = self._known[place].backend
        condition = conditions.find(after.status.conditions, decide.READY)
        if condition is not None and (decide.ready(after) != before or not backend.status.conditions):
            good = condition.status is conditions.Status.TRUE
            self._recorder.post(written, condition.reason, condition.message, warning=not good)
            log.info("backend changed", backend=place, ready=good, reason=condition.reason)
        self._slots_changed()

    def _take(self, raw: kube.Object) -> tuple[bool, bool]:
        """(newer than what is known, its spec is another one)."""
        place, number = key(raw), int(raw["metadata"]["resourceVersion"])
        known = self._known.get(place)
        if known is not None and number <= known.version:
            return False, False
        try:
            backend = gpubackend.GpuBackend.model_validate(raw)
        except pydantic.ValidationError as error:
            found = unreadable.Unreadable.of(raw, error)
            log.error("backend cannot be read", backend=place, field=found.field, error=found.why)
            if known is not None:
                self._forget(place)
            self._unreadable[place] = found
            self._work.put(place, (raw["metadata"]["name"],))
            return False, False
        self._unreadable.pop(place, None)
        before = None if known is None else (known.backend.metadata.uid, known.backend.metadata.generation)
        respecified = before != (backend.metadata.uid, backend.metadata.generation)
        slim = {**raw, "metadata": {k: v for k, v in raw["metadata"].items() if k != "managedFields"}}
        models = None if known is None or respecified else known.models
        self._known[place] = _Known(number, slim, backend, models)
        return True, respecified

    def _later(self, place: str, seconds: float) -> None:
        if place in self._known or place in self._unreadable:
            self._work.wake(place, (place.partition("/")[2],), self._monotonic() + seconds)

    def gauges(self) -> None:
        """Bring the gauges up to date; called before a scrape."""
        used = list(self._used())
        ready = sum(decide.ready(one.backend) for one in used)
        self._metrics.backends.labels("true").set(ready)
        self._metrics.backends.labels("false").set(len(used) - ready)
