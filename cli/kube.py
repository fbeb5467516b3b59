"""The Kubernetes API with the rights of the caller. The only module that imports its client.

The `kubernetes` package reads the kubeconfig (contexts, exec plugins, certificates) and makes the connections; objects
stay JSON, so that `-o json` prints what the apiserver said.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib import parse

import urllib3
from kubernetes import client, config

from cli import errors
from cli.reading import Object
from crds import API_VERSION, addresses
from crds.errors import JervisError

_TRIES = 8
_PAGE = "500"
_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_CONNECTIONS = 32
_TICKET_SECONDS = 600
_SILENCE = 60.0
"""Seconds: services send something more often than that."""
_IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_OURS = f"/apis/{API_VERSION}"

# The parts of the client without annotations.
_config: Any = config
_new_api: Any = client.ApiClient


def connect(
    kubeconfig: str | None, context: str | None, namespace: str | None, timeout: float, *, dry_run: bool = False
) -> Kube:
    """By `kubeconfig` (else $KUBECONFIG, ~/.kube/config, the pod's service account), its `context`, its namespace.

    `timeout` in seconds bounds one request; with `dry_run` the apiserver checks changes of PendingTasks and writes
    none. Raises `Unusable` when there is no way to an apiserver.
    """
    if kubeconfig and not Path(kubeconfig).expanduser().is_file():
        raise errors.Unusable(
            f"There is no file {kubeconfig!r}.", field="--kubeconfig", remedy="Name the kubeconfig of your cluster."
        )
    loaded = client.Configuration()
    try:
        contexts, current = _config.list_kube_config_contexts(config_file=kubeconfig)
        chosen = next((one for one in contexts if one["name"] == context), None) if context else current
        if chosen is None:
            known = ", ".join(one["name"] for one in contexts)
            raise errors.Unusable(
                f"The kubeconfig has no context {context!r}.", field="--context", remedy=f"Its contexts are: {known}."
            )
        _config.load_kube_config(
            config_file=kubeconfig, context=context, client_configuration=loaded, persist_config=False
        )
        own = chosen["context"].get("namespace", "")
    except config.ConfigException as error:
        if kubeconfig or context or not _IN_POD.is_file():
            raise errors.Unusable(
                f"There is no way to a cluster: {error}",
                field="--kubeconfig",
                remedy="Set KUBECONFIG or give --kubeconfig and --context.",
            ) from error
        _config.load_incluster_config(client_configuration=loaded)
        own = _IN_POD.read_text().strip()
    loaded.connection_pool_maxsize = _CONNECTIONS
    loaded.retries = False  # a command that fails says so at once; its caller decides about trying again
    return Kube(_new_api(loaded), namespace or own or "default", timeout, dry_run=dry_run)


class Kube:
    """Calls as one user in one namespace."""

    def __init__(self, api: Any, namespace: str, timeout: float, *, dry_run: bool = False) -> None:
        self._api = api
        self._timeout = timeout
        self._changing = {"dryRun": "All"} if dry_run else {}
        self.namespace = namespace
        self.dry_run = dry_run

    def tasks(self, *, everywhere: bool = False, fields: str = "") -> Iterator[Object]:
        """The PendingTasks of the namespace, or of all, that the field selector takes, page by page; raises
        `Unavailable` when the list changed too much while it was read."""
        return self._items(self._tasks(everywhere), {"fieldSelector": fields}, {})

    def metadata(self, *, everywhere: bool = False, labels: str = "", fields: str = "") -> Iterator[Object]:
        """The same without spec and status; narrowed by a label selector, too."""
        query = {"labelSelector": labels, "fieldSelector": fields}
        return self._items(self._tasks(everywhere), query, {"Accept": _METADATA})

    def task(self, name: str) -> Object:
        """One PendingTask; raises `NotFound`."""
        return self._json("GET", self._path("pendingtasks", name))

    def backends(self) -> list[Object]:
        """GpuBackends of the namespace."""
        return self._list(self._path("gpubackends"), {})

    def connections(self) -> list[Object]:
        """Connections of the namespace."""
        return self._list(self._path("connections"), {})

    def connection(self, name: str) -> Object:
        """One Connection; raises `NotFound`."""
        return self._json("GET", self._path("connections", name))

    def create(self, body: Mapping[str, Any]) -> Object:
        """A new PendingTask; raises `Refused` when the name is taken or a field is wrong."""
        return self._json("POST", self._path("pendingtasks"), query=self._changing, body=body)

    def delete(self, raw: Object) -> None:
        """Delete this very PendingTask, whichever its namespace; that it is gone already is as good."""
        meta = raw["metadata"]
        path = _OURS + addresses.path("namespaces", meta["namespace"], "pendingtasks", meta["name"])
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": meta["uid"]}}
        # Options in the body hide those of the query.
        body |= {"dryRun": ["All"]} if self.dry_run else {}
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            self._json("DELETE", path, body=body)

    def edit(
        self, name: str, change: Callable[[Object], Mapping[str, Any] | None], plural: str = "pendingtasks"
    ) -> tuple[Object, bool]:
        """Read, change, write under a resourceVersion precondition, again when another writer was faster.

        `change` answers a merge patch or None for "it says so already". Returns the object and whether it was written.
        """
        for _ in range(_TRIES):
            raw = self._json("GET", self._path(plural, name))
            patch = change(raw)
            if patch is None:
                return raw, False
            version = {"resourceVersion": raw["metadata"]["resourceVersion"]}
            body = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
            try:
                path = self._path(plural, name)
                return self._json("PATCH", path, query=self._changing, body=body), True
            except errors.Conflict:
                continue
        kind = "Connection" if plural == "connections" else "PendingTask"
        raise errors.Conflict(f"{kind} {name!r} changed {_TRIES} times while it was about to be written.")

    def pods(self, namespace: str, labels: str) -> list[Object]:
        """Pods of that namespace with these labels."""
        return self._list("/api/v1" + addresses.path("namespaces", namespace, "pods"), {"labelSelector": labels})

    def log(self, namespace: str, pod: str, container: str, *, follow: bool, tail: int | None) -> Iterator[bytes]:
        """Pieces of a container's log as they come. A silent log is followed for as long as it takes."""
        query = {"container": container, "follow": str(follow).lower()}
        if tail is not None:
            query["tailLines"] = str(tail)
        path = "/api/v1" + addresses.path("namespaces", namespace, "pods", pod, "log")
        reply = self._send("GET", path, query=query, timeout=(self._timeout, None) if follow else self._timeout)
        try:
            yield from reply.response.stream(1 << 16, decode_content=True)
        except urllib3.exceptions.HTTPError as error:
            raise errors.Unavailable(f"The log of pod {pod!r} broke off: {error}.") from error
        finally:
            reply.response.close()

    def cron_jobs(self, namespace: str, labels: str) -> list[Object]:
        """CronJobs of that namespace with these labels."""
        return self._list(
            "/apis/batch/v1" + addresses.path("namespaces", namespace, "cronjobs"), {"labelSelector": labels}
        )

    def create_job(self, namespace: str, body: Mapping[str, Any]) -> Object:
        """A new Job in that namespace."""
        return self._json("POST", "/apis/batch/v1" + addresses.path("namespaces", namespace, "jobs"), body=body)

    def job(self, namespace: str, name: str) -> Object:
        """One Job; raises `NotFound`."""
        return self._json("GET", "/apis/batch/v1" + addresses.path("namespaces", namespace, "jobs", name))

    def delete_job(self, namespace: str, name: str) -> None:
        """Delete a Job with its pods; raises `NotFound`."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        self._json("DELETE", "/apis/batch/v1" + addresses.path("namespaces", namespace, "jobs", name), body=body)

    def events(self, namespace: str, kind: str, name: str) -> list[Object]:
        """Events about one object."""
        selector = f"involvedObject.kind={kind},involvedObject.name={name}"
        return self._list("/api/v1" + addresses.path("namespaces", namespace, "events"), {"fieldSelector": selector})

    def accounts(self, labels: str) -> list[Object]:
        """ServiceAccounts of the namespace with these labels."""
        return self._list(
            "/api/v1" + addresses.path("namespaces", self.namespace, "serviceaccounts"), {"labelSelector": labels}
        )

    def services(self, namespace: str, labels: str) -> list[Object]:
        """Services of that namespace with these labels."""
        return self._list("/api/v1" + addresses.path("namespaces", namespace, "services"), {"labelSelector": labels})

    def ticket(self, account: str, audience: str) -> str:
        """A token of that ServiceAccount of the namespace, good for `audience` alone and for ten minutes."""
        path = "/api/v1" + addresses.path("namespaces", self.namespace, "serviceaccounts", account, "token")
        spec = {"audiences": [audience], "expirationSeconds": _TICKET_SECONDS}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self._json("POST", path, body=body)["status"]["token"])

    def read(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Object:
        """JSON from wherever the apiserver's proxy leads."""
        return self._json("GET", path, query=query, headers=headers)

    def lines(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[bytes]:
        """Lines from wherever the apiserver's proxy leads, as they come, until the stream ends or is silent."""
        reply = self._send("GET", path, query=query, timeout=(self._timeout, _SILENCE), more=headers)
        rest = b""
        try:
            for piece in reply.response.stream(1 << 16, decode_content=True):
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
        except urllib3.exceptions.HTTPError as error:
            raise errors.Unavailable(f"The stream of {path} broke off: {error}.") from error
        finally:
            reply.response.close()

    def through(
        self, verb: str, path: str, headers: Mapping[str, str], body: bytes, seconds: tuple[float | None, float | None]
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of what a service behind the apiserver's proxy answers, whatever it is.

        `path` has its query, `seconds` are those to connect and to wait for a byte. Raises where the apiserver itself
        answers: the caller may not, or the service is away.
        """
        timeout = urllib3.Timeout(connect=seconds[0], read=seconds[1])
        given = {**headers, **self._identity()}
        url = f"{self._api.configuration.host}{path}"
        try:
            manager = self._api.rest_client.pool_manager
            reply = manager.request(verb, url, body=body or None, headers=given, timeout=timeout, redirect=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._away(error) from error
        text: bytes = reply.data
        if reply.status >= 400 and _of_apiserver(text):
            raise _refusal(reply.status, text, path.partition("/namespaces/")[2].partition("/")[0])
        return int(reply.status), dict(reply.headers), text

    def whoami(self) -> str:
        """What the apiserver calls the caller; "" where it does not tell."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            said = self._json("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body)
        except (errors.Forbidden, errors.NotFound):
            # The author is a courtesy to readers; a cluster that hides it must not hinder the answer.
            return ""
        return str(said["status"]["userInfo"].get("username", ""))[:253]

    def close(self) -> None:
        """Give the connections back."""
        self._api.rest_client.pool_manager.clear()

    def _path(self, plural: str, name: str = "") -> str:
        return _OURS + addresses.path("namespaces", self.namespace, plural, *((name,) if name else ()))

    def _tasks(self, everywhere: bool) -> str:
        return f"{_OURS}/pendingtasks" if everywhere else self._path("pendingtasks")

    def _list(self, path: str, query: Mapping[str, str]) -> list[Object]:
        return list(self._items(path, query, {}))

    def _items(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[Object]:
        for page in self._pages(path, query, headers):
            # A list names its kind once; its items do not, and a printed object without a kind cannot be applied.
            kind = {"apiVersion": page["apiVersion"], "kind": str(page["kind"]).removesuffix("List")}
            yield from ({**kind, **item} for item in page["items"] or ())  # none: null for metadata

    def _pages(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[Object]:
        following = ""
        while True:
            page = self._json("GET", path, query={**query, "limit": _PAGE, "continue": following}, headers=headers)
            yield page
            following = page["metadata"].get("continue", "")
            if not following:
                return

    def _json(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Object:
        reply = self._send(verb, path, query=query or {}, body=body, timeout=self._timeout, more=headers or {})
        try:
            found: Object = json.loads(reply.read())
        except urllib3.exceptions.HTTPError as error:
            raise errors.Unavailable(f"The answer to {verb} {path} broke off: {error}.") from error
        except ValueError as error:
            raise errors.Unusable(
                f"{self._api.configuration.host} answers {verb} {path} with something that is not JSON.",
                field="--kubeconfig",
                remedy="Check that the kubeconfig's server is a Kubernetes API.",
            ) from error
        return found

    def _send(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str],
        timeout: float | tuple[float, float | None],
        body: Mapping[str, Any] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Any:
        if addresses.leads_away(path):
            raise errors.Unusable(f"{path[:200]!r} is no path of the Kubernetes API.", remedy="Give a plain name.")
        settings = self._api.configuration
        headers = {"Accept": "application/json, */*", **self._identity(), **(more or {})}
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        given = {key: value for key, value in query.items() if value}
        url = f"{settings.host}{path}" + (f"?{parse.urlencode(given)}" if given else "")
        try:
            reply = self._api.rest_client.request(verb, url, headers=headers, body=body, _request_timeout=timeout)
            if reply.status < 300:
                return reply
            text = reply.read()
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            raise self._away(error) from error
        asked = path.partition("/namespaces/")[2].partition("/")[0]
        raise _refusal(reply.status, text, asked or self.namespace)

    def _identity(self) -> dict[str, str]:
        """The headers that say who asks; certificates are the connection's."""
        token = self._api.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return {"User-Agent": "kubectl-jervis", **({"Authorization": token} if token else {})}

    def _away(self, error: Exception) -> errors.Unavailable:
        return errors.Unavailable(f"The Kubernetes API at {self._api.configuration.host} does not answer: {error}.")


def _of_apiserver(text: bytes) -> bool:
    """Whether an error is the apiserver's own (metav1.Status), not that of a service behind its proxy."""
    try:
        said = json.loads(text)
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("kind") == "Status"


def _answered(code: int, problem: Object) -> JervisError:
    """What a service of ours behind the apiserver's proxy says is wrong."""
    message = f"The operator answers: {str(problem.get('message') or code).rstrip('.')}."
    if code in (408, 429) or code >= 500:
        return errors.Unavailable(message)
    if code == 404:
        return errors.NotFound(message, field=problem.get("field"), remedy=problem.get("remedy"))
    return errors.Refused(message, field=problem.get("field"), remedy=problem.get("remedy"))


def _refusal(code: int, text: bytes, namespace: str) -> JervisError:
    try:
        status: Object = json.loads(text)
    except ValueError:
        status = {"message": text[:200].decode(errors="replace")}
    problem = status.get("error")
    if isinstance(problem, dict):
        return _answered(code, problem)
    message = str(status.get("message") or f"HTTP {code}").rstrip(".") + "."
    details: Object = status.get("details") or {}
    if code == 401:
        return errors.Forbidden(message, field="--kubeconfig", remedy="Log in to the cluster again.")
    if code == 403:
        acts = "admin" if details.get("kind") == "connections" else "edit"
        remedy = f"Ask an administrator of namespace {namespace!r} for the role view (to read) or {acts} (to act)."
        return errors.Forbidden(message, remedy=remedy)
    if code == 404 and details.get("name"):
        return errors.NotFound(message, field="NAME", remedy="Check the name and -n NAMESPACE.")
    if code == 404:
        return errors.NotFound(message, remedy="Install Jervis's chart: this cluster does not know its objects.")
    if code == 409 and status.get("reason") == "AlreadyExists":
        return errors.Refused(message, field="metadata.name", remedy="Choose another name.")
    if code == 409:
        return errors.Conflict(message)
    if code in (408, 410, 429) or code >= 500:
        # 410: the list that was read page by page is gone meanwhile.
        return errors.Unavailable(message)
    causes: list[Object] = details.get("causes") or []
    said = "; ".join(f"{one.get('field', '')}: {one.get('message', '')}" for one in causes) or message
    fields = list(dict.fromkeys(str(one["field"]) for one in causes if one.get("field")))
    return errors.Refused(said, field=", ".join(fields) or None, remedy="Correct what the message names and try again.")
