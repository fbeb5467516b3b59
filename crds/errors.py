"""The base of every error in Jervis, by retry meaning.

    JervisError
    +-- Operational   another service is busy or unavailable: retry later, without an end
    +-- Permanent     a retry cannot help: an input or a configuration has to change

Source: seed 001 "Exponential Retry for Operational Errors". Each package derives its errors from these two, so that a
caller can decide by retry meaning without knowing the package.
"""

from __future__ import annotations


class JervisError(Exception):
    """Root of the tree. `message` is a full sentence for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Operational(JervisError):  # noqa: N818 -- named for its retry meaning, as temporalio does
    """Timeout, refused connection, HTTP 429 or 503, a busy queue.

    `retry_after` is the wait in seconds that the service asked for, or None.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Permanent(JervisError):  # noqa: N818 -- see Operational
    """A wrong input or configuration.

    `field` is the dotted path of the wrong field and `remedy` one sentence on how to fix it, where known.
    """

    def __init__(self, message: str, *, field: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.remedy = remedy
