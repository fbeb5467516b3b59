"""The errors inside the knowledge base, by what the caller should do.

crds.errors.Operational
+-- Away            Weaviate, MongoDB, the disk or the router does not answer: 503 + Retry-After
+-- Crowded         too many writers wait already: 429 + Retry-After
+-- Erasing         the scope is being erased and takes no writes: 503 + Retry-After
crds.errors.Permanent
+-- Unauthorized    no bearer token, or an unknown one, where one is needed: 401
+-- Forbidden       the token is not for that scope, or not for writing: 403
+-- Invalid         a field is wrong: 422, with the field and the remedy
+-- NotFound        nothing the caller may see under that key: 404
+-- TooLarge        over a limit: 413
+-- TooSlow         the body did not arrive in time: 408
+-- Unusable        a model answered, repeatedly, with something that is not what its schema asked for: 422
+-- Misconfigured   the service's own settings cannot work: it does not start, or 422 where only a call can tell
"""

from __future__ import annotations

from crds import errors


class Away(errors.Operational):
    """`component` (weaviate, mongodb, arangodb, disk, router) does not answer."""

    def __init__(self, component: str, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"{component} is away: {reason}", retry_after=retry_after)
        self.component = component


class Crowded(errors.Operational):
    """The lane's queue is full."""


class Erasing(errors.Operational):
    """The scope takes no writes until its erasure is done."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, retry_after=retry_after)


class Unauthorized(errors.Permanent):
    """Nobody that the service knows."""


class Forbidden(errors.Permanent):
    """Somebody known who may not do that there."""


class Invalid(errors.Permanent):
    """The request is understood and wrong."""


class NotFound(errors.Permanent):
    """Nothing there, or nothing the viewer may see: the two are never told apart."""


class TooLarge(errors.Permanent):
    """More than the configured limit."""


class TooSlow(errors.Permanent):
    """The body did not arrive in the time that it had."""


class Unusable(errors.Permanent):
    """The model's output fails its schema even after it was shown its mistake."""


class Misconfigured(errors.Permanent):
    """A setting contradicts another one or the data on disk."""
