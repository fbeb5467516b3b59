"""Pieces fit their window, nothing is lost between them, and the estimate of tokens is on the high side."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from kb.vectors import window
from tests.fakes.ollama.embedding import session

_LANGUAGES = Path(__file__).parent.parent / "languages"
_TEXTS = st.text(alphabet=st.sampled_from("aB3é語가😀._ \n。!"), max_size=2000)


def dense(text: str) -> str:
    return re.sub(r"\s", "", text)


@given(text=_TEXTS, limit=st.integers(window.LEAST, 300))
def test_pieces_fit_and_hold_everything(text: str, limit: int) -> None:
    made = window.pieces(text, limit)
    assert dense("".join(made)) == dense(text)
    assert all(piece in text for piece in made)
    if len(made) > 1:
        assert all(0 < window.tokens(piece) <= limit for piece in made)


@given(text=_TEXTS.map(str.strip).filter(lambda text: len(text) > 1))
def test_halves_are_shorter_and_hold_everything(text: str) -> None:
    made = window.halves(text)
    assert dense("".join(made)) == dense(text)
    assert all(0 < len(half) < len(text) for half in made)


def test_a_short_text_is_left_as_it_is() -> None:
    for text in ("", "  hello\n", "hello " * 30):
        assert window.pieces(text, 300) == [text]


def test_pieces_are_of_about_equal_length_and_end_with_a_sentence() -> None:
    text = "The server was restarted in the night. " * 40
    made = window.pieces(text.strip(), 200)
    sizes = [window.tokens(piece) for piece in made]
    assert len(made) == math.ceil(window.tokens(text) / 200)
    assert min(sizes) > 0.7 * max(sizes)
    assert all(piece.endswith(".") for piece in made)


def test_a_paragraph_goes_before_a_sentence() -> None:
    one = "A line of words that says something. " * 9
    assert window.pieces(f"{one.strip()}\n\n{one.strip()}", 150) == [one.strip(), one.strip()]


def test_a_window_that_holds_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="64 tokens"):
        window.pieces("text", 63)


@pytest.fixture(name="count", scope="module")
def _count() -> Callable[[str], int]:
    """Tokens as all-MiniLM's own tokenizer counts them."""
    tokenizer = Tokenizer.from_file(str(session.weights_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    return lambda text: len(tokenizer.encode(text).ids)


@pytest.mark.parametrize("name", ["en", "de", "cs", "ru", "ja", "code", "hashes"])
def test_the_estimate_is_seldom_too_small_and_never_by_much(name: str, count: Callable[[str], int]) -> None:
    """The sixteenth of a window that is left free covers what it is too small by."""
    if name == "code":
        text = Path(window.__file__).read_text(encoding="utf-8")
    elif name == "hashes":
        text = "\n".join(f"{(number + 3) ** 90:x}" for number in range(60))
    else:
        text = (_LANGUAGES / f"{name}.notes.tsv").read_text(encoding="utf-8")
    made = window.pieces(text, 480)
    assert len(made) > 1
    assert max(count(piece) for piece in made) <= 512
