"""Moments as people give them: how long ago, or when."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from cli import errors

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"^([0-9]{1,6})([smhdw])$")


def since(text: str, now: datetime) -> str:
    """`90m`, `12h`, `7d` before `now`, or an RFC 3339 time; as RFC 3339 in UTC, "" for "". Raises `Unusable`."""
    if not text:
        return ""
    span = _SPAN.match(text)
    if span is not None:
        at = now - timedelta(seconds=int(span[1]) * _UNITS[span[2]])
    else:
        try:
            at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError as error:
            raise _unusable(text) from error
        if at.tzinfo is None:
            raise _unusable(text)
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _unusable(text: str) -> errors.Unusable:
    return errors.Unusable(
        f"{text!r} is no span and no time with a zone.",
        field="--since",
        remedy="Give 90m, 12h, 7d or 2w, or a time such as 2027-03-01T12:00:00Z.",
    )
