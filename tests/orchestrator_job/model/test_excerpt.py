"""Long texts within a room: what stays of them, what is said about the rest, and that it never is more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator_job.model import excerpt

_TEXTS = st.text(st.sampled_from("ab é語\n<"), max_size=600)


@given(_TEXTS, st.integers(0, 400))
def test_a_cut_text_fits_and_has_its_beginning_and_its_end(text: str, most: int) -> None:
    for measure in (excerpt.size, len):
        made = excerpt.cut(text, most, measure)
        assert measure(made.text) <= most
        assert (made.left_out == 0) == (made.text == text)
        if made.left_out:
            assert made.text.startswith(text[: made.start].rstrip())
            assert made.text.endswith(text[made.start + made.left_out :].lstrip())


def test_a_cut_text_says_how_much_is_left_out() -> None:
    text = "The log of last night.\n" + "2026-03-01 vega-7 said something\n" * 400 + "Which slot holds the failed disk?"
    made = excerpt.cut(text, 2000)
    before, note, after = made.text.partition(f"\n[{made.left_out} characters are left out here.]\n")
    assert note
    assert before.startswith("The log of last night.\n")
    assert after.endswith("\nWhich slot holds the failed disk?")
    assert {len(line) for line in before.splitlines()[1:]} == {len(line) for line in after.splitlines()[:-1]} == {32}
    assert 1900 < len(made.text) <= 2000


@given(st.lists(st.integers(1, 3000), max_size=30), st.integers(0, 6000))
def test_shares_never_exceed_the_room(sizes: list[int], room: int) -> None:
    given = excerpt.shares(sizes, room)
    assert sum(given) <= room
    assert all(0 <= share <= each for share, each in zip(given, sizes, strict=True))
    if sum(sizes) <= room:
        assert given == sizes
    elif sizes and room >= 100:
        assert given[0] >= min(sizes[0], room // 2)


def test_the_passages_that_share_words_stay_in_their_order() -> None:
    lines = [f"line {number} about nothing much at all, only padding\n" for number in range(600)]
    lines[150] = "The pump of hall seven leaks since the assembly.\n"
    lines[420] = "The assembly decided to replace the pump.\n"
    made = excerpt.passages("".join(lines), "What did the assembly decide about the pump?", 3000)
    assert excerpt.size(made.text) <= 3000
    first, second = made.text.find("hall seven"), made.text.find("to replace the pump")
    assert 0 < first < second
    shown = [line for line in made.text.splitlines() if not line.startswith("[")]
    assert made.left_out == len("".join(lines)) - sum(len(line) + 1 for line in shown)


@given(_TEXTS, st.integers(0, 300))
def test_passages_fit(text: str, most: int) -> None:
    made = excerpt.passages(text, "ab aaaa", most)
    assert excerpt.size(made.text) <= most
    assert made.left_out or made.text == text


@given(_TEXTS, st.lists(_TEXTS, max_size=6), st.integers(0, 900))
def test_a_question_fits(main: str, added: list[str], most: int) -> None:
    parts = excerpt.Parts(main, tuple(added))
    shown = parts.within(most)
    assert excerpt.size(shown) <= max(most, 0) or most < 120
    if excerpt.size(parts.text) <= most:
        assert shown == parts.text


def test_the_order_and_the_latest_addition_come_first() -> None:
    main = f"Begin. {'order ' * 1000}Order's end?"
    added = [f"The user added: {number} {'word ' * 1600}end {number}" for number in range(1, 65)]
    shown = excerpt.Parts(main, tuple(added)).within(8000)
    assert excerpt.size(shown) <= 8000
    assert all(word in shown for word in ("Begin.", "Order's end?", "The user added: 64 ", "end 64", "end 63"))
    assert "additions of the user are left out here.]" in shown
    assert "end 1\n" not in shown
    whole = excerpt.Parts(main, ("The user added: no.",)).within(8000)
    assert whole.endswith("\nThe user added: no.")
    assert "left out" not in whole


@pytest.mark.parametrize("most", [0, 1, 30, 200])
def test_edges_are_of_that_length(most: int) -> None:
    assert len(excerpt.edges("ab" * 500, most)) <= max(most, 1)
