"""The operator's history and queue, reached through the apiserver with a short-lived token (docs/decisions/0007)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from cli import errors
from cli.kube import Kube
from cli.reading import Object
from contracts.api import history
from crds import addresses

_PAGE = 500
_PATH = "/api/v1/history"
_RESULTS = "/api/v1/results"
_TRACES, _ARTIFACTS = "/api/v1/traces", "/api/v1/artifacts"
_SELECTOR = f"app.kubernetes.io/part-of=jervis,app.kubernetes.io/component={history.COMPONENT}"


class Client:
    """Client of one namespace's history; its token is fetched with the first request."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._target: tuple[str, str] | None = None

    def get(self, path: str, query: Mapping[str, str]) -> Object:
        """An answer as JSON."""
        proxy, headers = self._open()
        return self._kube.read(proxy + path, query, headers)

    def events(self, path: str, query: Mapping[str, str]) -> Iterator[Object]:
        """The documents of a stream of server-sent events, until it ends; with a token of its own."""
        self._target = None
        proxy, headers = self._open()
        for line in self._kube.lines(proxy + path, query, headers):
            if line.startswith(b"data: "):
                found: Object = json.loads(line.removeprefix(b"data: "))
                yield found

    def _open(self) -> tuple[str, dict[str, str]]:
        if self._target is None:
            self._target = self._find()
        address, token = self._target
        namespace, service = address.split("/", 1)
        proxy = "/api/v1" + addresses.path("namespaces", namespace, "services", f"http:{service}", "proxy")
        return proxy, {history.TICKET_HEADER: token}

    def _find(self) -> tuple[str, str]:
        for account, address in _addresses(self._kube):
            return address, self._kube.ticket(account, history.AUDIENCE)
        raise errors.NotFound(
            f"Namespace {self._kube.namespace!r} has no account that opens its history and its queue.",
            field="--namespace",
            remedy="Give a namespace of the chart's release or of its watchNamespaces. In one that is served by its "
            'labels, apply once what `helm get notes RELEASE` prints (README of the chart, "Several namespaces").',
        )


def release(kube: Kube) -> str:
    """The release's namespace, where the runs are; the task's own where no chart says which that is."""
    return next((address.partition("/")[0] for _, address in _addresses(kube)), kube.namespace)


def _addresses(kube: Kube) -> Iterator[tuple[str, str]]:
    """(ServiceAccount, NAMESPACE/SERVICE:PORT) of the operators that process this namespace's tasks."""
    for raw in kube.accounts(_SELECTOR):
        address = raw["metadata"].get("annotations", {}).get(history.ADDRESS_ANNOTATION, "")
        if "/" in address:
            yield raw["metadata"]["name"], address


def entries(api: Client, asked: Mapping[str, str], limit: int) -> Iterator[Object]:
    """Finished tasks, the one that ended last first, page by page."""
    query = {key: value for key, value in asked.items() if value}
    while True:
        page = api.get(_PATH, {**query, "limit": str(min(limit, _PAGE))})
        yield from page["items"]
        if not page.get("next"):
            return
        query["before"] = page["next"]


def result(api: Client, uid: str) -> Object:
    """What the last run of a task stored, of a live one as well; raises `NotFound`."""
    return api.get(_RESULTS + addresses.path(uid), {})


def trace(api: Client, uid: str) -> Object:
    """What the runs of a task did; raises `NotFound`."""
    return api.get(_TRACES + addresses.path(uid), {})


def artifacts(api: Client, uid: str) -> Object:
    """What its result has beside the answer; raises `NotFound`."""
    return api.get(_ARTIFACTS + addresses.path(uid), {})


def content(api: Client, uid: str, key: str) -> Object:
    """One stored text of these; raises `NotFound`."""
    return api.get(_ARTIFACTS + addresses.path(uid, key), {})


def whole(api: Client, uid: str) -> Object:
    """One task with its object and its result."""
    return api.get(_PATH + addresses.path(uid), {})
