"""The administrator's way to the apiserver, past every door: repeats what an outage swallowed, by name or version."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import aiohttp
import yaml

Object = dict[str, Any]
_TASKS = "apis/jervis.dev/v1alpha1"
GROUPS = {
    "pendingtasks": _TASKS,
    "gpubackends": _TASKS,
    "connections": _TASKS,
    "jobs": "apis/batch/v1",
    "pods": "api/v1",
    "secrets": "api/v1",
    "serviceaccounts": "api/v1",
    "leases": "apis/coordination.k8s.io/v1",
}


class RefusedError(AssertionError):
    """The apiserver does not take the request: an error of the test."""


class ClusterApi:
    """One namespace. Every call waits for as long as the apiserver is away."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        with open(kubeconfig) as file:
            known = yaml.safe_load(file)
        cluster, user = known["clusters"][0]["cluster"], known["users"][0]["user"]
        self.server, self.namespace = str(cluster["server"]), namespace
        self.tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self.tls.load_cert_chain(user["client-certificate"], user["client-key"])
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> ClusterApi:
        connector = aiohttp.TCPConnector(ssl=self.tls, limit=32)
        self._http = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=15))
        await self._send("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        # Usually the controller manager's work; pods are refused without it.
        await self.create("serviceaccounts", {"metadata": {"name": "default"}})
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._http is not None
        await self._http.close()

    async def create(self, plural: str, body: Object) -> Object | None:
        """Create; None when it is there already, or when its namespace's quota of one name per object says so."""
        return await self._send("POST", self._path(plural), body)

    async def install(self, path: str, body: Object) -> Object | None:
        """Create an object of the cluster at that path."""
        return await self._send("POST", path, body)

    async def refuses(self, plural: str, body: Object) -> bool:
        """Would the apiserver refuse to create it? Nothing is created."""
        try:
            await self._send("POST", self._path(plural) + "?dryRun=All", body)
        except RefusedError:
            return True
        return False

    async def get(self, plural: str, name: str) -> Object | None:
        """The object, or None."""
        return await self._send("GET", self._path(plural, name))

    async def list(self, plural: str) -> list[Object]:
        """All of that kind."""
        found = await self._send("GET", self._path(plural))
        assert found is not None
        items: list[Object] = found["items"]
        return items

    async def patch(self, plural: str, name: str, body: Object, subresource: str = "") -> Object | None:
        """JSON merge patch; None when the object is gone. With a resourceVersion in it, None also when that is old."""
        return await self._send("PATCH", self._path(plural, name, subresource), body)

    async def delete(self, plural: str, name: str, *, uid: str | None = None) -> None:
        """Delete at once; a missing object is fine."""
        body: Object = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        await self._send("DELETE", self._path(plural, name), body)

    def _path(self, plural: str, name: str = "", subresource: str = "") -> str:
        parts = [GROUPS[plural], "namespaces", self.namespace, plural, name, subresource]
        return "/" + "/".join(part for part in parts if part)

    async def _send(self, method: str, path: str, body: Object | None = None) -> Object | None:
        assert self._http is not None
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        while True:
            try:
                async with self._http.request(
                    method, self.server + path, json=body, headers={"Content-Type": kind}
                ) as answer:
                    if answer.status in (404, 409):
                        return None
                    if answer.status < 300:
                        found: Object = await answer.json()
                        return found
                    if answer.status < 429:
                        raise RefusedError(f"{method} {path}: {answer.status} {await answer.text()}")
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(0.1)
