"""Where the evidence is on a page, from the places of its words and from its patches."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.files import pages
from kb.visual import evidence, model, picture
from tests.kb.files import making as files
from tests.kb.visual import place as places


def row(top: int, *words: str) -> list[pages.Word]:
    return [pages.Word(1000 + 900 * at, top, 1800 + 900 * at, top + 150, word) for at, word in enumerate(words)]


PAGE = [
    *row(500, "The", "lease", "of", "the", "office"),
    *row(4000, "The", "pressure", "valve", "opens"),
    *row(4300, "when", "pumps", "start"),
    *row(9000, "Valves", "are", "sold"),
]


def test_words_of_one_line_are_one_rectangle_and_the_best_part_of_the_page_comes_first() -> None:
    found = evidence.matching(PAGE, "At what pressure does the pump's valve open?")
    assert [one.text for one in found] == ["pressure valve opens", "pumps", "Valves"]
    assert (found[0].left, found[0].right) == (1900, 4500)
    where = evidence.region(found)
    assert where == evidence.Rectangle(1400, 3750, 5000, 4700)
    assert evidence.excerpt(PAGE, where) == "The pressure valve opens when pumps start"
    assert evidence.matching(PAGE, "the of") == evidence.matching([], "valve") == []
    assert evidence.region([]) is None


def test_the_words_of_a_quotation_are_the_only_ones_marked() -> None:
    page = [*PAGE, *row(9500, "the", "\ufb01nal", "pre-", "ssure", "valve")]
    for quotation, marked in {
        "valve opens when pumps": ["valve opens", "when pumps"],
        "The pressure valve opens,": ["The pressure valve opens"],
        "the final pre- ssure": ["the \ufb01nal pre- ssure"],
        "The FINAL pre-ssure valve of the plant": ["the \ufb01nal pre- ssure valve"],
        "Valves are never sold": [],
        "": [],
        "...": [],
    }.items():
        assert [one.text for one in evidence.quoted(page, quotation)] == marked, quotation
    assert evidence.quoted([], "The pressure valve") == []
    tall = [pages.Word(0, 100 * at, 50, 100 * at + 50, f"word{at}") for at in range(99)]
    assert len(evidence.quoted(tall, " ".join(one.text for one in tall))) == 60


def test_words_that_a_line_end_has_cut_are_marked() -> None:
    page = [
        *row(500, "The", "non-", "return", "valve", "opens", "auto\u2010"),
        *row(800, "matically", "at", "nine", "bar"),
    ]
    for quotation, marked in {
        "valve opens automatically at nine": ["valve opens auto\u2010", "matically at nine"],
        "non-return valve opens auto-matically": ["non- return valve opens auto\u2010", "matically"],
        "return valve opens auto- matically": ["return valve opens auto\u2010", "matically"],
        "nonreturn valve opens automatic": [],
    }.items():
        assert [one.text for one in evidence.quoted(page, quotation)] == marked, quotation
    page = [*row(500, "The", "non", "return", "valve", "opens", "auto"), *row(800, "matically", "at", "-5", "degrees")]
    marked = [one.text for one in evidence.quoted(page, "non-return valve opens automatically at -5")]
    assert marked == ["non return valve opens auto", "matically at -5"]
    assert evidence.quoted(page, "valve opens automatically at 5 degrees") == []


def test_a_beginning_is_marked_only_where_the_page_ends_with_it() -> None:
    said = "The rated voltage of pump B is 230 V"
    ending = [*row(500, "Other", "text"), *row(800, "The", "rated", "voltage", "of", "pump")]
    assert [one.text for one in evidence.quoted(ending, said)] == ["The rated voltage of pump"]
    for behind in (row(800, "A", "is", "400", "V."), row(1100, "The", "next", "line")):
        assert evidence.quoted([*ending, *behind], said) == []
    longer = [*row(500, "Other", "text"), *row(800, "The", "rated", "voltage", "of", "pumps")]
    assert evidence.quoted(longer, said) == [], "a word is not cut"
    assert evidence.quoted(longer[1:], "The rated voltage of pumpsets is 230 V") == []
    before = [*row(500, "un", "The"), *row(800, "unrated", "voltage", "of", "all", "pumps")]
    assert evidence.quoted(before, "rated voltage of all pumps is 230 V") == []
    assert evidence.quoted(row(500, "Other", "text", "The", "rated"), said) == [], "too few letters"


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        (["Output", "1230", "V", "at", "the", "pump"], []),
        (["Output", "10.230", "V", "at", "the", "pump"], []),
        (["Output", "-230", "V", "at", "the", "pump"], []),
        (["Output", "10\u00a0230", "V", "at", "the", "pump"], []),
        (["Output", "10", "230", "V", "at", "the", "pump"], []),
        (["Output", "230", "V", "at", "the", "pumps"], []),
        (["Output", "(230", "V", "at", "the", "pump)"], ["(230 V at the pump)"]),
        (["Output", "2024", "230", "V", "at", "the", "pump"], ["230 V at the pump"]),
    ],
)
def test_no_word_and_no_number_of_the_page_is_cut(line: list[str], marked: list[str]) -> None:
    said = "230 V at the pump"
    assert [one.text for one in evidence.quoted([*row(500, *line), *row(800, "Other")], said)] == marked
    right = row(1100, "Value", "230", "V", "at", "the", "pump")
    places = evidence.quoted([*row(500, *line), *row(800, "Other"), *right], said)
    assert [one.top for one in places] == [500 if marked else 1100]


def test_a_page_on_which_each_place_is_cut_is_looked_at_for_a_bounded_time() -> None:
    page = [word for at in range(2_000) for word in row(at, "1230", "V")]
    assert evidence.quoted([*page, *row(9_000, "230", "V")], "230 V") == []


def best_by_definition(found: list[tuple[set[str], evidence.Rectangle]]) -> int:
    def worth(top: int) -> int:
        inside = [meant for meant, box in found if top <= box.top and box.bottom <= top + 2_000]
        return sum(len(form) for form in set[str]().union(*inside))

    return max(sorted({box.top for _, box in found}), key=worth)


PLACED = st.tuples(
    st.sets(st.sampled_from(["a", "bb", "ccc", "dddd"]), min_size=1),
    st.builds(lambda top, high: evidence.Rectangle(0, top, 1, top + high), st.integers(0, 9000), st.integers(1, 2500)),
)


@given(st.lists(PLACED, min_size=1, max_size=12))
def test_the_window_that_moves_finds_what_the_definition_says(found: list[tuple[set[str], evidence.Rectangle]]) -> None:
    assert evidence._best(found) == best_by_definition(found)


def test_a_page_full_of_matches_costs_no_more_than_the_cap() -> None:
    # One match a line, so that none are neighbours.
    page = [word for at in range(8_000) for word in row(at, "valve")]
    read = 0

    class Counted(list[pages.Word]):
        def __iter__(self) -> Iterator[pages.Word]:
            nonlocal read
            for one in super().__iter__():
                read += 1
                yield one

    assert len(evidence.matching(Counted(page[:8_000]), "valve")) == 60
    assert read == 1_001


def test_patches_are_places_too() -> None:
    found = evidence.of_patches(model.Grid(10, 5), [[(2, 1, 0.5), (0, 0, 0.4)], [(3, 4, 0.9)], [(2, 1, 0.2)], []])
    assert found == [evidence.Rectangle(8000, 3000, 10000, 4000), evidence.Rectangle(2000, 2000, 4000, 3000)]


async def test_a_piece_is_cut_out_of_a_page_as_it_was_drawn() -> None:
    drawn = pages.Renderer(pages.Limits())
    [page] = (await drawn.lay(files.pages(places.lines("Valve")), 1, 1)).pages
    [word] = page.words
    cut = picture.cut(page.image, evidence.Rectangle(word.left, word.top, word.right, word.bottom))
    width, height = (int.from_bytes(cut[at : at + 4], "big") for at in (16, 20))
    assert (40 < width < 90, 15 < height < 40) == (True, True)
    size = int.from_bytes(cut[33:37], "big")
    lines = zlib.decompress(cut[41 : 41 + size])
    assert len(lines) == height * (width + 1)
    # The ink of the word, on paper.
    pixels = [one for at in range(height) for one in lines[at * (width + 1) + 1 : (at + 1) * (width + 1)]]
    assert max(pixels) > 200
    dark = sum(one < 100 for one in pixels)
    assert 0.05 < dark / (width * height) < 0.6
    assert picture.cut(page.image, evidence.Rectangle(0, 0, evidence.UNIT, evidence.UNIT))[16:24] == page.image[16:24]


async def test_an_image_is_made_smaller_with_its_sides_and_its_ink() -> None:
    [page] = (await pages.Renderer(pages.Limits()).lay(files.pages(places.lines("Valve")), 1, 1)).pages
    small = picture.scaled(page.image, 500_000)
    width, height = (int.from_bytes(small[at : at + 4], "big") for at in (16, 20))
    assert 490_000 < width * height <= 500_000
    assert width / height == pytest.approx(612 / 792, abs=0.002)
    whole = picture._pixels(page.image)
    made = picture._pixels(small)
    assert whole is not None
    assert made is not None
    assert made.mean() == pytest.approx(whole.mean(), abs=0.1)
    ink = np.argwhere(whole < 100).mean(axis=0) / whole.shape
    assert np.argwhere(made < 150).mean(axis=0) / made.shape == pytest.approx(ink, abs=0.005)
    assert picture.scaled(page.image, 0) == picture.scaled(page.image, 3_000_000) == page.image
    assert picture.scaled(files.png(20, 20), 100) == files.png(20, 20), "not drawn here"


def test_of_what_was_not_drawn_here_nothing_is_cut() -> None:
    where = evidence.Rectangle(0, 0, 5000, 5000)
    assert picture.cut(b"GIF89a", where) == b""
    assert picture.cut(b"\x89PNG\r\n\x1a\n", where) == b""
    assert picture.cut(files.png(20, 20)[:40], where) == b""
    broken = bytearray(files.png(20, 20))
    broken[41] ^= 0xFF
    assert picture.cut(bytes(broken), where) == b""


@given(st.binary(max_size=200), *(st.integers(0, 10_000) for _ in range(4)))
def test_no_bytes_break_it(body: bytes, left: int, top: int, wide: int, high: int) -> None:
    where = evidence.Rectangle(left, top, min(10_000, left + wide), min(10_000, top + high))
    assert picture.cut(b"\x89PNG\r\n\x1a\n" + body, where) == b""
