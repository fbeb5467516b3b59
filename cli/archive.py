"""The operator's history, reached through the apiserver with a ticket (docs/decisions/0007)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cli import errors
from cli.kube import Kube
from cli.reading import Object
from crds import history

_PAGE = 500
_PATH = "/api/v1/history"
_SELECTOR = f"app.kubernetes.io/part-of=jervis,app.kubernetes.io/component={history.COMPONENT}"


class Door:
    """One namespace's history; the ticket is fetched when the first question is asked."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._way: tuple[str, str] | None = None

    def get(self, path: str, query: Mapping[str, str]) -> Object:
        """An answer as JSON."""
        if self._way is None:
            self._way = self._find()
        address, ticket = self._way
        namespace, service = address.split("/", 1)
        proxy = f"/api/v1/namespaces/{namespace}/services/http:{service}/proxy"
        return self._kube.read(proxy + path, query, {history.TICKET_HEADER: ticket})

    def _find(self) -> tuple[str, str]:
        accounts = self._kube.accounts(_SELECTOR)
        for raw in accounts:
            address = raw["metadata"].get("annotations", {}).get(history.ADDRESS_ANNOTATION, "")
            if "/" in address:
                return address, self._kube.ticket(raw["metadata"]["name"], history.AUDIENCE)
        raise errors.NotFound(
            f"Namespace {self._kube.namespace!r} has no history: no operator of Jervis works off its tasks.",
            field="--namespace",
            remedy="Give a namespace of the chart's release or of its watchNamespaces.",
        )


def entries(door: Door, asked: Mapping[str, str], limit: int) -> Iterator[Object]:
    """Finished tasks, the one that ended last first, page by page."""
    query = {key: value for key, value in asked.items() if value}
    while True:
        page = door.get(_PATH, {**query, "limit": str(min(limit, _PAGE))})
        yield from page["items"]
        if not page.get("next"):
            return
        query["before"] = page["next"]


def whole(door: Door, uid: str) -> Object:
    """One task with its object and its result."""
    return door.get(f"{_PATH}/{uid}", {})
