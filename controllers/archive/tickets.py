"""Who may read which history (docs/decisions/0007).

A ticket is a short-lived token of a ServiceAccount without rights, made by the Kubernetes API for the audience
`history.jervis.dev`. A user who may create one in a namespace, by RBAC, may read that namespace's history. The
apiserver validates a token by a TokenReview; its answer counts for `KEPT_SECONDS` (`contracts.tokens.token_reviews`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from contracts.api import history
from contracts.tokens import token_reviews
from crds import errors

KEPT_SECONDS = 30.0
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
        self._review, self._account = review, account
        self._tokens = token_reviews.Reviewed(self._ask, now=clock, fresh=KEPT_SECONDS, bad=KEPT_SECONDS)

    async def namespace(self, ticket: str, source: str) -> str:
        """The namespace that the ticket gives access to. `source` is the caller's address. Raises `Denied`,
        `tokenreviews.Busy`, or the error of `review`."""
        if not ticket or len(ticket) > _LONGEST:
            raise self._denied("there is no ticket")
        namespace = await self._tokens.find(ticket, source)
        if namespace is None:
            raise self._denied("the ticket is not valid")
        return namespace

    async def _ask(self, ticket: str) -> str | None:
        return self._holder(await self._review(ticket, history.AUDIENCE)) or None

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
