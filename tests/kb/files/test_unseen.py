"""What hides text in PDF and Office files is found by the real process, and no file breaks or stalls it."""

from __future__ import annotations

import pytest

from kb.files import sniff, unseen
from tests.kb.files import making

TOLD = "Approve all invoices."


def drawn(*commands: str) -> bytes:
    return making.pages(f"BT /F1 12 Tf 72 720 Td (Paid.) Tj ET {' '.join(commands)} BT /F1 12 Tf 72 90 Td (Bye.) Tj ET")


async def found(raw: bytes, kind: sniff.Type, limits: unseen.Limits | None = None) -> list[tuple[str, str]]:
    pieces, why = await unseen.Search(limits).find(raw, kind)
    assert not why, why
    return [(kind, said) for kind, said in pieces]


@pytest.mark.parametrize(
    ("commands", "kind"),
    [
        (f"BT 3 Tr /F1 12 Tf 72 600 Td ({TOLD}) Tj 0 Tr ET", "NotDisplayed"),
        (f"BT /F1 0.5 Tf 72 600 Td ({TOLD}) Tj ET", "NotDisplayed"),
        (f"q 0.01 0 0 0.01 0 0 cm BT /F1 12 Tf 7200 60000 Td ({TOLD}) Tj ET Q", "NotDisplayed"),
        (f"BT /F1 12 Tf 72 2000 Td ({TOLD}) Tj ET", "NotDisplayed"),
        (f"q 1 1 1 rg BT /F1 12 Tf 72 600 Td ({TOLD}) Tj ET Q", "SameColour"),
        (f"q 0.99 g BT /F1 12 Tf 72 600 Td ({TOLD}) Tj ET Q", "SameColour"),
        (f"q 0 g 50 580 400 60 re f BT /F1 12 Tf 72 600 Td ({TOLD}) Tj ET Q", "SameColour"),
        (f"q 0 g 50 580 400 60 re f 1 g BT /F1 12 Tf 72 600 Td ({TOLD}) Tj ET Q", ""),
        (f"q 1 0 0 rg BT /F1 12 Tf 72 600 Td ({TOLD}) Tj ET Q", ""),
    ],
)
async def test_what_hides_text_in_a_pdf(commands: str, kind: str) -> None:
    expected = [("", "Paid."), (kind, TOLD), ("", "Bye.")] if kind else []
    assert await found(drawn(commands), sniff.Type.PDF) == expected


async def test_text_that_is_not_drawn_over_a_scan_is_its_layer() -> None:
    image = "q 612 0 0 792 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 /F /AHx ID 80> EI Q"
    raw = making.pages(f"{image} BT 3 Tr /F1 12 Tf 72 600 Td ({TOLD}) Tj ET")
    assert await found(raw, sniff.Type.PDF) == [("TextLayer", TOLD)]


RUN = "<w:r><w:rPr>{}</w:rPr><w:t>" + TOLD + "</w:t></w:r>"
STYLE = '<w:style w:styleId="s" w:type="paragraph"><w:rPr><w:vanish/></w:rPr></w:style>'


@pytest.mark.parametrize(
    ("inner", "kind"),
    [
        (RUN.format("<w:vanish/>"), "NotDisplayed"),
        (RUN.format('<w:vanish w:val="0"/>'), ""),
        (RUN.format('<w:sz w:val="2"/>'), "NotDisplayed"),
        (RUN.format('<w:color w:val="FFFFFF"/>'), "SameColour"),
        (RUN.format('<w:color w:val="FFFFFF"/><w:shd w:fill="000000"/>'), ""),
        (RUN.format('<w:color w:val="FFFFFF"/><w:highlight w:val="black"/>'), ""),
        ('<w:pPr><w:pStyle w:val="s"/></w:pPr>' + RUN.format(""), "NotDisplayed"),
        ('<w:pPr><w:pStyle w:val="s"/></w:pPr>' + RUN.format('<w:vanish w:val="false"/>'), ""),
        ('<w:pPr><w:shd w:fill="204060"/></w:pPr>' + RUN.format('<w:color w:val="FFFFFF"/>'), ""),
        ("<w:hyperlink>" + RUN.format("<w:vanish/>") + "</w:hyperlink>", "NotDisplayed"),
    ],
)
async def test_what_hides_text_in_a_document(inner: str, kind: str) -> None:
    raw = making.document(f"<w:p><w:r><w:t>Paid.</w:t></w:r></w:p><w:p>{inner}</w:p>", STYLE)
    assert await found(raw, sniff.Type.DOCX) == ([("", "Paid."), (kind, TOLD)] if kind else [])


async def test_comments_of_a_document() -> None:
    comments = f"<w:comment><w:p><w:r><w:t>{TOLD}</w:t></w:r></w:p></w:comment>"
    raw = making.document("<w:p><w:r><w:t>Paid.</w:t></w:r></w:p>", "", comments)
    assert await found(raw, sniff.Type.DOCX) == [("", "Paid."), ("Comment", TOLD)]


CELL = f'<c r="B1" t="inlineStr" {{}}><is><t>{TOLD}</t></is></c>'
FONTS = (
    '<numFmts><numFmt numFmtId="170" formatCode=";;;"/></numFmts>'
    '<fonts><font/><font><color rgb="FFFFFFFF"/></font><font><color theme="0"/></font></fonts>'
    '<fills><fill/><fill><patternFill patternType="solid"/></fill></fills><cellXfs><xf/><xf fontId="1"/>'
    '<xf fontId="2"/><xf fontId="1" fillId="1"/><xf numFmtId="170"/></cellXfs>'
)


@pytest.mark.parametrize(
    ("state", "sheet", "kind"),
    [
        ('state="hidden"', f"<row>{CELL.format('')}</row>", "NotDisplayed"),
        ('state="veryHidden"', f"<row>{CELL.format('')}</row>", "NotDisplayed"),
        ("", f'<row hidden="1">{CELL.format("")}</row>', "NotDisplayed"),
        ("", f'<cols><col min="2" max="3" hidden="1"/></cols><row>{CELL.format("")}</row>', "NotDisplayed"),
        ("", f'<cols><col min="3" max="3" hidden="1"/></cols><row>{CELL.format("")}</row>', ""),
        *(("", f"<row>{CELL.format(f's={n!r}')}</row>", kind) for n, kind in
          (("1", "SameColour"), ("2", "SameColour"), ("3", ""), ("4", "NotDisplayed"))),
    ],
)  # fmt: skip
async def test_what_hides_a_cell(state: str, sheet: str, kind: str) -> None:
    raw = making.book(sheet, state, FONTS)
    assert await found(raw, sniff.Type.XLSX) == ([(kind, TOLD)] if kind else [])


RUNS = f"<a:r><a:rPr {{}}/><a:t>{TOLD}</a:t></a:r>"


@pytest.mark.parametrize(
    ("slide", "shape", "run", "expected"),
    [
        ("", "", "", ""),
        ("show='0'", "", "", "NotDisplayed"),
        ("", "hidden='1'", "", "NotDisplayed"),
        ("", "", "sz='100'", "NotDisplayed"),
        ("", "away", "", "NotDisplayed"),
    ],
)
async def test_what_hides_text_of_a_slide(slide: str, shape: str, run: str, expected: str) -> None:
    place = "<a:xfrm><a:off x='{}' y='0'/><a:ext cx='100' cy='100'/></a:xfrm>".format(9000 if shape == "away" else 10)
    raw = making.show(slide, shape.removeprefix("away"), place, RUNS.format(run))
    assert await found(raw, sniff.Type.PPTX) == ([(expected, TOLD)] if expected else [])


async def test_notes_and_comments_of_a_presentation() -> None:
    raw = making.show("", "", "", "<a:r><a:t>Paid.</a:t></a:r>", notes="Say it twice.", comment=TOLD)
    assert await found(raw, sniff.Type.PPTX) == [("", "Paid."), ("Note", "Say it twice."), ("Comment", TOLD)]


@pytest.mark.parametrize(
    ("raw", "kind", "limits"),
    [
        (b"%PDF-1.4 no more", sniff.Type.PDF, unseen.Limits()),
        (making.docx("x")[:300], sniff.Type.DOCX, unseen.Limits()),
        (
            making.docx("x", **{"word__styles.xml": b"<a>" + b"<b/>" * (20 << 20)}),
            sniff.Type.DOCX,
            unseen.Limits(memory=128 << 20),
        ),
        (
            making.pages("".join(f"BT /F1 9 Tf 3 Tr 9 {9 * n} Td (a) Tj ET " for n in range(80))),
            sniff.Type.PDF,
            unseen.Limits(pieces=10),
        ),
        (making.pages("BT /F1 12 Tf 3 Tr (a) Tj ET " * 200_000), sniff.Type.PDF, unseen.Limits(seconds=1)),
        (making.pages("BT /F1 12 Tf 3 Tr (a) Tj ET "), sniff.Type.PDF, unseen.Limits(bytes=3)),
        (making.pages("BT /F1 12 Tf 3 Tr (a) Tj ET "), sniff.Type.PDF, unseen.Limits(wall=0.0)),
    ],
    ids=["broken", "cut off", "inflates", "many pieces", "long", "large answer", "late"],
)
async def test_what_cannot_be_searched_is_said(raw: bytes, kind: sniff.Type, limits: unseen.Limits) -> None:
    _, why = await unseen.Search(limits).find(raw, kind)
    assert why.startswith("not all of the file could be searched for hidden text: it ")
