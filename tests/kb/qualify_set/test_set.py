"""Every item of examples/qualify through POST /ingest/full of the program, with real stores and the simulator."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.qualify import items, passes, report, site

MOST_CALLS = 12
"""Ten calls for a chunk is the limit of qualification; an item of the set has one chunk. Two more are retries."""


@pytest.mark.services
async def test_no_item_gets_a_wrong_route(where: site.Services) -> None:
    shared, todo = items.shared(), items.load()
    async with site.opened(where, shared.today) as place:
        place.fake.set_script(items.script(todo))
        outcomes = await passes.run(place, todo, shared, at_once=8)
        calls = place.spy.chats()
    found = report.document(outcomes)
    assert found["wrong"] == []
    assert found["hints"] == []
    assert {one.item.id: one.hidden for one in outcomes if one.hidden != one.item.hidden} == {}
    assert all(one.tries == 1 and one.chunk_ids for one in outcomes)
    described = Counter(call.title for call in calls if call.tag == "kb.describe/v1")
    assert described == Counter(picture.name for item in todo for picture in item.pictures)
    assert {one.item.id: len(one.calls) for one in outcomes if not 0 < len(one.calls) <= MOST_CALLS} == {}
    answered = Counter(call.digest for call in calls if call.whole)
    assert max(answered.values()) == 1, "an answer that was given is not asked for again"
