"""Mails that other programs write, broken ones among them: what is read of each, and that no part is lost.

`tests/text/mails/NAME.eml` is named for what it shows.
"""

from __future__ import annotations

import base64
import email
import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from asn1crypto import cms, core
from hypothesis import given
from hypothesis import strategies as st

from bench.connectors import mailcorpus
from text import charsets, html_text, mail, mail_headers, mail_parts, mail_words, tnef

MAILS = Path(__file__).parent / "mails"
SHOWN = {
    "alt-empty-plain": "The pump in hall 7 stands still. Runbook <https://wiki.acme.example/pump?id=7>",
    "alt-links-only-html": "See the Runbook.\n\nLinks:\nRunbook: <https://wiki.acme.example/pump?id=7>",
    "bnd-missing": "Please send the offer by Friday.",
    "bnd-unfolded": "Please send the offer by Friday.",
    "bnd-unquoted-eq": "Please send the offer by Friday.",
    "cs-gb2312-is-gbk": "朱镕基的服务器喆",
    "cs-latin1-is-1252": "“Price 40 €” – paid",  # noqa: RUF001
    "cs-none-utf8": "Příliš žluťoučký kůň: server stojí.",
    "cs-x-gbk": "服务器停机",
    "cs-x-unknown": "The pump stands still.",
    "flowed-delsp": "See https://wiki.acme.example/very/long/path/of/the/page for more. The pump stands still.",
    "hdr-bom": "The pump stands still.",
    "hdr-garbage-line": "The pump stands still.",
    "mixed-html-plain-footer": "Runbook <https://wiki.acme.example/pump?id=7>\n\n_______\nmailing list ops",
    "mixed-text-pdf-text": "First half of the letter.\n\nSecond half: please send the offer by Friday.",
    "only-received": "The pump stands still since Monday.",
    "r-cpython135854": "Please send the offer by Friday.",
    "r-two-alternatives": "First block.\n\nSecond block: please send the offer.",
    "r-zammad6376-opaque": "Please send the offer by Friday.",
    "subj-obsolete-colon": "The pump stands still.",
    "l-hidden-link": "<i hidden>x</i>",
    "q-html-gmail": "Jana <jana@acme.example> wrote:\n\n> Please restart the billing service",
    "dsn": "Final-Recipient: rfc822; karl@gone.example\nAction: failed\nStatus: 5.1.1",
    "r-ics-update": "Link: https://meet.acme.example/77",
    "r-ics-reply": "Comment: I am ill",
}
FILES = {
    "att-charset-unknown": ("note.txt", "text/plain", b"hello"),
    "att-csv-nocharset": ("orders.csv", "text/csv", "číslo;název;cena\r\n1;čerpadlo;40 €\r\n".encode()),
    "att-model-stl": ("b.stl", "model/stl", b"solid b"),
    "dsn": ("part-3.eml", "message/rfc822", None),
    "mixed-text-pdf-text": ("a.pdf", "application/pdf", b"%PDF-1.4 x"),
    "r-eml-base64": ("a.eml", "message/rfc822", b"From: k@kunde.example\nSubject: Offer\n\nPlease sign.\n"),
    "r-ics-update": ("part-2.ics", "text/calendar", None),
    "r-nocontenttype-pdf": ("a.pdf", "application/pdf", b"%PDF-1.4 \xe2\xe3\xcf\xd3 binary \x80\x90"),
    "r-odoo106770": ("invoice.pdf", "application/pdf", b"%PDF-1.4 x"),
    "r-pdf-bad-type": ("a.pdf", "application/pdf", b"%PDF-1.4 \xe2\xe3\xcf\xd3 binary \x80\x90"),
    "r-roundcube7949": ("uli.txt", "text/plain", "Grüße äöü ß".encode()),
}


def of(name: str) -> bytes:
    return (MAILS / f"{name}.eml").read_bytes()


@pytest.mark.parametrize("name", SHOWN)
def test_the_text_is_what_a_mail_program_shows(name: str) -> None:
    assert SHOWN[name] in mail.read(of(name)).text


@pytest.mark.parametrize("name", FILES)
def test_files_keep_their_bytes_and_have_the_type_of_their_content(name: str) -> None:
    [file] = mail.read(of(name)).files
    named, kind, body = FILES[name]
    assert (file.name, file.media_type) == (named, kind)
    assert body is None or file.body == body


@pytest.mark.parametrize("name", sorted(path.stem for path in MAILS.iterdir()))
def test_every_mail_has_its_identity_and_loses_no_part(name: str) -> None:
    raw = of(name)
    found = mail.read(raw)
    assert found.body
    assert mailcorpus.lost(raw) == []
    if b"Message-ID" in raw:
        assert f"<{found.message_id}>".encode() in raw
    ends = [mail.read(raw.replace(b"\r\n", b"\n").replace(b"\n", end)) for end in (b"\n", b"\r\n", b"\r")]
    assert len({one.text for one in ends}) == 1
    assert "\ufffd" not in found.text


def test_of_many_references_the_first_and_the_latest_are_kept() -> None:
    raw = of("r-proton146-refs")
    ids = mail_headers.references(str(email.message_from_bytes(raw)["References"])).split()
    line = next(line for line in mail.read(raw).text.split("\n") if line.startswith("References: "))
    assert line.removeprefix("References: ").split() == ids
    assert (len(ids), ids[0][:29]) == (50, "<long-message-id-number-0000-")
    assert ids[-1] == str(email.message_from_bytes(raw)["References"]).split()[-1]


def test_what_decides_is_a_field() -> None:
    received = datetime(2026, 11, 23, 7, 5, tzinfo=UTC)
    news = mail.read(of("news-unsub"), received)
    assert news.facts is not None
    assert news.facts.nodes[0].properties == {
        "listUnsubscribe": ["https://lists.example/q/8f7e?r=1"],
        "precedence": "bulk",
        "receivedAt": "2026-11-23T07:05:00+00:00",
    }
    form = mail.read(of("form")).facts
    assert form is not None
    assert form.nodes[0].properties["replyTo"] == ["Karl Kunde <karl@kunde.example>"]
    assert [(one.type, one.target) for one in form.relationships] == [("reply_to", "user:karl@kunde.example")]
    bounce = mail.read(of("dsn")).facts
    assert bounce is not None
    assert bounce.nodes[0].properties["autoSubmitted"] == "auto-replied"
    hop = mail.read(of("only-received")).facts
    assert hop is not None
    assert hop.nodes[0].properties["receivedAt"] == "2026-11-23T07:00:00+00:00"


def test_an_event_is_known_by_its_uid() -> None:
    update = mail.read(of("r-ics-update")).facts
    assert update is not None
    event = update.nodes[1]
    assert (event.key, event.properties["method"], event.properties["sequence"]) == (
        "event::u1@acme.example", "REQUEST", 2,
    )  # fmt: skip
    assert "Not on: 2026-09-25 13:00 UTC" in mail.read(of("r-ics-update")).text


def test_a_doubt_is_named_with_its_part() -> None:
    raw = (
        b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nText.\n--b\n"
        b"Content-Type: text/plain; charset=klingon\n\nStra\xdfe und gr\xfcne B\xe4ume, sch\xf6ne Gr\xfc\xdfe\n--b--\n"
    )
    found = mail.read(raw)
    assert "Straße und grüne Bäume" in found.text
    assert found.doubts == ("part 2: the charset klingon is not known, and was read as windows-1252",)
    assert f"In-Doubt: {found.doubts[0]}\n" in found.text


@given(
    st.binary(max_size=400), st.sampled_from(("", "utf-8", "us-ascii", "gb2312", "x-user-defined", "zlib", "\0", "é"))
)
def test_a_decoder_never_fails(raw: bytes, label: str) -> None:
    assert charsets.decode(raw, label).text.encode("utf-8") is not None


@given(st.binary(max_size=300), st.sampled_from((b"", b"Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n")))
def test_any_bytes_are_a_mail_or_none(raw: bytes, head: bytes) -> None:
    try:
        found = mail.read(head + raw)
    except mail.UnreadableError:
        assert not head
    else:
        assert found.text.encode()


@given(st.text(max_size=200))
def test_any_text_is_html(text: str) -> None:
    html_text.render(text)
    mail_words.decoded(text)


def _signed(inner: bytes) -> bytes:
    info = {"content_type": "data", "content": inner}
    data = cms.SignedData({"version": "v1", "digest_algorithms": [], "encap_content_info": info, "signer_infos": []})
    return bytes(cms.ContentInfo({"content_type": "signed_data", "content": data}).dump())


def _object(level: int, name: int, kind: int, data: bytes) -> bytes:
    check = struct.pack("<H", sum(data) % 65536)
    return struct.pack("<BHHI", level, name, kind, len(data)) + data + check


def test_what_is_signed_is_opened_with_its_files() -> None:
    parts = b"--i\n\nSigned.\n--i\nContent-Type: image/png; name=a.png\n\nPNG\n--i--\n"
    inner = b"Content-Type: multipart/mixed; boundary=i\n\n" + parts
    head = b"Subject: s\nContent-Type: application/pkcs7-mime; smime-type=signed-data; name=smime.p7m\n"
    body = email.message.MIMEPart()
    body.set_content(_signed(inner), "application", "octet-stream", cte="base64")
    found = mail.read(head + b"Content-Transfer-Encoding: base64\n\n" + str(body.get_payload()).encode())
    assert found.text.endswith("\n\nSigned.\n")
    assert [(file.name, file.body) for file in found.files] == [("a.png", b"PNG")]


def test_a_message_of_outlook_is_opened() -> None:
    raw = struct.pack("<IH", 0x223E9F78, 1) + b"".join(
        [
            _object(1, 0x800C, 0x0002, b"Please send the offer.\0"),
            _object(2, 0x9002, 0x0006, b"\0" * 14),
            _object(2, 0x8010, 0x0001, b"offer.txt\0"),
            _object(2, 0x800F, 0x0006, b"forty pumps"),
        ]
    )
    opened = tnef.opened(raw)
    assert opened is not None
    assert opened.text.strip("\0") == "Please send the offer."
    assert opened.files == (("offer.txt", b"forty pumps"),)
    assert tnef.opened(raw[:6] + b"\0" * 40_000) is None


def test_an_office_file_that_is_called_text_is_one() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", "<w/>")
    part = email.message.EmailMessage()
    part["Subject"] = "s"
    part.set_content("See it.")
    part.add_attachment(packed.getvalue(), "application", "octet-stream", filename="a.docx")
    raw = part.as_bytes().replace(b"application/octet-stream", b"text/plain")
    [file] = mail.read(raw).files
    assert file.body == packed.getvalue()
    assert file.media_type.endswith("wordprocessingml.document")


HTML: list[tuple[str, str]] = [
    ("<p>a<br>b</p><p>c", "a\nb\n\nc"),
    ("<blockquote>a<blockquote>b</blockquote></blockquote>c", "> a\n>\n> > b\n\nc"),
    ('<blockquote style="margin:0 0 0 40px;border:none">mine</blockquote>', "mine"),
    ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2"),
    ("<ol><li>a<li>b</ol><ul><li>c</ul>", "1. a\n2. b\n\n- c"),
    ('<a href="https://a.example/">a</a> <a href="https://b.example">https://b.example</a>',
     "a <https://a.example/> https://b.example"),
    ('<div>me</div><div id="divRplyFwdMsg">From: x</div>', f"me\n{html_text.RULE}\nFrom: x"),
    ('<pre>  x\n   y</pre>z<style>p{}</style><script>q</script>', "  x\n   y\n\nz"),
    ('a<!-- secret -->b<p style="display:none">c</p>', "a <!-- secret --> b\n\n <i hidden>c</i>"),
    ("&lt;i hidden&gt; &amp; more", "<i hidden> & more"),
]  # fmt: skip


@pytest.mark.parametrize(("html", "text"), HTML)
def test_html_is_text_with_its_quotes_tables_and_links(html: str, text: str) -> None:
    assert html_text.render(html).text.rstrip() == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("=?utf-8?q?=C5?= =?utf-8?q?=99?=", "ř"),
        ("=?windows-874?b?4LnhuQ==?=", "เนแน"),
        ("=?iso-8859-1?Q?J\udcfcrgen?= x", "Jürgen x"),
        ("J\udcc3\udcbcrgen", "Jürgen"),
        ("=?utf-8?b?QUJD", "=?utf-8?b?QUJD"),
        ("a =?utf-8?q?b?= c", "a b c"),
    ],
)
def test_words_of_headers(value: str, text: str) -> None:
    assert mail_words.decoded(value) == text


READERS: dict[str, Callable[[str], object]] = {
    "Jana <jana@a.example>, <b@b.example>": lambda text: text == "Jana <jana@a.example>, b@b.example",
    "<>": lambda text: text in ("<>", ""),
    "Jana Nov\udce1k <j@a.example>": lambda text: text == "Jana Novák <j@a.example>",
}


@pytest.mark.parametrize("value", READERS)
def test_addresses_of_any_form(value: str) -> None:
    assert READERS[value](mail_headers.readable("From", value))


def _compressed(packed: bytes) -> bytes:
    """A part of S/MIME compressed data (RFC 3274)."""
    data = {
        "version": "v0",
        "compression_algorithm": {"algorithm": "1.2.840.113549.1.9.16.3.8"},
        "encap_content_info": {"content_type": "data", "content": core.ParsableOctetString(packed)},
    }
    body = cms.ContentInfo({"content_type": "compressed_data", "content": cms.CompressedData(data)}).dump()
    head = b"Content-Type: application/pkcs7-mime; name=smime.p7z\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    return head + base64.encodebytes(body)


def test_compressed_data_is_opened_as_far_as_it_stays_small() -> None:
    small = mail.read(b"Subject: pump\r\n" + _compressed(zlib.compress(b"Subject: x\r\n\r\nThe pump stands still.")))
    assert "The pump stands still." in small.text

    # Each of the parts alone would be taken. Files that are equal are one.
    large = _compressed(zlib.compress(b"Subject: x\r\n\r\n" + b"a" * (mail_parts.MOST_UNPACKED // 2), 9))
    parts = b"".join(b"\r\n--b\r\n" + large for _ in range(4))
    read = mail.read(b"Subject: pump\r\nContent-Type: multipart/mixed; boundary=b\r\n" + parts + b"\r\n--b--\r\n")
    assert len(read.text) < mail_parts.MOST_UNPACKED
    assert len(read.files) == 1


@pytest.mark.parametrize("packed", [b"no zlib", zlib.compress(b"Subject: x\r\n\r\nThe pump")[:-5]])
def test_compressed_data_that_is_broken_stays_a_file(packed: bytes) -> None:
    [file] = mail.read(b"Subject: pump\r\n" + _compressed(packed)).files
    assert packed in file.body


def test_many_lines_that_are_no_headers_are_looked_at_once() -> None:
    """Each was compared with all that follow: a mail of 1 MiB took hours."""
    read = mail.read(b"Subject: pump\r\n" + b"no header\r\n" * 60_000 + b"X-Last: 1\r\n\r\nThe pump stands still.")
    assert read.body
    assert len(read.doubts) == 60_000


def test_blanks_of_a_list_header_are_looked_at_once() -> None:
    """They were tried in each way in which they can be divided: 3,000 of them took minutes."""
    urls = b"<" + b"\t" * 60_000 + b" <https://list.acme.example/\tunsubscribe >"
    facts = mail.read(b"Subject: pump\r\nList-Unsubscribe: " + urls + b"\r\n\r\nNews.").facts
    assert facts is not None
    assert facts.nodes[0].properties["listUnsubscribe"] == ["https://list.acme.example/unsubscribe"]


@pytest.mark.parametrize("kind", ["application/x", "multipart/mixed"])
def test_parameters_without_an_end_are_bounded(kind: str) -> None:
    """A megabyte of them took minutes."""
    endless = b'; name="' + b'\\";' * 300_000
    read = mail.read(b"Subject: pump\r\nContent-Type: " + kind.encode() + endless + b"\r\n\r\nThe pump stands still.")
    assert b"The pump stands still." in (read.files[0].body if read.files else read.text.encode())
