"""Which scopes are being erased, and so take no writes, and which writes are under way.

While it lasts a write gets a 503 and comes back later. So nothing that was accepted after an erasure is lost to it, and
nothing that was accepted before survives it: an erasure begins to count when every process has closed the scope and
has no write in it any more that began before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
    """The scopes that are closed in this process.

    With `known_for`, what is known of them is good for that many seconds of `monotonic`: where several processes write,
    one that cannot ask any more what is being erased takes no writes at all.
    """

    def __init__(self, monotonic: Callable[[], float] = lambda: 0.0, *, known_for: float | None = None) -> None:
        self._scopes: tuple[scope.Scope, ...] = ()
        self._inside: Counter[scope.Scope] = Counter()
        self._monotonic = monotonic
        self._known_for = known_for
        self._known_at: float | None = None

    def replace(self, scopes: Iterable[scope.Scope], *, asked_at: float = 0.0) -> None:
        """These, and no others any more, as of `asked_at` by `monotonic`."""
        self._scopes = tuple(scopes)
        self._known_at = asked_at

    def check(self, owner: scope.Scope) -> None:
        """Raises `kb.errors.Erasing` when data of `owner` must not be written now."""
        if self._known_for is not None and (
            self._known_at is None or self._monotonic() - self._known_at >= self._known_for
        ):
            raise errors.Erasing("this process does not know at the moment which scopes are being erased", _COME_BACK)
        for where in self._scopes:
            if where.covers(owner):
                raise errors.Erasing("the scope is being erased; writes are taken again afterwards", _COME_BACK)

    @contextmanager
    def entered(self, owner: scope.Scope) -> Iterator[None]:
        """Write in the scope; raises what `check` raises."""
        self.check(owner)
        self._inside[owner] += 1
        try:
            yield
        finally:
            self._inside[owner] -= 1
            if not self._inside[owner]:
                del self._inside[owner]

    def quiet(self, where: scope.Scope) -> bool:
        """Whether no write is under way that `where` covers."""
        return not any(where.covers(owner) for owner in self._inside)
