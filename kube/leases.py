"""The Lease for the thread of `kube.lease`: blocking calls with a short timeout, no loop involved."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import kubernetes

from kube import lease
from kube.errors import AlreadyExists, Conflict, NotFound, Unavailable, refusal
from kube.resources import Object


class LeaseStore:
    """One Lease by its name; `timeout` seconds for each call."""

    def __init__(self, loaded: Any, namespace: str, name: str, *, timeout: float = 3.0) -> None:
        self._api = kubernetes.client.CoordinationV1Api(kubernetes.client.ApiClient(loaded))
        self._namespace, self._name, self._timeout = namespace, name, timeout

    def read(self) -> lease.Record | None:
        """The stored record, or None."""
        try:
            return self._record(self._call(self._api.read_namespaced_lease, self._name, self._namespace))
        except NotFound:
            return None

    def write(self, record: lease.Record) -> lease.Record:
        """Create or replace; raises `lease.ContestedError`."""
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
                return self._record(self._call(self._api.create_namespaced_lease, self._namespace, body))
            body["metadata"]["resourceVersion"] = record.version
            return self._record(self._call(self._api.replace_namespaced_lease, self._name, self._namespace, body))
        except (Conflict, AlreadyExists, NotFound) as error:
            raise lease.ContestedError(error.message) from error

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Object:
        try:
            answer = method(*arguments, _preload_content=False, _request_timeout=self._timeout)
        except kubernetes.client.ApiException as error:
            raise refusal("LEASE", self._name, error.status, (error.body or "").encode(), None) from error
        except Exception as error:  # urllib3 and ssl raise many kinds; all mean "no answer" here
            raise Unavailable(f"the Kubernetes API did not answer about the lease: {error!r}") from error
        found: Object = json.loads(answer.data)
        return found

    @staticmethod
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
