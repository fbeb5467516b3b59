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
