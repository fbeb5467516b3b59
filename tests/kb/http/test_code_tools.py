"""What an agent reads from a tool about code: the places, what the answer stands on, and text fenced as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pydantic
import pytest

from kb import api, errors
from kb.http import code, codetools, openapi

PLACE = api.CodePlace(
    path="shop/price.py", name="total", qualified_name="shop.price.total", kind="function", line=7, key="method__x"
)
REPLY = api.WhereReply(
    coverage=api.Coverage(repository="acme/shop", branch="main", commit="abc", current=False, files=3),
    files=[api.RankedFile(path="shop/price.py", score=1.25)],
    functions=[api.RankedPlace(place=PLACE, score=1.5)],
)


async def test_code_where_gives_places_for_the_text_of_an_issue() -> None:
    called: list[tuple[openapi.Route, Mapping[str, Any] | None]] = []

    async def call(
        route: openapi.Route,
        reply: type[pydantic.BaseModel],
        *,
        given: Mapping[str, Any] | None = None,
        query: Sequence[tuple[str, str]] = (),
    ) -> Any:
        called.append((route, given))
        return REPLY

    tool = next(one for one in codetools.ALL if one.name == "code_where")
    answer = await tool.work(tool.parse({"text": "The total is wrong", "limit": 5}), call)
    assert called == [(code.WHERE, {"repository": "", "text": "The total is wrong", "limit": 5})]
    assert "- shop/price.py (1.25)" in answer.text
    assert "- function shop.price.total (shop/price.py:7, 1.50)" in answer.text
    assert "acme/shop main at commit abc, 3 files; a newer commit is being read" in answer.text
    assert answer.data["functions"][0]["place"]["qualifiedName"] == "shop.price.total"


@pytest.mark.parametrize("given", [{}, {"text": ""}, {"text": "a" * 20_001}, {"text": "a", "limit": 51}])
def test_code_where_refuses_what_the_endpoint_refuses(given: dict[str, Any]) -> None:
    tool = next(one for one in codetools.ALL if one.name == "code_where")
    with pytest.raises(errors.Invalid):
        tool.parse(given)


async def test_code_history_gives_commits_renames_and_what_is_not_known() -> None:
    commit = api.CodeChange(
        hash="abcdef0123456789",
        title="Round up",
        author="Jana",
        path="shop/money.py",
        change="changed",
        source_urn="git::acme/shop@abcdef0123456789",
    )
    renamed = api.FileRename(hash="b" * 40, old_path="shop/money.py", path="shop/price.py")
    found = api.HistoryReply(
        coverage=REPLY.coverage, symbol=PLACE, path="shop/price.py", name="total", commits=[commit],
        renames=[renamed], total=3, unread=2, next=1,
    )  # fmt: skip

    async def call(route: openapi.Route, reply: type[pydantic.BaseModel], **_: Any) -> Any:
        assert (route, reply) == (code.HISTORY, api.HistoryReply)
        return found

    tool = next(one for one in codetools.ALL if one.name == "code_history")
    answer = await tool.work(tool.parse({"symbol": "total"}), call)
    assert answer.text.startswith("3 commits changed shop/price.py:total (acme/shop main at commit abc")
    assert "- abcdef012345  Jana: Round up (changed, shop/money.py)" in answer.text
    assert "Renamed in bbbbbbbbbbbb: shop/money.py to shop/price.py" in answer.text
    assert "2 other commits changed the file" in answer.text
    assert answer.text.endswith("There are more: give after=1.")
