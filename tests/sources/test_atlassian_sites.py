"""What Jira and Confluence have in common: errors, what cannot be rendered, the filter and what it does not find."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sources.core import port
from tests.sources.confluence_server import Confluence
from tests.sources.jira_server import Jira
from tests.sources.reading import changes, places

# Of each kind: where a thing is put at first and later, a query of its language, and words about one that is none.
KINDS: dict[str, tuple[Any, str, str, str, str]] = {
    "Jira": (Jira, "JERV", "SHOP", "labels = x", "JQL"),
    "Confluence": (Confluence, "OPS", "DEV", "label = x", "parse cql"),
}


def site(kind: str, **more: Any) -> Any:
    return KINDS[kind][0](random.Random(1), **more)


def listed_as(thing: Any) -> str:
    """Its place in the list."""
    if hasattr(thing, "key"):
        return f"{thing.key.partition('-')[0]}/{thing.id}/{thing.key}"
    return f"{thing.space}/{thing.id}"


@pytest.mark.parametrize(
    ("kind", "status", "headers", "error", "pause"),
    [
        ("Jira", 429, {"Retry-After": "77"}, port.Unreachable, 77.0),
        ("Jira", 401, {}, port.Rejected, None),
        ("Jira", 503, {}, port.Unreachable, None),
        ("Confluence", 429, {"Retry-After": "77"}, port.Unreachable, 77.0),
        ("Confluence", 401, {}, port.Rejected, None),
    ],
)
async def test_errors_of_the_server_are_no_empty_source(
    kind: str, status: int, headers: dict[str, str], error: type[Exception], pause: float | None
) -> None:
    async with site(kind).serving() as server:
        server.put()
        for ahead in range(4 if kind == "Jira" else 5):
            server.faults = [*[(0, {})] * ahead, (status, headers)]
            with pytest.raises(error) as caught:
                await changes(server)
            assert getattr(caught.value, "retry_after", None) == pause
        for ahead in range(3):
            server.faults = [*[(0, {})] * ahead, (status, headers)]
            with pytest.raises(error):
                await places(server)


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(("kind", "cloud"), [("Jira", True), ("Jira", False), ("Confluence", True)])
async def test_what_cannot_be_rendered_is_a_failure_and_all_else_passes(kind: str, cloud: bool, status: int) -> None:
    async with site(kind, cloud=cloud).serving() as server:
        things = [server.put() for _ in range(9)]
        poison = things[4]
        server.poison, server.poison_status = {poison.id}, status
        items, [failure], cursor = await changes(server)
        assert len(items) == 8
        title = poison.key if kind == "Jira" else poison.title
        assert (failure.title, failure.place) == (title, listed_as(poison))
        assert (await changes(server, cursor))[:2] == ([], [])
        if kind == "Jira":
            assert f"{status}" in failure.reason
            assert failure.place in (await places(server))[0]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_filter_and_what_it_does_not_find(kind: str) -> None:
    _, here, there, query, words = KINDS[kind]
    async with site(kind).serving() as server:
        ours, theirs, secret = server.put(here, labels=["x"]), server.put(there), server.put("SEC")
        full = f"{'Project' if kind == 'Jira' else 'Space'} {there}"
        for chosen, wanted in (
            ({"include": [here.lower(), full]}, [ours, theirs]),
            ({"exclude": ["SEC"]}, [ours, theirs]),
            ({"query": query}, [ours]),
            ({"since": "2026-10-25T00:01:00Z"}, []),
        ):
            items = (await changes(server, chosen=chosen))[0]
            assert [one.source_id for one in items] == [str(one.id) for one in wanted]
            assert (await places(server, chosen))[0] == {listed_as(one) for one in wanted}
        server.unseen = {"SEC"}
        found, last = await places(server)
        assert listed_as(secret) not in found
        assert last.within == {here, there}, "nothing is said of what is not shown"
        for names in ([here, "SEC"], ["SEC"]):
            with pytest.raises(port.Misconfigured, match="'SEC'"):
                await places(server, {"include": names})
            with pytest.raises(port.Misconfigured, match="'SEC'"):
                await changes(server, chosen={"include": names})
        server.unseen = {here, there, "SEC"}
        with pytest.raises(port.Misconfigured):
            await places(server)
        server.unseen = set()
        with pytest.raises(port.Misconfigured, match=words):
            await changes(server, chosen={"query": "no query"})
