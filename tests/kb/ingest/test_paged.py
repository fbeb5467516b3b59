"""Where the pages of a file begin, from the request to the chunks."""

from __future__ import annotations

import pydantic
import pytest

from kb import api, paging
from kb.extract import draft
from kb.ingest import source
from tests.kb import scopes, world

TEXT = "\n\n".join(f"Page {number} says a word or two about pumps." for number in range(1, 9))
STARTS = paging.of((max(TEXT.index(f"Page {number}") - 2, 0), number) for number in range(1, 9))


def paged(text: str = TEXT) -> api.IngestRequest:
    return world.request(text).as_marked(STARTS)


def test_a_chunk_has_the_pages_of_its_text_and_the_same_id() -> None:
    made = draft.make(paged(), TEXT, size=100, overlap=20)
    for piece in made.pieces:
        numbers = [page for _, page in piece.chunk.pages]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert f"Page {numbers[-1]} " in piece.chunk.text
    assert [page for _, page in made.pieces[0].chunk.pages] == [1, 2]
    plain = draft.make(world.request(TEXT), TEXT, size=100, overlap=20)
    assert [one.id for one in made.pieces] == [one.id for one in plain.pieces]
    assert not any(one.chunk.pages for one in plain.pieces)
    shorter = draft.make(paged(), TEXT[9:], size=100, overlap=20)
    assert not any(one.chunk.pages for one in shorter.pieces), "the places are of another text"


def test_a_record_keeps_the_pages_and_no_caller_writes_them() -> None:
    request = paged()
    text = source.record(request)
    again = source.recorded(text, scopes.SHOP)
    assert (again.starts, again.marked, again.content) == (STARTS, True, TEXT)
    assert source.record(again) == text
    assert source.recorded(source.record(world.request(TEXT).as_marked()), scopes.SHOP).starts == ()
    with pytest.raises(pydantic.ValidationError, match="starts"):
        api.IngestRequest.model_validate({**world.request(TEXT).model_dump(), "starts": [[0, 7]]})
    with pytest.raises(pydantic.ValidationError, match="jervisPages"):
        api.IngestRequest.model_validate({**world.request(TEXT).model_dump(), "metadata": {"jervisPages": [[0, 7]]}})
