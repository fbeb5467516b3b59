"""The base of every error in Jervis, sorted by what a caller should do about it.

    JervisError
    +-- Operational   the outside is busy or away: try again later, for ever if need be
    +-- Permanent     trying again cannot help: somebody has to change something

Seed 001 "Exponential Retry for Operational Errors" is the source of the distinction. Each package derives its own
errors from these two, so that a caller can decide by retry meaning without knowing the package.
"""

from __future__ import annotations


class JervisError(Exception):
    """Root of the tree. `message` is a full sentence meant for a person."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Operational(JervisError):  # noqa: N818 -- named for its retry meaning, as temporalio does
    """Timeout, refused connection, HTTP 429 or 503, a busy queue.

    `retry_after` is the wait in seconds that the other side asked for, or None when it named none.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Permanent(JervisError):  # noqa: N818 -- see Operational
    """A wrong input or configuration.

    `field` is the dotted path of the offending field and `remedy` one sentence on how to mend it, where known.
    """

    def __init__(self, message: str, *, field: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.remedy = remedy
