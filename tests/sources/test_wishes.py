"""What people ask by annotations is done once, against MongoDB: repeated, interrupted, and said while a poll runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds import connection, labels, pendingtask, scope
from sources.core import annotations as wishes
from sources.core import assignments, items, port
from tests.sources import parts

pytestmark = pytest.mark.services
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
OWNER = scope.Scope(client_id="acme")


def mailbox(**annotations: str) -> connection.Connection:
    return parts.connected("box", uid="u", annotations=annotations)


async def taken(assigned: assignments.Assignments, stored: items.Items) -> assignments.Claim:
    """A claim whose wishes are begun."""
    claim = await parts.claimed(assigned, NOW)
    return await wishes.begun(claim, assigned, stored)


async def test_a_resync_that_is_interrupted_goes_on_where_it_was(database: Any) -> None:
    assigned, stored = assignments.Assignments(database), items.Items(database)
    await assigned.want(mailbox())
    claim = await taken(assigned, stored)
    await assigned.advance(claim, {"at": 9}, NOW)
    await assigned.finish(claim, replace(claim.state, polled_at=NOW), LATER)
    await assigned.want(mailbox())
    assert await assigned.claim("me", NOW) is None, "nothing is asked"
    await assigned.want(mailbox(**{labels.RESYNC: "a"}))
    claim = await taken(assigned, stored)
    assert (claim.cursor, claim.rewound, claim.state.resynced) == ({"rewound": {"at": 9}}, "a", "")
    await assigned.advance(claim, {"at": 4}, NOW)
    await assigned.release(claim)
    claim = await taken(assigned, stored)
    assert claim.cursor == {"at": 4}, "it is not begun anew"
    await assigned.finish(claim, replace(claim.state, polled_at=NOW, resynced=claim.rewound), LATER)
    await assigned.want(mailbox(**{labels.RESYNC: "a"}))
    assert await assigned.claim("me", NOW) is None, "it is done"


async def test_a_wish_during_a_poll_is_another_poll(database: Any) -> None:
    assigned, stored = assignments.Assignments(database), items.Items(database)
    await assigned.want(mailbox())
    claim = await taken(assigned, stored)
    await assigned.want(mailbox(**{labels.RETRY: "a"}))
    await assigned.finish(claim, replace(claim.state, polled_at=NOW), LATER)
    again = await taken(assigned, stored)
    assert again.state.retried == "a"


async def test_a_retry_is_for_what_is_stored_and_a_resync_for_the_rest(database: Any) -> None:
    assigned, stored = assignments.Assignments(database), items.Items(database)
    one = port.Item("m1", "v1", pendingtask.Type.EMAIL, "email::m1", "Mail", "text")
    await stored.add("u", OWNER, one, {"content": "text"}, NOW)
    [waits] = await stored.waiting("u", 9, NOW)
    await stored.failed(waits, "refused", LATER)
    await stored.add_failure("u", OWNER, port.Failure("m2", "", "no mail"), LATER)
    await assigned.want(mailbox(**{labels.RETRY: "a"}))
    claim = await taken(assigned, stored)
    state = await stored.counted.summed(claim, claim.state, NOW)
    assert [(one.title, one.reason, one.stored) for one in state.failed] == [("m2", "no mail", False)]
    assert (state.items, state.waiting_since) == ({"New": 1, "Indexing": 0, "Indexed": 0, "Failed": 1}, NOW)
    [waits] = await stored.waiting("u", 9, NOW)
    assert waits.tries == 0
    await stored.failed(waits, "refused again", LATER)
    await assigned.finish(claim, replace(state, polled_at=NOW), LATER)
    assert (await assigned.states())["u"][2].failed == state.failed
    await assigned.want(mailbox(**{labels.RETRY: "a", labels.RESYNC: "b"}))
    claim = await taken(assigned, stored)
    state = await stored.counted.summed(claim, claim.state, NOW)
    assert [(one.title, one.reason, one.stored) for one in state.failed] == [("Mail", "refused again", True)]
