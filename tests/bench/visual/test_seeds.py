"""The benchmark of many seeds ranks and counts as it says."""

from __future__ import annotations

from bench.visual import questions, seeds

_RIGHT = ("scans::0", 1)
_OTHERS = [("tables::0", number) for number in range(1, 9)]


def _ranked(kind: str, words: list[tuple[seeds.Key, float]], images: list[seeds.Key]) -> seeds.Ranked:
    return seeds.Ranked(kind, _RIGHT, [], words, images, images)


def test_an_image_stands_behind_the_page_of_its_place_by_words() -> None:
    words = [(key, 1.0) for key in _OTHERS]
    assert seeds.fuse(words, [_RIGHT])[:3] == [_OTHERS[0], _RIGHT, _OTHERS[1]]


def test_a_page_with_few_of_the_words_stands_behind_images() -> None:
    assert seeds.fuse([(_OTHERS[0], 0.3)], [_RIGHT]) == [_RIGHT, _OTHERS[0]]


def test_shares_are_of_questions_whose_page_is_among_the_first_five() -> None:
    asked = [
        _ranked("scans", [], [*_OTHERS[:4], _RIGHT]),
        _ranked("scans", [], [*_OTHERS[:5], _RIGHT]),
        _ranked("tables", [(_RIGHT, 1.0)], _OTHERS),
        _ranked("tables", [], [_RIGHT]),
    ]
    assert seeds.shares(asked, seeds.WAYS["Auto"]) == {"scans": 0.5, "tables": 1.0, "all": 0.75}
    assert seeds.shares(asked, seeds.WAYS["Words"]) == {"scans": 0.0, "tables": 0.5, "all": 0.25}
    assert seeds.shares(asked, seeds.WAYS["raw"])["all"] == 0


def test_plain_words_find_the_page_with_the_rarer_word() -> None:
    texts = {("a", 1): "red pump K123 20 EUR", ("a", 2): "red pump K999 30 EUR", ("a", 3): ""}
    assert seeds.Plain(texts).order("What does the red pump K999 cost?") == [("a", 2), ("a", 1)]


def test_another_seed_gives_other_files_and_as_many_questions() -> None:
    (first, asked), (second, others) = questions.made(1), questions.made(2)
    assert first.keys() == second.keys()
    assert all(first[urn] != second[urn] for urn in first if not urn.startswith("scans"))
    assert len(asked) == len(others) == 60
    assert {one.query for one in asked} != {one.query for one in others}
