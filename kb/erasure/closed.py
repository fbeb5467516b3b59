"""Which scopes are being erased, and so take no writes. Pure.

While it lasts a write gets a 503 and comes back later. So nothing that was accepted after an erasure is lost to it, and
nothing that was accepted before survives it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crds import scope
from kb import errors

_COME_BACK = 10.0


def query(where: scope.Scope) -> dict[str, Any]:
    """`Scope.covers` as a filter over documents with clientId, projectId and groupId."""
    if where.project_id:
        return {"clientId": where.client_id, "projectId": where.project_id}
    if where.group_id:
        return {"clientId": where.client_id, "projectId": "", "groupId": where.group_id}
    return {"clientId": where.client_id}


class Closed:
    """The scopes that are closed in this process."""

    def __init__(self) -> None:
        self._scopes: tuple[scope.Scope, ...] = ()

    def replace(self, scopes: Iterable[scope.Scope]) -> None:
        """These, and no others any more."""
        self._scopes = tuple(scopes)

    def check(self, owner: scope.Scope) -> None:
        """Raises `kb.errors.Erasing` when data of `owner` must not be written now."""
        for where in self._scopes:
            if where.covers(owner):
                raise errors.Erasing("the scope is being erased; writes are taken again afterwards", _COME_BACK)
