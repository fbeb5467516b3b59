"""Texts that are made to keep a pattern busy: each of these took minutes, or hours, before it was read in one pass."""

from __future__ import annotations

import pytest

from kb.files import sniff, tika
from kb.reading import relation
from tests.kb import scopes


def test_comments_before_a_page_that_is_none() -> None:
    assert sniff.detect(b"<!---->" * 500 + b"x") is sniff.Type.TEXT
    assert sniff.detect(b"<!-- a --> <!-- b -->\n<html>") is sniff.Type.HTML


def test_blanks_without_an_end_of_line() -> None:
    text = tika.squeezed("a" + " " * 2_000_000 + "b\n \t\n\n" + " " * 2_000_000 + "c")
    assert text.startswith("a  ")
    assert "b\n\n  " in text
    assert tika.squeezed("a\n \n" * 3) == "a\n\na\n\na"


@pytest.mark.parametrize("filler", [" ", "\t", "-", ">", "*", "a|", "a->", "a-["])
def test_lines_that_state_nothing(filler: str) -> None:
    line = filler * (4_000 // len(filler))
    assert relation.find(f"{line}x\nx{line}x|y", anchor="note::1", where=scopes.ACME) == []


def test_what_is_stated_is_still_read() -> None:
    [found] = relation.find('   - "jira:SHOP-1|BLOCKS|jira:SHOP-2"', anchor="note::1", where=scopes.ACME)
    assert (found.source, found.type, found.target) == ("jira::SHOP-1", "blocks", "jira::SHOP-2")
