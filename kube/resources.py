"""The kinds that the operator reads and writes, by their API paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crds import GROUP, VERSION, addresses

Object = dict[str, Any]
"""A Kubernetes object as plain JSON."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind by its API path."""

    api: str
    plural: str

    @property
    def kind(self) -> tuple[str, str, str]:
        """(group, version, plural); the group of core kinds is ""."""
        group, version = self.api.split("/")[-2:]
        return ("" if group == "api" else group), version, self.plural

    def path(self, namespace: str | None, name: str | None = None, subresource: str = "") -> str:
        """URL path of the collection, an object or its subresource."""
        parts = [*(("namespaces", namespace) if namespace else ()), self.plural]
        return self.api + addresses.path(*parts, *((name,) if name else ()), *((subresource,) if subresource else ()))


TASKS = Resource(f"/apis/{GROUP}/{VERSION}", "pendingtasks")
CONNECTIONS = Resource(f"/apis/{GROUP}/{VERSION}", "connections")
BACKENDS = Resource(f"/apis/{GROUP}/{VERSION}", "gpubackends")
JOBS = Resource("/apis/batch/v1", "jobs")
SECRETS = Resource("/api/v1", "secrets")
CONFIG_MAPS = Resource("/api/v1", "configmaps")
PODS = Resource("/api/v1", "pods")
EVENTS = Resource("/api/v1", "events")
SERVICES = Resource("/api/v1", "services")
VOLUME_CLAIMS = Resource("/api/v1", "persistentvolumeclaims")
QUOTAS = Resource("/api/v1", "resourcequotas")
DEPLOYMENTS = Resource("/apis/apps/v1", "deployments")
STATEFUL_SETS = Resource("/apis/apps/v1", "statefulsets")
DAEMON_SETS = Resource("/apis/apps/v1", "daemonsets")
CRON_JOBS = Resource("/apis/batch/v1", "cronjobs")
ENDPOINT_SLICES = Resource("/apis/discovery.k8s.io/v1", "endpointslices")
NAMESPACES = Resource("/api/v1", "namespaces")
TOKEN_REVIEWS = Resource("/apis/authentication.k8s.io/v1", "tokenreviews")
LEASES = Resource("/apis/coordination.k8s.io/v1", "leases")
