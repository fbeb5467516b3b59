"""HTML in one pass: what is read, and that no page costs more than its length."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.crawl import markup, page
from kb.crawl.markup import Token

PIECES = [
    "<",
    ">",
    "</",
    "<!--",
    "-->",
    "<a ",
    "href=",
    '"',
    "'",
    "=",
    "/",
    "title",
    "x",
    " ",
    "&amp;",
    "<script>",
    "<?",
]


def test_tags_attributes_and_text() -> None:
    link = """<A HREF='x?a=1&amp;b=2' data-x="a>b" checked rel=nofollow>"""
    text = f"<!DOCTYPE html>{link}1 &lt; 2</A><br/>a < b<!-- <p> -->"
    assert list(markup.tokens(text)) == [
        Token("a", attributes={"href": "x?a=1&b=2", "data-x": "a>b", "checked": "", "rel": "nofollow"}),
        Token("", "1 < 2"),
        Token("a", closing=True),
        Token("br"),
        Token("br", closing=True),
        Token("", "a < b"),
    ]


def test_scripts_are_not_markup() -> None:
    text = "<script>if (a<b) { '<a href=x>' }</SCRIPT ><p>y"
    assert [(one.tag, one.closing, one.text) for one in markup.tokens(text)] == [
        ("script", False, ""),
        ("script", True, ""),
        ("p", False, ""),
        ("", False, "y"),
    ]


def test_a_quote_that_is_never_closed_ends_with_its_tag() -> None:
    assert [one.attributes.get("href") for one in markup.tokens('<a href="x>one</a><a href=y>') if one.tag == "a"] == [
        "x",
        None,
        "y",
    ]


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_text_stays_in_its_order_and_nothing_is_invented(text: str) -> None:
    said = "".join(one.text for one in markup.tokens(text))
    rest = iter(text.replace("&amp;", "&"))
    assert all(letter in rest for letter in said)
    assert not re.search(r"<[a-z]+ ?>", said)


def steps(text: str) -> int:
    """Tokens of a page, as a measure of the work that does not depend on the machine."""
    return sum(1 for _ in markup.tokens(text))


@pytest.mark.parametrize(
    "piece",
    [*("<", "<!", "<?", "</", "<!--", "<a ", '<a b="', "<a b='", "<![CDATA[", "<script>", "<title>", "&#x", "<a\n")],
)
def test_what_is_never_closed_is_read_once(piece: str) -> None:
    """A parser that looks at the rest again for each of these is at work for hours here."""
    assert steps(piece * (2_000_000 // len(piece))) <= 2_000_000 // len(piece) + 1
    page.read((piece * (200_000 // len(piece))).encode(), "http://docs.test/", None)


def test_charsets_of_names_are_none_of_pages() -> None:
    body = b"<p>" + b"a" * 400_000 + b"-" + b"b" * 400_000
    assert page.read(body, "http://docs.test/", "punycode").text.startswith("aaa")
