"""Dates and times that a text names."""

from __future__ import annotations

from datetime import date, time

import pytest

from orchestrator_job.effects.permits import moments

TODAY = date(2026, 3, 1)  # a Sunday


def days(text: str) -> set[date]:
    """Of the days around the release those that the text names."""
    found = moments.read(text)
    around = [date(2026, month, day) for month in (3, 4, 5, 12) for day in range(1, 31)] + [date(2027, 3, 13)]
    return {day for day in around for one in found if one.falls(day, TODAY)}


def times(text: str) -> set[str]:
    """Of the day."""
    return {f"{one:%H:%M}" for mention in moments.read(text) for one in mention.times}


@pytest.mark.parametrize(
    "text",
    [
        "13 March 2026", "March 13, 2026", "Friday the 13th of March", "13th March", "13 Mar 2026", "2026-03-13",
        "2026-03-13T09:30:00", "13/3/2026", "3/13/2026", "13. März 2026", "am 13.3.", "13.03.2026", "13. 3. 2026",
        "13. března 2026", "13. brezna", "13. marca 2026", "(13.\u00a0března)", "the 13. März",
    ],
)  # fmt: skip
def test_a_date_is_read_in_the_forms_of_four_languages(text: str) -> None:
    explicit = [one for one in moments.read(text) if one.explicit]
    assert {day for day in (date(2026, 3, 13), date(2026, 3, 14)) for one in explicit if one.falls(day, TODAY)} == {
        date(2026, 3, 13)
    }
    assert days(text) <= {date(2026, 3, 13), date(2026, 3, 6)}


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("today", 1), ("heute", 1), ("dnes", 1), ("tomorrow", 2), ("morgen", 2), ("zítra", 2), ("zajtra", 2),
        ("the day after tomorrow", 3), ("übermorgen", 3), ("pozítří", 3), ("on Monday", 2), ("am Montag", 2),
        ("am Montag morgen", 2), ("v pondělí", 2), ("v pondelok", 2), ("Saturday", 7), ("v sobotu", 7),
    ],
)  # fmt: skip
def test_days_from_today(text: str, day: int) -> None:
    assert days(text) == {date(2026, 3, day)}


@pytest.mark.parametrize(
    "text",
    [
        "next Friday", "nächsten Freitag", "příští pátek", "last Friday", "on Sunday", "Guten Morgen", "3/4/2026",
        "in two weeks", "31 February 2026", "version 1.2.3", "10.0.0.13", "section 13.3 of it", "13 of them", "",
    ],
)  # fmt: skip
def test_what_may_be_two_days_is_none(text: str) -> None:
    assert days(text) == set()


def test_a_date_without_a_year_is_the_next_one() -> None:
    [one] = moments.read("13 March")
    assert [year for year in range(2025, 2029) if one.falls(date(year, 3, 13), TODAY)] == [2026]
    assert [year for year in range(2025, 2029) if one.falls(date(year, 3, 13), date(2026, 3, 14))] == [2027]
    assert not one.falls(date(2026, 3, 13), None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from 9:30 to 10:00", "09:30 10:00"),
        ("from half past nine to ten", "09:30 10:00"),
        ("at 10", "10:00"),
        ("at 3", "03:00 15:00"),
        ("at 03:00", "03:00"),
        ("3pm", "15:00"),
        ("10:15 p.m.", "22:15"),
        ("at four in the afternoon", "16:00"),
        ("at noon", "12:00"),
        ("quarter to ten", "09:45"),
        ("um halb zehn", "09:30"),
        ("von 9 bis 10 Uhr", "09:00 10:00"),
        ("18.30 Uhr", "18:30"),
        ("acht Uhr abends", ""),
        ("um 8 abends", "20:00"),
        ("v 10 hodin", "10:00"),
        ("v půl desáté", "09:30"),
        ("od 9 do 10", "09:00 10:00"),
        ("o desiatej", "10:00"),
        ("13 March 2026 at 10", "10:00"),
        ("for 45 minutes", ""),
        ("10 people", ""),
        ("20:60 and 25:00", ""),
    ],
)
def test_a_time_is_read(text: str, expected: str) -> None:
    assert times(text) == set(expected.split())


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("for 45 minutes", 45), ("for an hour", 60), ("half an hour", 30), ("2 hours", 120), ("1.5 h", 90),
        ("eine Stunde", 60), ("eine halbe Stunde", 30), ("90 Minuten", 90), ("na hodinu", 60), ("30 minut", 30),
        ("půl hodiny", 30), ("2 hodiny", 120), ("v 10 hodin", 0), ("um 15h", 0),
    ],
)  # fmt: skip
def test_a_length_is_no_time_of_the_day(text: str, minutes: int) -> None:
    assert sum(one.minutes for one in moments.read(text)) == minutes


def test_a_mention_has_its_words_as_orders_have_them() -> None:
    [one, at] = moments.read("Pozvi bob@example.com na 13. března 2026 v 9:30.")
    assert (one.said, at.said, at.times) == (("13", "března", "2026"), ("9:30",), frozenset((time(9, 30),)))
    [day] = moments.read("Invite bob@example.com tomorrow.")
    assert day.said == ("tomorrow",)
