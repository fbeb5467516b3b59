"""Exit statuses: what a script may conclude from them.

Usage errors exit with 2 and an interrupt with 130, as everywhere.
"""

from __future__ import annotations

from crds import errors

REFUSED = 1
"""It cannot succeed like this: the caller or an administrator has to change something.

Also: a task that was waited for ended in Error, or its run was rejected.
"""

NEEDS_PERSON = 3
"""The task that was waited for asks a person."""

LATER = 75
"""Something is busy or away, or a wait was too short: the same command can succeed later (sysexits.h: EX_TEMPFAIL)."""


def of(error: errors.JervisError) -> int:
    """The exit status of an error, by its retry meaning."""
    return LATER if isinstance(error, errors.Operational) else REFUSED
