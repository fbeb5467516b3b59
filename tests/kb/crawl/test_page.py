"""HTML as it is read: tags, attributes and text, and that no page costs more than its length."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.crawl import page

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
URL = "http://docs.test/"


def read(text: str) -> page.Page:
    return page.read(text.encode(), URL, None)


def test_tags_attributes_and_text() -> None:
    link = """<A HREF='x?a=1&amp;b=2' data-x="a>b" checked>"""
    found = read(f"<!DOCTYPE html>{link}1 &lt; 2</A><br/>a < b<!-- <p> --><a href=y rel=NoFollow>c</a>")
    assert (found.text, found.links) == ("1 < 2\na < bc", (f"{URL}x?a=1&b=2",))


def test_scripts_and_titles_hold_no_markup() -> None:
    found = read("<title>a<b></title><script>if (a<b) { '<a href=x>' }</SCRIPT ><p>y<noscript>z</noscript>")
    assert (found.title, found.text, found.links) == ("a<b>", "y", ())


def test_what_a_page_does_not_show_is_marked_in_its_text() -> None:
    found = read("<p>Prices</p><div style='display:none'>Buy <b>now</b></div><!-- a --><img alt=b><p>1 EUR</p>")
    assert found.text == "Prices\n\n[hidden text: NotDisplayed]Buy now[end of hidden text]\n\n1 EUR"


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_text_stays_in_its_order_and_nothing_is_invented(text: str) -> None:
    found = read(text)
    rest = iter(re.sub(r"\s", "", text.replace("&amp;", "&")))
    assert all(letter in rest for letter in re.sub(r"\s", "", found.text))


def steps(text: str) -> int:
    """Lines of Python that are run, as a measure of the work that does not depend on the machine."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read(text)
    finally:
        sys.settrace(before)
    return count


NESTS = ["<div>", "<ul><li>", "<b><p>", "<select><b>", "<b><i></b>", "<svg>"]
OPENS = ["<", "<!", "<?", "</", "<!--", "<a ", '<a b="', "<a b='", "<![CDATA[", "<script>", "<title>", "&#x", "<a\n"]


@pytest.mark.parametrize("piece", [*OPENS, *NESTS])
def test_the_work_grows_with_the_length(piece: str) -> None:
    """What is never closed is not looked at again for each piece, and neither is what encloses it."""
    assert steps(piece * 2_000) <= 2.2 * steps(piece * 1_000) + 1_000
    read(piece * (400_000 // len(piece)))


def test_charsets_of_names_are_none_of_pages() -> None:
    body = b"<p>" + b"a" * 400_000 + b"-" + b"b" * 400_000
    assert page.read(body, URL, "punycode").text.startswith("aaa")


def test_an_svg_without_an_end_hides_nothing_that_follows() -> None:
    assert page.read(b"<p>before</p><svg/><p>after</p>", "https://example.com/", None).text == "before\n\nafter"
    assert page.read(b"<p>a</p><svg><text>x</text></svg><p>b</p>", "https://example.com/", None).text == "a\n\nb"
    assert page.read(b"<p>a</p><noscript><svg/><p>hidden", "https://example.com/", None).text == "a"
