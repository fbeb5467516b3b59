"""Files for tests, harmless and hostile, made on the spot: none is kept in the repository."""

from __future__ import annotations

import functools
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from email.message import EmailMessage

_TYPES = (
    '<?xml version="1.0" encoding="UTF-8"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
)
_RELS = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{inner}</Relationships>'
)
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_SLIDES = "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"
_SLIDE = "application/vnd.openxmlformats-officedocument.presentationml.slide+xml"
_BOOK = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
_SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"


def archive(entries: Mapping[str, bytes | str]) -> bytes:
    """A ZIP file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in entries.items():
            written.writestr(name, content)
    return made.getvalue()


def _package(main: str, types: Mapping[str, str], parts: Mapping[str, bytes | str]) -> bytes:
    overrides = "".join(f'<Override PartName="/{name}" ContentType="{kind}"/>' for name, kind in types.items())
    root = f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="{main}"/>'
    return archive(
        {
            "[Content_Types].xml": _TYPES.format(overrides=overrides),
            "_rels/.rels": _RELS.format(inner=root),
            **parts,
        }
    )


def docx(text: str, **more: bytes | str) -> bytes:
    """A Word document; `more` are entries beside it, their names with `__` for `/`."""
    return document(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>", "", "", **more)


def pptx(text: str) -> bytes:
    """A presentation of one slide."""
    return show("", "", "", f"<a:r><a:t>{text}</a:t></a:r>")


def xlsx(text: str) -> bytes:
    """A workbook with one cell."""
    row = f'<row r="1"><c r="A1" t="inlineStr"><is><t>{text}</t></is></c></row>'
    return book(f"<sheetData>{row}</sheetData>")


def pdf(text: str) -> bytes:
    """One page with one line."""
    return pages(f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET")


BAR = "0.2 g 72 600 400 90 re f"
"""A drawing: the content of a page that has no text."""


def pages(
    *contents: str | bytes,
    width: float = 612,
    height: float = 792,
    filters: str = "",
    more: str = "",
    font: str = "",
    bookmark: str = "",
    field: tuple[str, str] = ("", ""),
) -> bytes:
    """A PDF with one page for each content stream (ISO 32000-1, 7.5); `filters` as in the dictionary of each, `more` in
    the trailer, `font` in the dictionary of the font; with a bookmark, and a form's field with its name and value."""
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(len(contents)))
    last = 4 + 2 * len(contents)
    outline = f"/Outlines {last} 0 R" if bookmark else ""
    form = f"/AcroForm << /Fields [{last + 2} 0 R] >>" if field[0] else ""
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {outline} {form} >>".encode(),
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
    ]
    face = 3 + 2 * len(contents)
    for number, content in enumerate(contents):
        stream = content.encode() if isinstance(content, str) else content
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents {4 + 2 * number} 0 R "
            f"/Resources << /Font << /F1 {face} 0 R >> /XObject << /X {4 + 2 * number} 0 R >> >> >>".encode(),
            f"<< /Length {len(stream)} {filters} >>\nstream\n".encode() + stream + b"\nendstream",
        ]
    objects.append(f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {font} >>".encode())
    if bookmark or field[0]:
        objects += [
            f"<< /Type /Outlines /First {last + 1} 0 R /Last {last + 1} 0 R /Count 1 >>".encode(),
            f"<< /Title ({bookmark}) /Parent {last} 0 R /Dest [3 0 R /Fit] >>".encode(),
            f"<< /FT /Tx /T ({field[0]}) /V ({field[1]}) >>".encode(),
        ]
    made = bytearray(b"%PDF-1.4\n")
    places = []
    for number, written in enumerate(objects, start=1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, written)
    start, count = len(made), len(objects) + 1
    made += b"xref\n0 %d\n0000000000 65535 f \n" % count + b"".join(b"%010d 00000 n \n" % place for place in places)
    tail = f"trailer << /Size {count} /Root 1 0 R {more} >>\nstartxref\n{start}\n%%EOF\n"
    return bytes(made + tail.encode())


def message(text: str) -> EmailMessage:
    """A mail to which a test attaches more."""
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "jana@acme.com", "core@acme.com", "Login bug"
    made.set_content(text)
    return made


def mail(text: str, attachment: bytes | None = None) -> bytes:
    """A mail, with an attached PDF where one is given."""
    made = message(text)
    if attachment is not None:
        made.add_attachment(attachment, maintype="application", subtype="pdf", filename="report.pdf")
    return made.as_bytes()


def pictures(*bodies: bytes) -> str:
    """A mail with attached images, the same text for the same images."""
    made = message("See the pictures.")
    for number, body in enumerate(bodies):
        made.add_attachment(body, maintype="image", subtype="png", filename=f"shot{number}.png")
    made.set_boundary("edge")
    return made.as_string()


def mails_within_mails(depth: int) -> bytes:
    """A mail that carries a mail that carries a mail ..."""
    inner = b"From: a@b.example\r\nSubject: the innermost\r\n\r\nHello.\r\n"
    for number in range(depth):
        edge = f"edge{number}".encode()
        inner = (
            b"From: a@b.example\r\nSubject: level\r\nMIME-Version: 1.0\r\n"
            b"Content-Type: multipart/mixed; boundary=" + edge + b"\r\n\r\n--" + edge + b"\r\n"
            b"Content-Type: message/rfc822\r\n\r\n" + inner + b"\r\n--" + edge + b"--\r\n"
        )
    return inner


@functools.cache
def zip_bomb(megabytes: int) -> bytes:
    """A Word document with an entry that inflates to so much; the file stays small."""
    return docx("boom", word__media__zeros=b"\0" * (megabytes << 20))


def claiming(size: int) -> bytes:
    """A Word document whose directory claims that an entry inflates to `size` bytes."""
    name = b"word/media/small"
    made = bytearray(docx("small", word__media__small=b"x" * 100))
    at = made.index(b"PK\x01\x02")
    while made[at + 46 : at + 46 + len(name)] != name:
        at = made.index(b"PK\x01\x02", at + 4)
    struct.pack_into("<I", made, at + 24, size)
    return bytes(made)


def msg(text: str) -> bytes:
    """The smallest Outlook message: a compound file (MS-CFB) with a body stream (MS-OXMSG)."""
    body = text.encode("utf-16-le").ljust(4096, b"\0")
    properties = bytes(32) + struct.pack("<IIQ", 0x1000001F, 6, len(text) * 2 + 2)
    properties = properties.ljust(4096, b"\0")
    entries = [
        ("Root Entry", 5, 1, -2, 0),
        ("__properties_version1.0", 2, -1, 2, 4096),
        ("__substg1.0_1000001F", 2, -1, 10, 4096),
    ]
    directory = b""
    for number, (name, kind, child, start, size) in enumerate(entries):
        encoded = name.encode("utf-16-le") + b"\0\0"
        # The two streams are brothers: the shorter name is the left one, as MS-CFB 2.6.4 orders them.
        left = 2 if number == 1 else -1
        head = encoded.ljust(64, b"\0") + struct.pack("<HBB", len(encoded), kind, 1)
        directory += head + struct.pack("<iii", left, -1, child if kind == 5 else -1) + bytes(36)
        directory += struct.pack("<iQ", start, size)
    directory = directory.ljust(512, b"\0")
    fat = [-3, -2, *range(3, 10), -2, *range(11, 18), -2]
    table = b"".join(struct.pack("<i", one) for one in fat).ljust(512, b"\xff")
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    header += struct.pack("<IIiIIiIiI", 0, 1, 1, 0, 4096, -2, 0, -2, 0)
    header += struct.pack("<i", 0) + b"\xff" * 432
    return header + table + directory + properties + body


def png(width: int, height: int, *, padding: int = 0) -> bytes:
    """An image that says it has this size; its content is one black line. `padding` bytes are in a private chunk."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + (chunk(b"paDd", bytes(padding)) if padding else b"")
        + chunk(b"IDAT", zlib.compress(b"\0" * (width + 1)))
        + chunk(b"IEND", b"")
    )


def document(inner: str, styles: str = "", comments: str = "", **more: bytes | str) -> bytes:
    """A Word document with this in its body, its styles and its comments; `more` as in `docx`."""
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    parts: dict[str, bytes | str] = {
        "word/document.xml": f"<w:document {space}><w:body>{inner}</w:body></w:document>",
        **{name.replace("__", "/"): content for name, content in more.items()},
    }
    if styles:
        parts["word/styles.xml"] = f"<w:styles {space}>{styles}</w:styles>"
    if comments:
        parts["word/comments.xml"] = f"<w:comments {space}>{comments}</w:comments>"
    return _package("word/document.xml", {"word/document.xml": _WORD}, parts)


def book(inner: str, state: str = "", styles: str = "") -> bytes:
    """A workbook with one sheet in this state, of these rows and styles."""
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    sheet = f'<sheet name="S" sheetId="1" r:id="r1" {state}/>'
    relation = f'<Relationship Id="r1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    return _package(
        "xl/workbook.xml",
        {"xl/workbook.xml": _BOOK, "xl/worksheets/sheet1.xml": _SHEET},
        {
            "xl/workbook.xml": f'<workbook {space} xmlns:r="{_OFFICE}"><sheets>{sheet}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": _RELS.format(inner=relation),
            "xl/worksheets/sheet1.xml": f"<worksheet {space}>{inner}</worksheet>",
            "xl/styles.xml": f"<styleSheet {space}>{styles}</styleSheet>",
        },
    )


def show(slide: str, shape: str, place: str, runs: str, *, notes: str = "", comment: str = "") -> bytes:
    """A presentation of one slide of 1000 x 1000 with one shape; `slide` and `shape` are attributes of theirs."""
    spaces = (
        'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
        f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:r="{_OFFICE}"'
    )
    one = (
        "<p:nvGrpSpPr><p:cNvPr id='1' name=''/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>"
        f"<p:sp><p:nvSpPr><p:cNvPr id='2' name='t' {shape}/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr>{place}</p:spPr>"
        f"<p:txBody><a:bodyPr/><a:p>{runs}</a:p></p:txBody></p:sp>"
    )
    size = '<p:sldSz cx="1000" cy="1000"/>'
    relation = f'<Relationship Id="r1" Type="{_OFFICE}/slide" Target="slides/slide1.xml"/>'
    parts: dict[str, bytes | str] = {
        "ppt/presentation.xml": f"<p:presentation {spaces}><p:sldIdLst><p:sldId id='256' r:id='r1'/></p:sldIdLst>{size}"
        "</p:presentation>",
        "ppt/_rels/presentation.xml.rels": _RELS.format(inner=relation),
        "ppt/slides/slide1.xml": f"<p:sld {spaces} {slide}><p:cSld><p:spTree>{one}</p:spTree></p:cSld></p:sld>",
    }
    if notes:
        said = f"<a:p><a:r><a:t>{notes}</a:t></a:r></a:p>"
        parts["ppt/notesSlides/notesSlide1.xml"] = f"<p:notes {spaces}>{said}</p:notes>"
    if comment:
        parts["ppt/comments/comment1.xml"] = f"<p:cmLst {spaces}><p:cm><p:text>{comment}</p:text></p:cm></p:cmLst>"
    types = {"ppt/presentation.xml": _SLIDES, "ppt/slides/slide1.xml": _SLIDE}
    return _package("ppt/presentation.xml", types, parts)
