"""Every type through the real Tika, and what is hostile kept out within limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from clients import http as outward
from kb import errors
from kb.files import inspection, sniff, tika
from tests import httpserver, ports, waiting
from tests.clients import servers
from tests.kb import conftest
from tests.kb.files import making

LINE = "Petr Svoboda wrote UserService.kt last year."
FILES = {
    sniff.Type.PDF: making.pdf(LINE),
    sniff.Type.DOCX: making.docx(LINE),
    sniff.Type.PPTX: making.pptx(LINE),
    sniff.Type.XLSX: making.xlsx(LINE),
    sniff.Type.EML: making.mail(LINE),
    sniff.Type.MSG: making.msg(LINE),
    sniff.Type.HTML: f"<!doctype html><html><body><p>{LINE}</p></body></html>".encode(),
}


@pytest.fixture
async def reader() -> AsyncIterator[tika.Tika]:
    async with outward.client(tls=servers.TLS) as http:
        yield tika.Tika(conftest.required("JERVIS_TEST_TIKA_URL"), http)


@pytest.mark.services
@pytest.mark.parametrize("kind", list(FILES), ids=lambda kind: kind.name)
async def test_the_text_of_every_type(reader: tika.Tika, kind: sniff.Type) -> None:
    body = FILES[kind]
    assert sniff.detect(body) is kind
    inspection.check(body, kind, inspection.Limits())
    assert LINE in (await reader.extract(body, kind)).text


@pytest.mark.services
async def test_an_attachment_is_read_under_its_name(reader: tika.Tika) -> None:
    found = await reader.extract(making.mail("See the report.", making.pdf(LINE)), sniff.Type.EML)
    assert found.title == "Login bug"
    assert found.text.index("See the report.") < found.text.index("Attachment: report.pdf") < found.text.index(LINE)


@pytest.mark.services
async def test_a_document_without_pages_has_no_text(reader: tika.Tika) -> None:
    found = await reader.extract(making.pages(), sniff.Type.PDF)
    assert (found.text, found.page_chars, found.starts) == ("", (), ())


@pytest.mark.services
async def test_a_malformed_file_is_the_callers_to_hear(reader: tika.Tika) -> None:
    with pytest.raises(errors.Invalid, match="cannot be read") as caught:
        await reader.extract(b"%PDF-1.7 this is no PDF at all", sniff.Type.PDF)
    assert caught.value.remedy


@pytest.mark.services
async def test_more_text_than_is_taken(reader: tika.Tika) -> None:
    async with outward.client(tls=servers.TLS) as http:
        small = tika.Tika(conftest.required("JERVIS_TEST_TIKA_URL"), http, max_chars=200)
        with pytest.raises(errors.TooLarge, match="200 characters"):
            await small.extract(making.docx("many words " * 100), sniff.Type.DOCX)


async def test_no_tika_is_operational() -> None:
    async with outward.client(tls=servers.TLS) as http:
        with pytest.raises(errors.Away, match="tika"):
            await tika.Tika(f"http://127.0.0.1:{ports.free()}", http).extract(FILES[sniff.Type.PDF], sniff.Type.PDF)


@asynccontextmanager
async def parsing(parse: httpserver.Handler, **limits: Any) -> AsyncIterator[tika.Tika]:
    """The reader of a server that parses so."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text="Apache Tika") if request.path == "/version" else await parse(request)

    async with httpserver.serving(answer) as url, outward.client(tls=servers.TLS) as http:
        yield tika.Tika(url, http, seconds=waiting.PATIENCE, **limits)


async def test_a_file_that_kills_the_parser_is_tried_twice_and_then_refused() -> None:
    """As Tika's child dies: the connection breaks."""
    asked: list[tuple[str, str]] = []

    async def die(request: web.Request) -> web.StreamResponse:
        asked.append((request.method, request.headers["Content-Type"]))
        await request.read()
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with parsing(die) as reader:
        with pytest.raises(errors.Invalid, match="dies of it"):
            await reader.extract(FILES[sniff.Type.PDF], sniff.Type.PDF)
    assert asked == [("PUT", sniff.Type.PDF.value)] * 2


@pytest.mark.services
async def test_where_the_pages_of_a_pdf_begin(reader: tika.Tika) -> None:
    raw = making.pages(
        *(f"BT /F1 12 Tf 72 720 Td ({said}) Tj ET" if said else "" for said in ("Cover", "", "A < B & C", "The end")),
        more="/Info << /Title (On pumps) >>",
    )
    found = await reader.extract(raw, sniff.Type.PDF)
    assert found.text == "On pumps\n\nCover\n\nA < B & C\n\nThe end"
    pages = {page: found.text[offset:].split("\n\n")[1 if offset else 0] for offset, page in found.starts if page}
    assert pages == {1: "On pumps", 3: "A < B & C", 4: "The end"}
    assert (await reader.extract(making.docx(LINE), sniff.Type.DOCX)).starts == ()


@pytest.mark.services
async def test_bookmarks_and_fields_of_a_form_stand_on_no_page(reader: tika.Tika) -> None:
    raw = making.pages(
        *(f"BT /F1 12 Tf 72 720 Td ({said}) Tj ET" for said in ("Cover", "The end")),
        bookmark="How the valve opens",
        field=("Engineer", "Jana Novak"),
    )
    found = await reader.extract(raw, sniff.Type.PDF)
    assert [page for _, page in found.starts] == [1, 2, 0]
    (_, second, behind) = (offset for offset, _ in found.starts)
    assert (found.text[:second].strip(), found.text[second:behind].strip()) == ("Cover", "The end")
    assert "How the valve opens" in found.text[behind:]
    assert "Engineer: Jana Novak" in found.text[behind:]


def test_only_what_has_text_stands_between_pages() -> None:
    page = '<div class="page"><p>{0}</p>\n<div class="annotation">{0} note</div></div>\n\n'
    said = f"<html><head><title>T</title></head><body>{page.format('a')}between\n{page.format('b')}</body></html>"
    text, starts = tika._text({"X-TIKA:content": said}, paged=True)
    pieces = [
        text[one:other].strip() for (one, _), (other, _) in zip(starts, [*starts[1:], (len(text), 0)], strict=True)
    ]
    assert [(page, " ".join(piece.split())) for (_, page), piece in zip(starts, pieces, strict=True)] == [
        (1, "Ta a note"),
        (0, "between"),
        (2, "b b note"),
    ]


@given(st.text(alphabet="a \n\t\u00a0"), st.data())
def test_a_place_stays_before_its_word_when_blank_lines_go(raw: str, data: st.DataObject) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(raw)))))
    text = tika.squeezed(raw)
    moved = tika._moved(raw, places)
    assert [text[:at].count("a") for at in moved] == [raw[:at].count("a") for at in places]


@pytest.mark.parametrize("content", ["<html><body><p>no end", "<p>\x00</p>", f"<p>{'<b/>' * (5 << 19)}</p>"])
async def test_a_pdf_whose_xhtml_is_broken_or_long_gives_its_text_without_pages(content: str) -> None:
    asked: list[str] = []

    async def parse(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response([{"X-TIKA:content": content if request.path == "/rmeta/xml" else LINE}])

    async with parsing(parse, max_chars=100) as small:
        found = await small.extract(FILES[sniff.Type.PDF], sniff.Type.PDF)
    assert (found.text, found.starts, asked) == (LINE, (), ["/rmeta/xml", "/rmeta/text"])
