"""Cursors of sources where very much changed at once: they fit into a document of MongoDB, and lose nothing."""

from __future__ import annotations

import json

import pytest

from sources.core import assignments, time_cursor
from sources.providers.git_host import progress

LARGEST = 16 << 20


def test_a_window_of_very_many_changes_is_bounded_and_keeps_the_latest() -> None:
    many, begin = 2 * time_cursor.MOST_RECENT, 1_764_000_000_000
    one = time_cursor.Window("of")
    stamps = {f"{10**17 + number}": (begin + number * 7919 % many, number) for number in range(many)}
    for name, stamp in stamps.items():
        one.take(name, stamp, stamp)
    cursor = one.batch().cursor
    assert len(cursor["recent"]) == time_cursor.MOST_RECENT
    assert len(json.dumps(cursor)) < LARGEST
    again = time_cursor.Window.read(cursor, "of")
    assert again.mark == begin + many - 1
    known = {name for name, stamp in stamps.items() if not again.new(name, stamp)}
    latest = sorted(stamps, key=lambda name: stamps[name])[-time_cursor.MOST_RECENT :]
    assert known == set(latest), "the others are taken again, and none is passed over"


def test_the_lists_of_a_forge_share_one_bound() -> None:
    at = progress.At("of", {}, {})
    small = {f"{number}": "2026-11-26T12:00:00Z/3" for number in range(100)}
    large = {f"#{number}": "2026-11-26T12:00:00Z/3" for number in range(progress.MOST_STORED)}
    for repository in range(8):
        at.batch(f"acme/{repository}/issues", {"mark": "m", "high": "h", "seen": large})
    batch = at.batch("acme/small/issues", {"mark": "m", "high": "h", "seen": small})
    lists = batch.cursor["lists"]
    assert sum(len(one["seen"]) for one in lists.values()) <= progress.MOST_STORED
    assert lists["acme/small/issues"]["seen"] == small, "one below its share keeps all"
    assert lists["acme/7/issues"]["mark"] == "m"
    assert f"#{progress.MOST_STORED - 1}" in lists["acme/7/issues"]["seen"]
    assert len(json.dumps(batch.cursor)) < LARGEST


@pytest.mark.parametrize("count", [3, 50_000])
def test_a_cursor_is_stored_small_and_comes_back_as_it_was(count: int) -> None:
    seen = {f"comment {number}": f"2026-11-26T12:00:{number % 60:02}Z/{number}" for number in range(count)}
    cursor = {"of": "x", "lists": {"acme/shop issues": {"mark": "2026-11-26T12:00:00Z", "seen": seen}}}
    stored = assignments.packed(cursor)
    assert assignments.unpacked(stored) == cursor
    plain = json.dumps(cursor, sort_keys=True)
    assert stored == plain if count == 3 else len(stored) < len(plain) / 4
    assert assignments.unpacked(plain) == cursor, "a text is read whatever its length"
    assert assignments.unpacked(None) == {}
