"""One thing that can never be handled, and what becomes of the others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds import connection, given_graph, pendingtask
from sources.core import assignments, port
from tests.sources import parts, test_sweep

pytestmark = pytest.mark.services
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


async def test_a_connection_that_this_version_does_not_understand_stops_no_other(database: Any) -> None:
    assigned = assignments.Assignments(database)
    await assigned.prepare()
    for name in ("newer", "mailbox"):
        await assigned.want(parts.connected(name, uid=f"uid-{name}", pollInterval="5m"))
    rows = database[assignments.CONNECTIONS]
    await rows.update_one({"_id": "uid-newer"}, {"$set": {"spec.type": "Telegraph"}})
    claimed = await parts.claimed(assigned, NOW)
    assert claimed.name == "mailbox"
    skip = [claimed.uid]
    assert await assigned.claim("me", NOW, skip) is None
    assert await assigned.claim("me", NOW + timedelta(seconds=50), skip) is None, "it is not asked for without an end"
    await rows.update_one({"_id": "uid-newer"}, {"$set": {"state.failures": 0}})
    assert [await assigned.watch(NOW, 60) for _ in range(3)] == [None] * 3
    assert await assigned.named("here", "newer") is None
    state = (await assigned.states())["uid-newer"][2]
    assert state.reason == "Misconfigured"
    assert "Telegraph" in state.message
    await rows.update_one({"_id": "uid-newer"}, {"$set": {"spec.type": "Email"}})
    again = await parts.claimed(assigned, NOW + timedelta(hours=1), without=["uid-mailbox"])
    assert again.name == "newer", "after an update of this process it is polled"


class Three:
    """A source with three things, of which the second is as it is given."""

    def __init__(self, second: port.Item) -> None:
        self._items = (thing("one"), second, thing("three"))

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        if not cursor:
            yield port.Batch({"at": 3}, "three things", self._items)

    async def ids(self) -> AsyncGenerator[port.Page]:
        yield port.Page(tuple(one.place for one in self._items), last=True)


def thing(name: str, **changed: Any) -> port.Item:
    made = port.Item(name, "v", pendingtask.Type.BUG_TRACKER, f"jira::{name}", f"Thing {name}", "text", place=name)
    return replace(made, **changed)


def known(**properties: Any) -> given_graph.Facts:
    return given_graph.Facts(nodes=(given_graph.Node(key="jira::A-1", type="jira_issue", properties=properties),))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"facts": known(labels=["y" * 1000] * 17_000)}, "too large"),
        ({"facts": known(version=1 << 70)}, "8-byte ints"),
        ({"text": "half \ud83d a character"}, "surrogates not allowed"),
        ({"title": "half \ud83d a character"}, "surrogates not allowed"),
        ({"urn": "jira::too-large"}, "etcdserver: request is too large"),
    ],
)
async def test_what_can_never_be_kept_is_a_failure_and_all_others_are_tasks(
    changed: dict[str, Any], reason: str
) -> None:
    async with test_sweep.rig(7000) as one:
        one.polls._opens = {connection.Type.EMAIL: lambda *_: Three(thing("two", **changed))}
        one.world.too_large = {"jira::too-large"}
        await one.round()
        state = (await one.assigned.states())[one.uid][2]
        assert state.reason == ""
        assert state.items is not None
        assert (state.items["Failed"], state.items["Indexed"]) == (1, 2)
        assert [failed.title for failed in state.failed] == [thing("two", **changed).title.replace("\ud83d", "?")]
        assert reason in state.failed[0].reason
        assert sorted(one.world.created) == ["jira::one", "jira::three"]
