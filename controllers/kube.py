"""The one client of the Kubernetes API: plain JSON over one aiohttp session, with explicit timeouts.

The `kubernetes` package gives what is tedious (kubeconfig, in-cluster credentials, token rotation, the blocking client
of the lease's thread); the requests themselves are made here (docs/decisions/0003). Errors by retry meaning:

    Unavailable    Operational  timeouts, refused connections, 401, 429, 5xx
    Forbidden      Unavailable  403: a role is missing, and may be there in a moment
    Conflict       Operational  409: the object changed; read it again
    Expired        Operational  410: that place in the history is forgotten; list anew
    NotFound       Permanent    404
    AlreadyExists  Permanent    409 on creation
    Refused        Permanent    every other 4xx: the object is invalid; names the field

Every call that changes something asks `fence` first and is not sent when that raises.
"""

from __future__ import annotations

import json
import math
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import aiohttp
import kubernetes
import orjson
from kubernetes import config

from controllers import lease
from crds import GROUP, VERSION, errors

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection

Object = dict[str, Any]

TOKEN_SECONDS = 10.0
"""For so long a token is taken for the present one; asking the package for it costs as much as sending a request."""


class Unavailable(errors.Operational):
    """The apiserver is away or busy, or does not let us yet."""


class Forbidden(Unavailable):
    """Our account has no right to it yet."""


class Conflict(errors.Operational):
    """The object has changed since it was read."""


class Expired(errors.Operational):
    """The resourceVersion or the continuation of a list is too old."""


class NotFound(errors.Permanent):
    """There is no such object (any more)."""


class AlreadyExists(errors.Permanent):
    """An object of that name is there already."""


class Refused(errors.Permanent):
    """The apiserver does not accept the object."""


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
        parts = [self.api, *(("namespaces", namespace) if namespace else ()), self.plural]
        return "/".join([*parts, *((name,) if name else ()), *((subresource,) if subresource else ())])


TASKS = Resource(f"/apis/{GROUP}/{VERSION}", "pendingtasks")
CONNECTIONS = Resource(f"/apis/{GROUP}/{VERSION}", "connections")
BACKENDS = Resource(f"/apis/{GROUP}/{VERSION}", "gpubackends")
JOBS = Resource("/apis/batch/v1", "jobs")
SECRETS = Resource("/api/v1", "secrets")
PODS = Resource("/api/v1", "pods")
EVENTS = Resource("/api/v1", "events")
TOKEN_REVIEWS = Resource("/apis/authentication.k8s.io/v1", "tokenreviews")
LEASES = Resource("/apis/coordination.k8s.io/v1", "leases")


# The package ships no usable types for its loaders.
_load_kube_config: Callable[..., None] = config.load_kube_config
_load_incluster_config: Callable[..., None] = config.load_incluster_config


def configuration(kubeconfig: str | None) -> Any:
    """Server, CA and credentials: from `kubeconfig`, else from the pod's service account, else from ~/.kube/config."""
    loaded = kubernetes.client.Configuration()
    if kubeconfig:
        _load_kube_config(config_file=kubeconfig, client_configuration=loaded)
    else:
        try:
            _load_incluster_config(client_configuration=loaded)
        except config.ConfigException:
            _load_kube_config(client_configuration=loaded)
    loaded.retries = False  # urllib3 would retry three times behind our back, long after the lease's deadline
    return loaded


def tls(loaded: Any) -> ssl.SSLContext | bool:
    """TLS as the configuration says."""
    if not str(loaded.host).startswith("https"):
        return True
    context = ssl.create_default_context(cafile=loaded.ssl_ca_cert)
    if loaded.cert_file:
        context.load_cert_chain(loaded.cert_file, loaded.key_file)
    if not loaded.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def authorization(loaded: Any) -> dict[str, str]:
    """The Authorization header, with the token read anew when the service account's has been rotated."""
    token = loaded.get_api_key_with_prefix("BearerToken")
    return {"Authorization": token} if token else {}


def session(
    loaded: Any,
    headers: Mapping[str, str] | None = None,
    *,
    fence: Callable[[], None] | None = None,
) -> aiohttp.ClientSession:
    """A session with the configuration's TLS. Without `headers` each request brings its own authorization.

    With a `fence` a request that changes something is not sent when that raises as it is about to go onto the wire.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls(loaded)),
        request_class=aiohttp.ClientRequest if fence is None else _fenced(fence),
        headers=headers,
    )


def _fenced(fence: Callable[[], None]) -> type[aiohttp.ClientRequest]:
    """Between the call and the wire lie a connection to be had and turns of the loop: time enough to be frozen in."""

    class Request(aiohttp.ClientRequest):
        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            if self.method != "GET" and self.url.path != TOKEN_REVIEWS.path(None):
                try:
                    fence()
                except lease.Fenced as error:
                    # As aiohttp itself tells whoever waits for the answer that nothing was sent.
                    assert conn.protocol is not None
                    conn.protocol.set_exception(aiohttp.ClientConnectionError(error.message))
                    return
            await super().write_bytes(writer, conn, content_length)

    return Request


class Kube:
    """Typed calls; `counted(verb, code)` is told of every answer (code 0: none came)."""

    def __init__(
        self,
        loaded: Any,
        http: aiohttp.ClientSession,
        *,
        fence: Callable[[], None],
        counted: Callable[[str, int], None] = lambda verb, code: None,
        timeout: float = 10.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loaded, self._http = loaded, http
        self._monotonic, self._token_until = monotonic, -math.inf
        self._common: dict[str, str] = {}
        self._fence, self._counted = fence, counted
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=min(timeout, 5.0))

    async def get(self, resource: Resource, namespace: str | None, name: str | None = None) -> Object:
        """One object as JSON; without a name the group's discovery document or the collection."""
        return await self._send("GET", resource.path(namespace, name))

    async def discover(self, resource: Resource) -> set[str]:
        """Plural names that the resource's API group serves; empty when the group is not there."""
        try:
            found = await self._send("GET", resource.api)
        except NotFound:
            return set()
        return {item["name"] for item in found.get("resources", ())}

    async def each(
        self, resource: Resource, namespace: str | None, labels: str = "", *, fields: str = "", page: int = 500
    ) -> AsyncIterator[Object]:
        """Every object of a collection that the label and field selectors take, read in pages."""
        async for items, _ in self.pages(resource, namespace, labels, fields=fields, page=page):
            for item in items:
                yield item

    async def pages(
        self, resource: Resource, namespace: str | None, labels: str = "", *, fields: str = "", page: int = 500
    ) -> AsyncIterator[tuple[list[Object], str]]:
        """The same page by page, each with the resourceVersion that the whole list shows."""
        params = {"limit": str(page), **_selectors(labels, fields)}
        while True:
            found = await self._send("GET", resource.path(namespace), params=params)
            yield found.get("items") or [], found["metadata"].get("resourceVersion", "")
            following = found["metadata"].get("continue")
            if not following:
                return
            params["continue"] = following

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        since: str,
        labels: str = "",
        *,
        fields: str = "",
        seconds: int,
        silence: float,
    ) -> AsyncGenerator[list[Object]]:
        """What happens after the resourceVersion `since`, until the server has had enough after about `seconds`.

        Each turn brings the events of one reading from the wire, bookmarks included: {type, object}. The first turn
        brings none: the watch has begun. Raises `Expired`, and `Unavailable` also when nothing comes for `silence`
        seconds.
        """
        path = resource.path(namespace)
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(seconds),
            **_selectors(labels, fields),
        }
        patience = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout.sock_connect, sock_read=silence)
        headers = self._headers()
        try:
            async with self._http.get(
                f"{self._loaded.host}{path}", params=params, headers=headers, timeout=patience
            ) as response:
                self._counted("WATCH", response.status)
                if response.status >= 300:
                    payload = await response.read()
                    raise self._refused("WATCH", path, response.status, payload, response.headers.get("Retry-After"))
                yield []
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    events: list[Object] = [orjson.loads(line) for line in lines]
                    failed = next((one["object"] for one in events if one["type"] == "ERROR"), None)
                    yield [one for one in events if one["type"] != "ERROR"]
                    if failed is not None:
                        raise _refusal("WATCH", path, int(failed.get("code") or 500), orjson.dumps(failed), None)
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            raise Unavailable(f"the watch of {path} broke: {error!r}") from error

    async def create(self, resource: Resource, namespace: str, body: Mapping[str, Any]) -> Object:
        """The created object; raises `AlreadyExists`."""
        return await self._send("POST", resource.path(namespace), body=body)

    async def merge(
        self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any], subresource: str = ""
    ) -> Object:
        """JSON merge patch (RFC 7396). With metadata.resourceVersion in it, a changed object raises `Conflict`."""
        return await self._send("PATCH", resource.path(namespace, name, subresource), body=patch)

    async def replace(self, resource: Resource, body: Mapping[str, Any], subresource: str = "") -> Object:
        """The object as `body` has it; with metadata.resourceVersion in it, a changed object raises `Conflict`."""
        meta = body["metadata"]
        return await self._send("PUT", resource.path(meta["namespace"], meta["name"], subresource), body=body)

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str | None = None, version: str | None = None
    ) -> None:
        """Delete with its dependents in the background. A missing object is fine.

        `uid` and `version` (a resourceVersion) are preconditions: another or a changed object raises `Conflict`.
        """
        body: Object = {"propagationPolicy": "Background"}
        conditions = {"uid": uid, "resourceVersion": version}
        if any(conditions.values()):
            body["preconditions"] = {key: value for key, value in conditions.items() if value}
        try:
            await self._send("DELETE", resource.path(namespace, name), body=body)
        except NotFound:
            return

    async def delete_all(self, resource: Resource, namespace: str, labels: str) -> None:
        """Delete everything that the label selector takes, with dependents in the background: one call for many."""
        await self._send(
            "DELETE",
            resource.path(namespace),
            body={"propagationPolicy": "Background"},
            params={"labelSelector": labels},
        )

    async def review(self, token: str, audience: str) -> Object:
        """The status of a TokenReview: who holds `token`. Changes nothing, so any replica may ask."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        }
        found = await self._send("POST", TOKEN_REVIEWS.path(None), body=body, fenced=False)
        return found.get("status") or {}

    def _headers(self) -> dict[str, str]:
        """Of every request. Compression would cost both ends more than it saves between neighbours."""
        now = self._monotonic()
        if now >= self._token_until:
            plain = {"Accept": "application/json", "Accept-Encoding": "identity"}
            self._common = {**plain, **authorization(self._loaded)}
            self._token_until = now + TOKEN_SECONDS
        return dict(self._common)

    def _refused(self, verb: str, path: str, code: int, payload: bytes, retry_after: str | None) -> errors.JervisError:
        if code == 401:
            self._token_until = -math.inf
        return _refusal(verb, path, code, payload, retry_after)

    async def _send(
        self,
        verb: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        fenced: bool = True,
    ) -> Object:
        if verb != "GET" and fenced:
            self._fence()
        headers = self._headers()
        if body is not None:
            kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
            headers["Content-Type"] = kind
        try:
            async with self._http.request(
                verb,
                f"{self._loaded.host}{path}",
                data=None if body is None else orjson.dumps(body),
                params=params,
                headers=headers,
                timeout=self._timeout,
            ) as response:
                payload = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            self._counted(verb, 0)
            raise Unavailable(f"the Kubernetes API did not answer {verb} {path}: {error!r}") from error
        self._counted(verb, response.status)
        if response.status >= 300:
            raise self._refused(verb, path, response.status, payload, response.headers.get("Retry-After"))
        found: Object = orjson.loads(payload)
        return found


def _selectors(labels: str, fields: str) -> dict[str, str]:
    both = {"labelSelector": labels, "fieldSelector": fields}
    return {key: text for key, text in both.items() if text}


def _refusal(verb: str, path: str, code: int, payload: bytes, retry_after: str | None) -> errors.JervisError:
    try:
        status: Object = orjson.loads(payload)
    except orjson.JSONDecodeError:
        status = {"message": payload[:200].decode(errors="replace")}
    message = f"{verb} {path}: {status.get('message') or f'HTTP {code}'}"
    if code == 404:
        return NotFound(message)
    if code == 409:
        return AlreadyExists(message) if status.get("reason") == "AlreadyExists" else Conflict(message)
    if code == 403:
        return Forbidden(message)
    if code == 410:
        return Expired(message)
    if code in (401, 408, 429) or code >= 500:
        wait = float(retry_after) if retry_after and retry_after.isdigit() else None
        return Unavailable(message, retry_after=wait)
    causes: list[Object] = (status.get("details") or {}).get("causes") or [{}]
    return Refused(message, field=causes[0].get("field"), remedy="Mend the named field or the operator's settings.")


class LeaseStore:
    """The Lease for the thread of `controllers.lease`: blocking calls with a short timeout, no loop involved."""

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
            raise _refusal("LEASE", self._name, error.status, (error.body or "").encode(), None) from error
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
        )


def _micro(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(text: str | None) -> datetime | None:
    return None if not text else datetime.fromisoformat(text.replace("Z", "+00:00"))
