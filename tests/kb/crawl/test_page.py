"""HTML as it is read: tags, attributes and text, and that no page costs more than its length."""

from __future__ import annotations

import encodings
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.crawl import page
from tests.kb.crawl import steps

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
    return page.read(text.encode(), URL, None, seconds=60)


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


def lines(text: str) -> int:
    with steps.counted() as count:
        read(text)
    return count.lines


NESTS = ["<div>", "<ul><li>", "<b><p>", "<select><b>", "<b><i></b>", "<svg>"]
OPENS = ["<", "<!", "<?", "</", "<!--", "<a ", '<a b="', "<a b='", "<![CDATA[", "<script>", "<title>", "&#x", "<a\n"]


@pytest.mark.parametrize("piece", [*OPENS, *NESTS])
def test_the_work_grows_with_the_length(piece: str) -> None:
    """What is never closed is not looked at again for each piece, and neither is what encloses it."""
    assert lines(piece * 2_000) <= 2.2 * lines(piece * 1_000) + 1_000
    read(piece * (400_000 // len(piece)))


def test_the_time_of_a_page_is_bounded() -> None:
    """A clock that goes on by a second at each look."""
    text = "<p>a" * 160
    page.read(text.encode(), URL, None, seconds=21, clock=itertools.count().__next__)
    with pytest.raises(page.Costly, match="longer than 19 seconds"):
        page.read(text.encode(), URL, None, seconds=19, clock=itertools.count().__next__)


def test_charsets_of_names_are_none_of_pages() -> None:
    body = b"<p>" + b"a" * 400_000 + b"-" + b"b" * 400_000
    assert page.read(body, URL, "punycode").text.startswith("aaa")


def test_an_svg_without_an_end_hides_nothing_that_follows() -> None:
    assert page.read(b"<p>before</p><svg/><p>after</p>", "https://example.com/", None).text == "before\n\nafter"
    assert page.read(b"<p>a</p><svg><text>x</text></svg><p>b</p>", "https://example.com/", None).text == "a\n\nb"
    assert page.read(b"<p>a</p><noscript><svg/><p>hidden", "https://example.com/", None).text == "a"


@pytest.mark.parametrize("head", ["", "<meta charset=undefined>"])
def test_a_charset_that_cannot_be_used_leaves_utf_8(head: str) -> None:
    said = None if head else "undefined"
    assert page.read(f"{head}<p>Škoda".encode(), URL, said).text == "Škoda"


def test_names_of_charsets_that_sites_make_up_are_not_kept() -> None:
    """Python keeps each name for which it has once looked for a codec."""
    kept = vars(encodings)["_cache"]
    for name in ("iso8859-2", "iso-8859-2", "utf-8"):
        page.read(b"<p>x", URL, name)
    before = set(kept)
    for number in range(20):
        for name in (f"made-up-{number}", f"iso{'-' * number}8859-2"):
            page.read(f"<meta charset={name}><p>x".encode(), URL, name)
    assert set(kept) == before
    assert page.read(b"<p>\xa9koda", URL, "ISO_8859-2:1987").text == "Škoda"


def test_a_base_is_not_copied_into_every_link_of_a_page() -> None:
    """A page of 1 MB would have 2000 links of 1 MB."""
    links = "".join(f"<a href={number}>" for number in range(2_000))
    found = read(f"<base href='/{'a' * 900_000}/'>{links}")
    assert found.links[:2] == (f"{URL}0", f"{URL}1")
    assert sum(map(len, found.links)) < 100_000


def test_links_are_as_long_as_an_address_may_be() -> None:
    fits = "x" * (1024 - len(URL))
    found = read(f"<a href='{fits}'><a href='{fits}y'><a href='{fits}#{'z' * 2_000}'><base href='{fits}y/'><a href=b>")
    assert found.links == (f"{URL}{fits}", f"{URL}b")
