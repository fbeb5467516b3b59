"""Which page of its file a passage stands on, through all that is done with the text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import api, hidden, paging
from kb.hidden import placing

PAGES = st.lists(st.text(alphabet="ab \n", max_size=12), min_size=1, max_size=6)


def joined(pages: list[str]) -> tuple[str, paging.Starts]:
    ends = [0, *itertools.accumulate(len(one) for one in pages)]
    return "".join(pages), paging.of(zip(ends, range(1, len(pages) + 1), strict=False))


def numbers(text: str, starts: paging.Starts) -> list[int]:
    """The page of each character."""
    return [next((page for offset, page in reversed(starts) if offset <= at), 0) for at in range(len(text))]


@given(PAGES, st.integers(0, 80), st.integers(0, 80))
def test_a_piece_knows_the_pages_of_its_characters(pages: list[str], one: int, other: int) -> None:
    text, starts = joined(pages)
    begin, end = sorted((min(one, len(text)), min(other, len(text))))
    piece = paging.within(starts, begin, end)
    assert numbers(text[begin:end], piece) == numbers(text, starts)[begin:end]
    assert all(0 <= offset < max(end - begin, 1) for offset, _ in piece)


@given(PAGES)
def test_pages_keep_their_text_when_hidden_parts_are_marked(pages: list[str]) -> None:
    text, starts = joined([f"page{number} {one}\n\n" for number, one in enumerate(pages)])
    last = f"page{len(pages) - 1}"
    pieces: list[placing.Piece] = [("NotDisplayed", "page0"), ("Comment", "It is elsewhere")]
    made, moved = paging.carried(text, starts, lambda said: hidden.placed(said, pieces))
    assert made == hidden.placed(text, pieces)
    numbered = numbers(made, moved)
    assert [numbered[made.index(f"page{number}")] for number in range(len(pages))] == list(range(1, len(pages) + 1))
    assert numbered[made.index("It is elsewhere")] == 0, "what was added behind the text stands on no page"
    assert made.rindex(last) < moved[-1][0]


def test_pages_beyond_the_bound_have_no_number() -> None:
    starts = paging.of((at, at + 1) for at in range(paging.MOST + 5))
    assert (len(starts), starts[-1]) == (paging.MOST + 1, (paging.MOST, 0))
    assert paging.of([]) == paging.of([(3, 0)]) == paging.within((), 0, 9) == ()
    assert paging.of([(0, 1), (4, 2), (4, 3), (9, 3)]) == ((0, 1), (4, 3)), "a page without text has no place"
    assert paging.carried("a", (), str.upper) == ("A", ())


def test_a_passage_that_begins_on_no_page_says_so() -> None:
    starts = paging.of([(0, 1), (50, 0), (100, 9)])
    assert paging.within(starts, 60, 150) == paging.of([(40, 9)]) == ((0, 0), (40, 9))
    assert paging.of(paging.of([(40, 9)])) == ((0, 0), (40, 9)), "what is stored without it gets it when it is read"
    assert paging.within(starts, 60, 90) == ()


@pytest.mark.parametrize(
    ("pages", "said"), [([], ""), ([None], ""), ([4], "page 4"), ([2, None, 3], "pages 2-3"), ([7, 7], "page 7")]
)
def test_the_pages_of_a_passage_in_words(pages: list[int | None], said: str) -> None:
    starts = [api.PageStart(offset=10 * number, page=page) for number, page in enumerate(pages)]
    assert api.Provenance(source_urn="file::f", kind="", title="", chunk_id="c", pages=starts).paged == said
