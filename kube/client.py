"""The client of the event loop: plain JSON over one aiohttp session, a timeout for each request, no retries."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import aiohttp
import orjson

from crds import addresses, errors
from kube.access import authorization
from kube.clock import ServerClock
from kube.errors import NotFound, Refused, TooLarge, Unavailable, refusal
from kube.resources import PODS, TOKEN_REVIEWS, Object, Resource

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TOKEN_SECONDS = 10.0
"""For so long a token is taken for the present one; asking the package for it costs as much as sending a request."""


class Kube:
    """Typed calls; `server` knows the time there; `counted(verb, code)` receives every answer (code 0: none came)."""

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
        self.server = ServerClock(monotonic)
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
    ) -> AsyncGenerator[Object]:
        """Every object of a collection that the label and field selectors take, read in pages."""
        async with aclosing(self.pages(resource, namespace, labels, fields=fields, page=page)) as pages:
            async for items, _ in pages:
                for item in items:
                    yield item

    async def pages(
        self,
        resource: Resource,
        namespace: str | None,
        labels: str = "",
        *,
        fields: str = "",
        page: int = 500,
        metadata: bool = False,
    ) -> AsyncGenerator[tuple[list[Object], str]]:
        """The same page by page, each with the resourceVersion that the whole list shows.

        The next page is asked for before one is handed out: the server makes it while that one is taken in. With
        `metadata` the server sends {metadata} of each object and nothing else (PartialObjectMetadataList).
        """
        params = {"limit": str(page), **_selectors(labels, fields)}
        accept = METADATA_LIST if metadata else ""
        async with aclosing(self._lists(resource.path(namespace), params, accept)) as lists:
            async for found in lists:
                yield found.get("items") or [], found["metadata"].get("resourceVersion", "")

    async def page(
        self,
        resource: Resource,
        namespace: str | None,
        limit: int,
        *,
        fields: str = "",
        following: str = "",
        most: int | None = None,
    ) -> Object:
        """One page of a collection as the apiserver has it; its metadata says what follows: `continue`, to be given as
        `following`, and `remainingItemCount`, where the server counts. Raises `Expired` for an old `following`, and
        `TooLarge` for a page of more than `most` bytes, which is not read to its end."""
        params = {"limit": str(limit), **_selectors("", fields), **({"continue": following} if following else {})}
        return await self._send("GET", resource.path(namespace), params=params, most=most)

    async def log(
        self, namespace: str, pod: str, *, container: str = "", lines: int, most: int, previous: bool = False
    ) -> str:
        """The last `lines` of a container's log, of which the first `most` bytes; of the container before its last
        restart with `previous`. Raises `Refused` where there is none to be had, as before a container has started."""
        params = {
            "tailLines": str(lines), "limitBytes": str(most), **({"container": container} if container else {}),
            **({"previous": "true"} if previous else {}),
        }  # fmt: skip
        payload = await self._bytes("GET", PODS.path(namespace, pod, "log"), params=params, accept="*/*")
        return payload[:most].decode("utf-8", "replace")

    async def _lists(self, path: str, params: Mapping[str, str], accept: str = "") -> AsyncGenerator[Object]:
        """Each page of a collection as it is served; the next one is asked for before one is handed out."""

        def ask(more: Mapping[str, str]) -> asyncio.Task[Object]:
            sent = self._send("GET", path, params={**params, **more}, accept=accept)
            return asyncio.create_task(sent, name=f"list {path}")

        ahead: asyncio.Task[Object] | None = ask({})
        try:
            while ahead is not None:
                found = await ahead
                following = found["metadata"].get("continue")
                ahead = ask({"continue": following}) if following else None
                yield found
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)

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
        metadata: bool = False,
    ) -> AsyncGenerator[list[Object]]:
        """What happens after the resourceVersion `since`, until the server has had enough after about `seconds`.

        Each turn brings the events of one reading from the wire, bookmarks included: {type, object}. The first turn
        brings none: the watch has begun. Raises `Expired`, and `Unavailable` also when nothing comes for `silence`
        seconds. With `metadata` each object has its metadata only.
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
        headers = self._headers(METADATA if metadata else "")
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
                        raise refusal("WATCH", path, int(failed.get("code") or 500), orjson.dumps(failed), None)
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            raise Unavailable(f"the watch of {path} broke: {error!r}") from error

    async def create(self, resource: Resource, namespace: str, body: Mapping[str, Any]) -> Object:
        """The created object; raises `AlreadyExists`."""
        return await self._send("POST", resource.path(namespace), body=body)

    async def merge(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        subresource: str = "",
        *,
        fenced: bool = True,
    ) -> Object:
        """JSON merge patch (RFC 7396). With metadata.resourceVersion in it, a changed object raises `Conflict`.

        `fenced`: only the leader may write it.
        """
        return await self._send("PATCH", resource.path(namespace, name, subresource), body=patch, fenced=fenced)

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

    async def review(self, token: str, *audiences: str) -> Object:
        """The status of a TokenReview: who holds `token`, which must be for one of `audiences`, without any for the
        apiserver itself. Changes nothing, so any replica may ask."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": list(audiences)},
        }
        found = await self._send("POST", TOKEN_REVIEWS.path(None), body=body, fenced=False)
        return found.get("status") or {}

    def _headers(self, accept: str = "") -> dict[str, str]:
        """Of every request. Compression would cost both ends more than it saves between neighbours."""
        now = self._monotonic()
        if now >= self._token_until:
            plain = {"Accept": "application/json", "Accept-Encoding": "identity"}
            self._common = {**plain, **authorization(self._loaded)}
            self._token_until = now + TOKEN_SECONDS
        return {**self._common, "Accept": accept} if accept else dict(self._common)

    def _refused(self, verb: str, path: str, code: int, payload: bytes, retry_after: str | None) -> errors.JervisError:
        if code == 401:
            self._token_until = -math.inf
        return refusal(verb, path, code, payload, retry_after)

    async def _send(
        self,
        verb: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        fenced: bool = True,
        accept: str = "",
        most: int | None = None,
    ) -> Object:
        payload = await self._bytes(verb, path, body=body, params=params, fenced=fenced, accept=accept, most=most)
        try:
            found: Object = orjson.loads(payload)
        except orjson.JSONDecodeError as error:
            raise Unavailable(f"the answer to {verb} {path} is not JSON: is this a Kubernetes API?") from error
        return found

    async def _bytes(
        self,
        verb: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        fenced: bool = True,
        accept: str = "",
        most: int | None = None,
    ) -> bytes:
        if addresses.leads_away(path):
            raise Refused(f"{path[:200]!r} is no path of the Kubernetes API")
        if verb != "GET" and fenced:
            self._fence()
        headers = self._headers(accept)
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        try:
            async with self._http.request(
                verb,
                f"{self._loaded.host}{path}",
                data=None if body is None else orjson.dumps(body),
                params=params,
                headers=headers,
                timeout=self._timeout,
            ) as response:
                payload = await _read(response, verb, path, most)
        except TooLarge:
            self._counted(verb, response.status)
            raise
        except (aiohttp.ClientError, TimeoutError) as error:
            self._counted(verb, 0)
            raise Unavailable(f"the Kubernetes API did not answer {verb} {path}: {error!r}") from error
        self._counted(verb, response.status)
        self.server.observe(response.headers.get("Date"))
        if response.status >= 300:
            raise self._refused(verb, path, response.status, payload, response.headers.get("Retry-After"))
        return payload


async def _read(response: aiohttp.ClientResponse, verb: str, path: str, most: int | None) -> bytes:
    """The body. Raises `TooLarge` over `most` bytes."""
    if most is None:
        return await response.read()
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > most:
            # The rest of it is on the connection, which nothing else can use.
            response.close()
            raise TooLarge(f"the answer to {verb} {path} has more than {most} bytes")
        parts.append(part)
    return b"".join(parts)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    both = {"labelSelector": labels, "fieldSelector": fields}
    return {key: text for key, text in both.items() if text}
