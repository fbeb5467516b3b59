"""Spans of time as kubectl writes them: two units at most, the more the coarser."""

from __future__ import annotations

from datetime import datetime

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def span(seconds: float) -> str:
    """`95s`, `4m10s`, `47m`, `5h12m`, `30h`, `3d4h`, `12d`; nothing is negative."""
    whole = max(0, int(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    return f"{whole // _DAY}d"


def since(moment: datetime | None, now: datetime) -> str:
    """How long ago; `<unknown>`, as in kubectl, when it was not recorded."""
    return "<unknown>" if moment is None else span((now - moment).total_seconds())


def until(moment: datetime, now: datetime) -> str:
    """How long still."""
    return span((moment - now).total_seconds())


def _two(whole: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = whole % large // small
    return f"{whole // large}{large_name}" + (f"{rest}{small_name}" if rest else "")
