"""What the router asks of the apiserver besides its backends: whose a token is, tokens of Secrets, and its Lease.

Plain blocking calls with short timeouts, made from threads; errors come out as one class. The `kubernetes` client is
imported only here and in `backends.kube`, which makes the connection.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import urllib3
from kubernetes import client

from crds import errors

_CONNECT, _READ = 1.5, 2.0
_NOT_FOUND, _CONFLICT = 404, 409
_T = TypeVar("_T")


class Trouble(errors.Operational):
    """The apiserver could not be asked, or would not say."""


class Lost(errors.Operational):
    """Somebody else wrote the object first."""


class Lease(NamedTuple):
    """A coordination.k8s.io Lease. `renewed` changes whenever its holder shows that it lives."""

    holder: str
    renewed: str
    seconds: float
    transitions: int
    version: str


class Apiserver:
    """`api` is configured by `backends.kube.connect`; everything happens in one namespace but for token reviews."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._namespace = namespace
        self._core = client.CoreV1Api(api)
        self._reviews = client.AuthenticationV1Api(api)
        self._leases = client.CoordinationV1Api(api)

    def review(self, token: str, audiences: Sequence[str]) -> str | None:
        """The user whose token it is, None when it is nobody's. Raises Trouble."""
        spec = client.V1TokenReviewSpec(token=token, audiences=list(audiences) or None)
        answer: Any = _call(
            lambda: self._reviews.create_token_review(client.V1TokenReview(spec=spec), _request_timeout=_TIMEOUT)
        )
        if not answer.status.authenticated or (audiences and not set(answer.status.audiences or ()) & set(audiences)):
            return None
        return str(answer.status.user.username)

    def secret(self, name: str, key: str = "token") -> str:
        """The value of a Secret's key as text. Raises Trouble."""
        found: Any = _call(lambda: self._core.read_namespaced_secret(name, self._namespace, _request_timeout=_TIMEOUT))
        encoded = (found.data or {}).get(key)
        if encoded is None:
            raise Trouble(f"Secret {name!r} has no key {key!r}")
        try:
            return base64.b64decode(encoded).decode("ascii").strip()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise Trouble(f"key {key!r} of Secret {name!r} is no ASCII text") from error

    def lease(self, name: str) -> Lease | None:
        """As it is now, None when there is none. Raises Trouble."""
        try:
            found: Any = _call(
                lambda: self._leases.read_namespaced_lease(name, self._namespace, _request_timeout=_TIMEOUT)
            )
        except Trouble as error:
            if isinstance(error.__cause__, client.ApiException) and error.__cause__.status == _NOT_FOUND:
                return None
            raise
        return _lease(found)

    def hold(self, name: str, before: Lease | None, holder: str, seconds: int) -> Lease:
        """Write that `holder` has it (empty: nobody), on top of what was read. Raises Lost or Trouble."""
        now = datetime.now(UTC)
        taken = before is None or before.holder != holder
        spec = client.V1LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=seconds,
            renew_time=now,
            lease_transitions=0 if before is None else before.transitions + (1 if taken and holder else 0),
        )
        body = client.V1Lease(
            metadata=client.V1ObjectMeta(name=name, resource_version=before.version if before is not None else None),
            spec=spec,
        )
        write: Callable[[], Any]
        if before is None:
            write = lambda: self._leases.create_namespaced_lease(  # noqa: E731  # one of two calls, made below
                self._namespace, body, _request_timeout=_TIMEOUT
            )
        else:
            write = lambda: self._leases.replace_namespaced_lease(  # noqa: E731  # as above
                name, self._namespace, body, _request_timeout=_TIMEOUT
            )
        try:
            return _lease(_call(write))
        except Trouble as error:
            if isinstance(error.__cause__, client.ApiException) and error.__cause__.status == _CONFLICT:
                raise Lost(f"Lease {name!r} was written by somebody else") from error
            raise


_TIMEOUT = (_CONNECT, _READ)


def _lease(found: Any) -> Lease:
    spec = found.spec
    return Lease(
        holder=spec.holder_identity or "",
        renewed=f"{spec.renew_time}/{found.metadata.resource_version}",
        seconds=float(spec.lease_duration_seconds or 0),
        transitions=spec.lease_transitions or 0,
        version=found.metadata.resource_version,
    )


def _call(ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except client.ApiException as error:
        raise Trouble(f"the apiserver answered {error.status} {error.reason}") from error
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise Trouble(f"{type(error).__name__}: {error}"[:200]) from error
