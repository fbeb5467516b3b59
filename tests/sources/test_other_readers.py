"""A restriction that changes at Jira or Confluence without a new time, against MongoDB, with kills between writes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.sources import test_atlassian_histories as histories

pytestmark = pytest.mark.services
database = histories.database


@pytest.mark.parametrize("cloud", [True, False])
@pytest.mark.parametrize("kind", ["Jira", "Confluence"])
async def test_other_readers_arrive_with_the_next_poll(kind: str, cloud: bool) -> None:
    """They have no new time. One who is let in again is one more change, and what did not change is not sent again."""
    async with histories.rig(kind, 1, cloud, every=3600) as one:
        server = one.site.server
        server.late = timedelta(0)
        for _ in range(9):
            server.put("JERV" if kind == "Jira" else "OPS")
        await one.swept()
        one.world.work()
        assert one.world.state() == one.site.live()
        changed = min((server.issues if kind == "Jira" else server.contents).values(), key=lambda each: each.id)
        swept = one._sweep(await one.assigned.states())
        for turn, limited in enumerate((True, False, True, False), 1):
            if kind == "Jira":
                changed.fields["security"] = {"id": "1"} if limited else None
            else:
                changed.readers = {"group": ["a"]} if limited else {}
            await one.round()
            one.world.work()
            assert one.world.state() == one.site.live()
            assert len(one.world.created) == 9 + turn
        assert one._sweep(await one.assigned.states()) == swept, "no sweep was needed"
        if kind == "Jira":
            server.delete(changed)
        else:
            changed.status = "trashed"
        await one.swept()
        await one.settle()
        await one.round()
        assert one.world.state() == one.site.live(), "the document goes with all its tasks"


async def test_a_kill_between_two_writes_leaves_no_reader_of_before() -> None:
    for left in range(14):
        async with histories.rig("Confluence", 100 + left, True, every=3600) as one:
            one.site.server.late = timedelta(0)
            page = one.site.server.put("OPS")
            await one.swept()
            one.world.work()
            page.readers = {"group": ["a"]}
            await one.round(left=left)
            for _ in range(3):
                await one.round()
            one.world.work()
            assert one.world.state() == one.site.live(), f"killed at write {left}"
            created = len(one.world.created)
            await one.round()
            assert len(one.world.created) == created == 2
