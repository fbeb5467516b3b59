"""Which zone a text names, and what day it is there."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from contracts.rules import enforce_lines, time_zones


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("Invite bob@example.com to the review tomorrow from 10:00 to 11:00 (Asia/Tokyo).", "Asia/Tokyo"),
        ("会議は明日10時\uff08Asia/Tokyo\uff09です", "Asia/Tokyo"),
        ("Am 2026-03-04T10:00+01:00 bitte.", "+01:00"),
        ("At 2026-03-04T10:00:00.5Z.", "UTC"),
        ("At 10:00 UTC", "UTC"),
        ("America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
        # Two of them, or none: the zone is asked of nobody, and another source counts.
        ("From Asia/Tokyo to Europe/Prague", ""),
        ("2026-03-04T10:00+01:00 or 2026-03-04T10:00+02:00", ""),
        ("See src/area.py, and/or Europe/Prag", ""),
        ("https://example.com/Asia/Tokyo", ""),
        ("MET and CET are no names that people mean", ""),
        ("x" * 100_000 + " Asia/Tokyo", ""),
        ("A/" * 10_000, ""),
    ],
)
def test_the_zone_that_a_text_names(text: str, zone: str) -> None:
    assert time_zones.written(text) == zone


@pytest.mark.parametrize(
    ("zone", "line"),
    [
        ("", "Today: 2026-03-02, Monday, 23:00 (UTC+00:00)"),
        ("Asia/Tokyo", "Today: 2026-03-03, Tuesday, 08:00 (Asia/Tokyo, UTC+09:00)"),
        ("America/Los_Angeles", "Today: 2026-03-02, Monday, 15:00 (America/Los_Angeles, UTC-08:00)"),
        ("-03:30", "Today: 2026-03-02, Monday, 19:30 (UTC-03:30)"),
    ],
)
def test_today_is_the_day_of_the_user(zone: str, line: str) -> None:
    assert time_zones.today(datetime(2026, 3, 2, 23, tzinfo=UTC), zone) == line


def test_a_rule_names_a_zone() -> None:
    held = enforce_lines.Provisions.together(["a\nenforce: time-zone Europe/Prague", "enforce: time-zone Asia/Tokyo"])
    assert (held.time_zone, enforce_lines.Provisions().time_zone) == ("Asia/Tokyo", "")
    with pytest.raises(ValueError, match="'Europe/Prag' is no time zone; give its name in the IANA database"):
        enforce_lines.of("enforce: time-zone Europe/Prag")
