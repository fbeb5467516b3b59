"""The Lease for the thread of `kube.lease`: blocking calls over an event loop of that thread's own.

What the process's loop and its executor are busy with, or stuck in, delays no renewal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp

from kube import lease
from kube.access import session
from kube.client import Kube
from kube.errors import AlreadyExists, Conflict, NotFound
from kube.resources import LEASES, Object


class LeaseStore:
    """One Lease by its name; `timeout` seconds for each call. To be used from one thread."""

    def __init__(self, loaded: Any, namespace: str, name: str, *, timeout: float = 3.0) -> None:
        self._loaded, self._namespace, self._name, self._timeout = loaded, namespace, name, timeout
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._http: aiohttp.ClientSession | None = None
        self._api: Kube | None = None

    def read(self) -> lease.Record | None:
        """The stored record, or None."""
        try:
            return _record(self._call(lambda api: api.get(LEASES, self._namespace, self._name)))
        except NotFound:
            return None

    def write(self, record: lease.Record) -> lease.Record:
        """Create or replace; raises `lease.ContestedError`. The apiserver makes anew what was deleted meanwhile."""
        body: Object = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": max(1, round(record.duration)),
                "acquireTime": _micro(record.acquired),
                "renewTime": _micro(record.renewed),
                "leaseTransitions": record.transitions,
            },
        }
        try:
            if not record.version:
                return _record(self._call(lambda api: api.create(LEASES, self._namespace, body)))
            body["metadata"]["resourceVersion"] = record.version
            return _record(self._call(lambda api: api.replace(LEASES, body)))
        except (Conflict, AlreadyExists, NotFound) as error:
            raise lease.ContestedError(error.message) from error

    def close(self) -> None:
        """End the connections and the loop."""
        if self._http is not None:
            self._runner.run(self._http.close())
        self._runner.close()

    def _call(self, ask: Callable[[Kube], Awaitable[Object]]) -> Object:
        async def run() -> Object:
            if self._api is None:
                self._http = session(self._loaded)
                self._api = Kube(self._loaded, self._http, fence=lambda: None, timeout=self._timeout)
            return await ask(self._api)

        return self._runner.run(run())


def _record(raw: Object) -> lease.Record:
    spec = raw.get("spec") or {}
    return lease.Record(
        holder=spec.get("holderIdentity") or "",
        duration=float(spec.get("leaseDurationSeconds") or 1),
        acquired=_moment(spec.get("acquireTime")),
        renewed=_moment(spec.get("renewTime")),
        transitions=int(spec.get("leaseTransitions") or 0),
        version=raw["metadata"]["resourceVersion"],
        created=raw["metadata"].get("creationTimestamp") or "",
    )


def _micro(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(text: str | None) -> datetime | None:
    return None if not text else datetime.fromisoformat(text.replace("Z", "+00:00"))
