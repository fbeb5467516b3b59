"""GpuBackend objects of one namespace, listed and watched (`kube.stream`), and their status.

The watch goes on for as long as the process lives: while the apiserver is away, the last known backends stay in the
book.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import pydantic
import structlog

import kube
from crds import gpubackend
from kube import beats, stream
from router.backends import environment

_log = structlog.get_logger("router.backends")
_SILENCE = 75.0
"""Seconds. The apiserver ends a watch after a minute; a connection that died silently is noticed a little later."""

Specs = Mapping[str, gpubackend.Spec]


class Leader(Protocol):
    """The Lease under which statuses are written (`router.ha.Candidate`)."""

    @property
    def epoch(self) -> int:
        """Its leaseTransitions."""

    def heed(self, epoch: int) -> None:
        """That epoch was seen on an object."""


class Source:
    """Reports the valid specs by name to its listeners when they differ from the last report, first after a whole list.
    `leader` stamps what is written with the epoch of its Lease; None for a router without others."""

    def __init__(
        self,
        api: kube.Kube,
        namespace: str,
        *,
        leader: Leader | None = None,
    ) -> None:
        self._leader = leader
        self._versions: dict[str, str] = {}
        self._api, self._namespace = api, namespace
        self._listeners: list[Callable[[Specs], object]] = []
        self._specs: dict[str, gpubackend.Spec] = {}
        self._statuses: dict[str, gpubackend.Status] = {}
        self._uids: dict[str, str] = {}
        self._told: Specs | None = None
        self._listed = False
        self._stream = stream.Stream(
            api,
            stream.Source(kube.BACKENDS, namespace),
            on_object=self._hear,
            known=self._known,
            answers=beats.Beats(time.monotonic),
            silence=_SILENCE,
            listed=self._all,
        )

    def listen(self, listener: Callable[[Specs], object]) -> None:
        """Call `listener` with the specs, see above."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Watch, for ever."""
        await self._stream.run()

    def statuses(self) -> Mapping[str, gpubackend.Status]:
        """What the objects said of themselves when they were last seen."""
        return dict(self._statuses)

    async def patch(self, name: str, status: Mapping[str, Any]) -> None:
        """Merge fields into an object's status, as it was seen last; one that is gone needs none. Raises
        `crds.errors.JervisError`: `kube.Conflict` when it has changed since, which the watch will tell."""
        version = self._versions.get(name)
        if version is None:
            return
        if self._leader is not None:
            status = {**status, "routerEpoch": self._leader.epoch}
        patch = {"metadata": {"resourceVersion": version}, "status": status}
        try:
            written = await self._api.merge(kube.BACKENDS, self._namespace, name, patch, "status")
        except kube.NotFound:
            return
        # The watch may have received a later one meanwhile.
        if self._versions.get(name) == version:
            self._versions[name] = written["metadata"]["resourceVersion"]

    def _known(self) -> Iterator[kube.Object]:
        for name, uid in self._uids.items():
            yield {"metadata": {"name": name, "uid": uid}}

    def _hear(self, kind: str, raw: kube.Object) -> None:
        name, uid = raw["metadata"]["name"], raw["metadata"]["uid"]
        if kind != "DELETED":
            self._uids[name], self._versions[name] = uid, raw["metadata"]["resourceVersion"]
            self._put(name, raw)
        elif self._uids.get(name) == uid:  # after a list, an object of the same name may have taken its place
            for kept in (self._uids, self._versions, self._specs, self._statuses):
                kept.pop(name, None)
        if self._listed:
            self._tell()

    def _put(self, name: str, raw: kube.Object) -> None:
        try:
            self._specs[name] = environment.parse(raw.get("spec") or {}, f"gpubackend/{name}.spec")
        except environment.Invalid as error:
            # The apiserver's schema should have refused it. What was valid before stays.
            _log.error("invalid GpuBackend", name=name, error=error.message, remedy=error.remedy)
            return
        try:
            status = self._statuses[name] = gpubackend.Status.model_validate(raw.get("status") or {})
        except pydantic.ValidationError as error:
            _log.warning("status of a GpuBackend cannot be read", name=name, error=str(error))
            return
        if self._leader is not None:
            self._leader.heed(status.router_epoch)

    def _all(self) -> None:
        self._listed = True
        self._tell()

    def _tell(self) -> None:
        if self._told != self._specs:
            self._told = dict(self._specs)
            for listener in self._listeners:
                listener(self._told)
