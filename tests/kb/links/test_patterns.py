"""Patterns of links: what they match, whose they are, and the order in which they count."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import scope
from kb import api, mongo
from kb.links import patterns, safety
from tests.kb import clock as clocks
from tests.kb import scopes

PAGE = "https://docs.acme.example/gateway/notes?v=3"


def pattern(text: str, listed: str, owner: scope.Scope = scopes.SHOP) -> api.LinkPattern:
    draft = api.LinkPatternDraft.model_validate({"scope": owner, "pattern": text, "list": listed, "by": "jana"})
    return api.LinkPattern(**draft.model_dump(), at=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "url", "expected"),
    [
        ("acme.example", PAGE, True),
        ("ACME.example", PAGE, True),
        ("*.acme.example", PAGE, True),
        ("https://acme.example", PAGE, True),
        ("cme.example", PAGE, False),
        ("docs.acme.example.org", PAGE, False),
        ("docs.acme.example/gateway/*", PAGE, True),
        ("docs.acme.example/gateway/notes", PAGE, True),
        ("docs.acme.example/gateway", PAGE, False),
        ("docs.acme.example/*notes?v=*", PAGE, True),
        ("docs.acme.example/*notes?v=4", PAGE, False),
        ("docs.acme.example:8443", PAGE, False),
        ("docs.acme.example:443", PAGE, True),
        ("docs.acme.example:8443", "https://docs.acme.example:8443/x", True),
        ("docs.acme.example", "https://docs.acme.example:8443/x", False),
        ("[2001:db8::1]", "http://[2001:db8::1]/x", True),
        ("[2001:db8::1]:81", "http://[2001:db8::1]:81/x", True),
    ],
)
def test_what_matches(text: str, url: str, expected: bool) -> None:
    assert patterns.matches(pattern(text, "Safe").pattern, url) is expected


@pytest.mark.parametrize(
    "text", ["", "/only/a/path", "a b.example", "user@a.example", "a.example:x", "a.example/x y", "*"]
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(pydantic.ValidationError):
        pattern(text, "Safe")


@pytest.mark.parametrize(
    ("held", "url", "verdict"),
    [
        ([], PAGE, safety.Verdict.UNCERTAIN),
        ([("acme.example", "Safe")], PAGE, safety.Verdict.SAFE),
        ([("acme.example", "Unsafe")], PAGE, safety.Verdict.UNSAFE),
        # The seed's order: an unsafe pattern, then the whitelist, then the blacklist.
        ([("acme.example", "Safe"), ("docs.acme.example/gateway/*", "Unsafe")], PAGE, safety.Verdict.BLOCKED),
        ([("acme.example", "Unsafe"), ("docs.acme.example", "Safe")], PAGE, safety.Verdict.SAFE),
        ([("acme.example", "Safe")], "https://acme.example/unsubscribe?u=1", safety.Verdict.BLOCKED),
        ([], "https://acme.example:8443/", safety.Verdict.UNSAFE),
        ([("acme.example", "Safe")], "https://acme.example:8443/", safety.Verdict.UNSAFE),
        ([("acme.example:8443", "Safe")], "https://acme.example:8443/", safety.Verdict.SAFE),
    ],
)
def test_the_order(held: Sequence[tuple[str, str]], url: str, verdict: safety.Verdict) -> None:
    found = safety.qualify(url, [pattern(*one) for one in held])
    assert found.verdict is verdict
    assert found.reason


@given(st.text("ab/*?", max_size=30), st.text("ab/?", max_size=60))
def test_a_star_is_any_text(written: str, asked: str) -> None:
    """Compared with a matcher that tries everything."""

    def tried(left: str, right: str) -> bool:
        reach = {0}
        for letter in left:
            if letter == "*":
                reach = {place for begin in reach for place in range(begin, len(right) + 1)}
            else:
                reach = {place + 1 for place in reach if place < len(right) and right[place] == letter}
        return len(right) in reach

    path, _, query = asked.partition("?")
    url = f"https://a.example/{path}" + (f"?{query}" if query else "")
    compared = f"/{path}" + (f"?{query}" if query and "?" in written else "")
    assert patterns.matches(f"a.example/{written}", url) is tried(f"/{written}", compared)


@pytest.mark.services
async def test_patterns_belong_to_their_owner(database: mongo.Database, clock: clocks.Clock) -> None:
    kept = patterns.Mongo(database, clock)

    def draft(text: str, listed: str, owner: scope.Scope) -> api.LinkPatternDraft:
        return api.LinkPatternDraft.model_validate({"scope": owner, "pattern": text, "list": listed, "by": "jana"})

    client = scope.Scope(client_id=scopes.SHOP.client_id)
    other = scope.Scope(client_id="other")
    await kept.put(draft("b.example", "Safe", scopes.SHOP))
    await kept.put(draft("a.example", "Unsafe", client))
    await kept.put(draft("all.example", "Unsafe", scope.Scope(client_id="")))
    await kept.put(draft("other.example", "Safe", other))
    assert [one.pattern for one in await kept.holding(scopes.SHOP)] == ["a.example", "all.example", "b.example"]
    assert [one.pattern for one in await kept.holding(client)] == ["a.example", "all.example"]
    made = await kept.put(draft("b.example", "Unsafe", scopes.SHOP))
    assert [one for one in await kept.holding(scopes.SHOP) if one.pattern == "b.example"] == [made]
    assert made.list is api.LinkList.UNSAFE
    assert await kept.delete(client, "b.example") is False
    assert await kept.delete(scopes.SHOP, "b.example") is True
    assert await kept.delete(scopes.SHOP, "b.example") is False
