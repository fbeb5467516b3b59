"""When a task is due: once, or repeatedly by a cron expression."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from crds.model import Model, Time, rules, within_years

_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DAYS = "sun|mon|tue|wed|thu|fri|sat"


def _cron_field(value: str, extra: str = "") -> str:
    item = rf"([*]|({value})(-({value}))?{extra})(/[0-9]{{1,2}})?"
    return rf"{item}(,{item})*"


_FIELDS = (
    _cron_field("[0-5]?[0-9]"),
    _cron_field("2[0-3]|[01]?[0-9]"),
    _cron_field("3[01]|[12][0-9]|0?[1-9]", "|L|LW"),
    _cron_field(f"1[0-2]|0?[1-9]|{_MONTHS}"),
    _cron_field(f"[0-7]|{_DAYS}", "(#[1-5]|L)?"),
)
# Five fields within their ranges, so that the apiserver refuses most wrong expressions. The operator detects the others
# by the calendar and sets a condition.
CRON = "(?i)^" + "[ ]+".join(f"({field})" for field in _FIELDS) + "$"


# A day that none of the listed months has, without a day of the week as an alternative.
_NEVER = (
    r"(?i)^[^ ]+ +[^ ]+ +(30|31)(,(30|31))* +(0?2|feb)(,(0?2|feb))* +[*]$",
    r"(?i)^[^ ]+ +[^ ]+ +31(,31)* +(0?[2469]|11|feb|apr|jun|sep|nov)(,(0?[2469]|11|feb|apr|jun|sep|nov))* +[*]$",
)


ZoneName = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z]+([_/+-][A-Za-z0-9_+-]+){0,3}$")]
"""The form of a name of the IANA database."""


class ConcurrencyPolicy(StrEnum):
    """Whether a run may start while an earlier one has not ended, as for CronJobs."""

    ALLOW = "Allow"
    FORBID = "Forbid"


class Recurrence(Model):
    """State of a recurring task; no run is created twice, also after a crash of the operator."""

    cron: Annotated[str, Field(max_length=128)] = ""
    """The expression from which status.scheduledFor was computed."""
    time_zone: Annotated[str, Field(max_length=64)] = ""
    """Time zone of the expression."""
    last_run: Time | None = None
    """Time of the last run for which a copy was created."""
    last_task: Annotated[str, Field(max_length=253)] = ""
    """Name of that copy."""


class Schedule(Model):
    """Exactly one of `at` and `cron`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.at) != has(self.cron)", "set exactly one of at and cron"),
            within_years("at"),
            ("!has(self.timeZone) || has(self.cron)", "timeZone goes with cron; write the offset into at instead"),
            ("!has(self.concurrencyPolicy) || has(self.cron)", "concurrencyPolicy goes with cron; leave it out"),
        )
    )

    at: Time | None = None
    """One moment, RFC 3339. Qualification begins ten minutes earlier (operator.settings.advanceSeconds)."""
    cron: (
        Annotated[
            str,
            Field(
                min_length=9,
                max_length=128,
                json_schema_extra=rules(
                    (
                        f"self.matches('{CRON}')",
                        "must have five fields within their ranges: minute hour day-of-month month day-of-week",
                    ),
                    *(
                        (f"!self.matches('{never}')", "has a day that none of its months has; it would never run")
                        for never in _NEVER
                    ),
                ),
            ),
        ]
        | None
    ) = None
    """Five fields: minute hour day-of-month month day-of-week."""
    time_zone: ZoneName | None = None
    """IANA name, for example Europe/Prague; UTC when absent."""
    concurrency_policy: ConcurrencyPolicy | None = None
    """Allow (default) or Forbid: skip a run while the copy of an earlier run has not ended."""
