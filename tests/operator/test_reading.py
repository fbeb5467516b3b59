"""The reading of a new task: a short one costs no write of its own, a long one is told, and a crash repeats it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.operator import unwatched
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.process import Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
PATCHES = 'jervis_operator_api_requests_total{code="200",verb="PATCH"}'


def test_a_short_reading_is_told_with_what_follows(space: Space, start: Start, knowledge: Knowledge) -> None:
    with start(ARCHIVE_SECONDS=3600) as operator:
        before = operator.metric(PATCHES)
        space.bring("Done", "info", "INFO")
        assert operator.metric(PATCHES) - before == 1
        assert list(space.status("info")["phaseTimes"]) == ["Done", "Qualifying", "ReadyForQualification"]
        until(lambda: space.events("info") == ["Accepted", "Qualifying", "InfoOnly"], "every step has its Event")
        assert len(knowledge.requests) == 1
        assert knowledge.requests[0].content == "INFO"


def test_a_long_reading_is_told_and_not_repeated(space: Space, start: Start, knowledge: Knowledge) -> None:
    knowledge.gate.clear()
    with start() as operator:
        space.bring("Qualifying", "info", "INFO")
        assert operator.metric("jervis_operator_qualifying") == 1
        knowledge.gate.set()
        until(lambda: space.phase("info") == "Done", "it is done")
        assert len(knowledge.requests) == 1


def test_killed_while_it_reads(space: Space, start: Start, knowledge: Knowledge) -> None:
    knowledge.gate.clear()
    with start(IDENTITY="operator-0") as operator:
        space.submit("work", "ASK")
        until(lambda: knowledge.most_at_once == 1, "it is being read")
        operator.kill()
    knowledge.gate.set()
    with start(IDENTITY="operator-0"):
        until(lambda: space.phase("work") == "ReadyForGpu", "it was read again")
        assert len({one.source_urn for one in knowledge.requests}) == 1


@pytest.mark.parametrize(
    ("edit", "read"),
    [
        ({"content": "INFO the second text"}, ["INFO", "INFO the second text"]),
        ({"queuePosition": 3}, ["INFO"]),
    ],
    ids=["its content", "something else"],
)
def test_content_that_is_edited_while_it_is_read_is_read_again_and_no_other(
    space: Space, start: Start, knowledge: Knowledge, edit: dict[str, Any], read: list[str]
) -> None:
    knowledge.gate.clear()
    with start():
        space.submit("info", "INFO")
        until(lambda: knowledge.most_at_once == 1, "it is being read")
        space.edit("info", edit)
        knowledge.gate.set()
        until(lambda: space.phase("info") == "Done", "it is done")
        assert [one.content for one in knowledge.requests] == read
        assert space.status("info")["observedGeneration"] == 2


def test_what_is_deleted_while_it_is_read_gives_its_place_back(
    space: Space, start: Start, knowledge: Knowledge
) -> None:
    knowledge.gate.clear()
    with start(QUALIFY_AT_ONCE=1):
        space.submit("first", "INFO")
        until(lambda: knowledge.most_at_once == 1, "it is being read")
        space.submit("next", "INFO")
        space.delete("first")
        knowledge.gate.set()
        until(lambda: space.phases() == {"next": "Done"}, "the place is free again")


async def test_an_edit_that_no_watch_brings_is_read_once_and_settles(
    space: Space, knowledge: Knowledge, local: dict[str, Any]
) -> None:
    """What is read is newer than what is decided about: that must not go round."""
    space.submit("info", "INFO the first text")
    space.edit_status("info", {"phase": "Qualifying"})
    old = space.get("info")
    space.edit("info", {"content": "INFO the second text"})
    async with unwatched.working(space, **local) as here:
        here.hear(old)
        await here.until(lambda: space.phase("info") == "Done", "it is done")
        assert [one.content for one in knowledge.requests] == ["INFO the second text"]
        assert space.status("info")["observedGeneration"] == 2
        assert here.calls("GET", 200) == 1
