"""Who may read which history (docs/decisions/0007).

A ticket is a short-lived token of a ServiceAccount without rights, made by the Kubernetes API for the audience
`history.jervis.dev`. A user who may create one in a namespace, by RBAC, may read that namespace's history. The
apiserver validates a token by a TokenReview; its answer is cached for `KEPT_SECONDS`, by the token's digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from crds import errors, history

KEPT_SECONDS = 30.0
_MOST = 1000
_LONGEST = 8192

Review = Callable[[str, str], Awaitable[Mapping[str, Any]]]
"""(token, audience) -> the status of a TokenReview; raises `crds.errors.Operational` when the apiserver is away."""


class Denied(errors.Permanent):
    """No ticket, or not a valid one."""


class Elsewhere(errors.Permanent):
    """A valid ticket, for another namespace."""

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"the ticket is for namespace {namespace!r}",
            field="namespace",
            remedy="Get one in the namespace you ask for.",
        )


class Tickets:
    """Authenticates clients. `account`: the ServiceAccount whose tokens are tickets; `clock`: monotonic seconds."""

    def __init__(self, review: Review, account: str, *, clock: Callable[[], float]) -> None:
        self._review, self._account, self._clock = review, account, clock
        self._known: dict[str, tuple[float, str]] = {}

    async def namespace(self, ticket: str) -> str:
        """The namespace that the ticket gives access to. Raises `Denied`, or the error of `review`."""
        if not ticket or len(ticket) > _LONGEST:
            raise self._denied("there is no ticket")
        digest, now = hashlib.sha256(ticket.encode()).hexdigest(), self._clock()
        known = self._known.get(digest)
        if known is None or known[0] <= now:
            found = self._holder(await self._review(ticket, history.AUDIENCE))
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[digest] = (now + KEPT_SECONDS, found)
        if not known[1]:
            raise self._denied("the ticket is not valid")
        return known[1]

    def _holder(self, status: Mapping[str, Any]) -> str:
        """Namespace of the account, "" for anything else."""
        if not status.get("authenticated") or history.AUDIENCE not in (status.get("audiences") or ()):
            return ""
        kind, _, rest = str((status.get("user") or {}).get("username", "")).partition("system:serviceaccount:")
        namespace, _, name = rest.partition(":")
        return namespace if not kind and name == self._account else ""

    def _denied(self, why: str) -> Denied:
        return Denied(
            why,
            field=history.TICKET_HEADER,
            remedy=f"kubectl create token {self._account} -n NAMESPACE --audience {history.AUDIENCE} makes one.",
        )
