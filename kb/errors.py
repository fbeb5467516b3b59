"""The errors inside the knowledge base, by what the caller should do.

crds.errors.Operational
+-- Away            Weaviate, MongoDB, the disk or the router does not answer: 503 + Retry-After
+-- Crowded         a bound is reached (writers, queue, bytes, crawls): 429 + Retry-After
+-- Unconfigured    settings do not fit (unknown model, other dimension); an operator has to act: 503 + Retry-After
+-- Erasing         the scope is being erased and takes no writes: 503 + Retry-After
+-- TooLong         a question of the reading side was given up after its time: 503 too_long + Retry-After
+-- Outrun          another writing process has taken the document over: 503 + Retry-After
+-- Undecided       a newer version of the document is not stored yet, and may still fail for good: 503 + Retry-After
crds.errors.Permanent
+-- Unauthorized    no bearer token, or an unknown one, where one is needed: 401
+-- Forbidden       the token is not for that scope, or not for writing: 403
+-- Invalid         a field is wrong: 422, with the field and the remedy
+-- NotFound        nothing the caller may see under that key: 404
+-- Conflict        what is known is not what the request was based on: 409
+-- Stale           what it is about has changed meanwhile, or is not there yet: 409
+-- TooLarge        over a limit: 413
+-- TooSlow         the body did not arrive in time: 408
+-- Unusable        a model answered, repeatedly, with something that is not what its schema asked for: 422
+-- Misconfigured   the service's own settings cannot work: it does not start, or 422 for what it was not set up for
"""

from __future__ import annotations

from crds import errors

_TILL_SOMETHING_IS_DONE = 60.0
_TILL_OTHERS_ARE_DONE = 15.0


class Away(errors.Operational):
    """`component` (weaviate, mongodb, arangodb, disk, router) does not answer."""

    def __init__(self, component: str, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"{component} is away: {reason}", retry_after=retry_after)
        self.component = component


class Crowded(errors.Operational):
    """A bound of this service is reached; `field` and `remedy` say more where it is not enough to come back."""

    def __init__(
        self, message: str, *, retry_after: float | None = None, field: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, retry_after=retry_after)
        self.field = field
        self.remedy = remedy


class Erasing(errors.Operational):
    """The scope takes no writes until its erasure is done."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, retry_after=retry_after)


class TooLong(errors.Operational):
    """A question needed more than the `seconds` that it has, or waited for others that did."""

    def __init__(self, component: str, seconds: float) -> None:
        super().__init__(f"{component} had no answer within {seconds:g} seconds", retry_after=_TILL_OTHERS_ARE_DONE)
        self.remedy = "Ask for less (a text, a type, fewer nodes, a smaller limit), or raise JERVIS_KB_READ_SECONDS."


class Outrun(errors.Operational):
    """What this process was doing belongs to another one now; what it had not yet written, it must not write."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_after=1.0)


class Undecided(errors.Operational):
    """A newer version of the document was accepted and is neither stored nor failed yet; `reason` is what it waits
    for, "" when that is not known."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a newer version of the document was accepted before and is not stored yet{reason and f': {reason}'}",
            retry_after=_TILL_OTHERS_ARE_DONE,
        )


class Unconfigured(errors.Operational):
    """The settings of this service and of what it stands on do not fit. No document is at fault, so none is failed for
    it: the same request succeeds once an operator has done what `remedy` says to what `field` names."""

    def __init__(self, message: str, *, field: str, remedy: str) -> None:
        super().__init__(message, retry_after=_TILL_SOMETHING_IS_DONE)
        self.field = field
        self.remedy = remedy


class Unauthorized(errors.Permanent):
    """No caller that the service knows."""


class Forbidden(errors.Permanent):
    """A known caller that may not do that there."""


class Invalid(errors.Permanent):
    """The request is understood and wrong."""


class NotFound(errors.Permanent):
    """Nothing there, or nothing the viewer may see: the two are never told apart."""


class Conflict(errors.Permanent):
    """What is known now is not what the request names as its base."""


class Stale(errors.Permanent):
    """It is about a state that is not the present one."""


class TooLarge(errors.Permanent):
    """More than the configured limit."""


class TooSlow(errors.Permanent):
    """The body did not arrive in the time that it had."""


class Unusable(errors.Permanent):
    """The model's output fails its schema even after it was shown its mistake."""


class Misconfigured(errors.Permanent):
    """A setting contradicts another one or the data on disk."""
