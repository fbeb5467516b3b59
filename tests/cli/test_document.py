"""A file becomes a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli import attached, document, errors
from controllers.memory import document as memory
from controllers.pendingtask.effects import ingest
from crds import pendingtask
from crds.pendingtask import Mode, Type
from crds.values import ContentRef
from kb import settings as kb_settings
from text import mail

ROOT = Path(__file__).resolve().parents[2]
MAIL = b"""From: =?utf-8?q?Jan_Dvo=C5=99=C3=A1k?= <jan@example.com>
To: team@example.com
Message-ID:
 <20261118.disk@example.com>
Subject: =?utf-8?b?RGlzayDEjS4=?= vega-7
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="x"

--x
Content-Type: text/plain; charset=iso-8859-2
Content-Transfer-Encoding: quoted-printable

Pros=EDm, vym=ECnte disk.
--x
Content-Type: application/pdf
Content-Disposition: attachment; filename="report.pdf"
Content-Transfer-Encoding: base64

AAAA
--x--
"""


def made(file: str, raw: bytes, **wishes: Any) -> tuple[document.Draft, Any]:
    draft = document.draft(file, raw, document.Wishes(client="acme", **wishes))
    return draft, draft.manifest(None, [document.unstored(one.body) for one in draft.files])


NESTED = b"""From: jan@example.com
Subject: Disk
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="m"

--m
Content-Type: multipart/related; boundary="r"

--r
Content-Type: multipart/alternative; boundary="a"

--a
Content-Type: text/plain

Please.
--a
Content-Type: text/html

<b>Please.</b>
--a
Content-Type: text/calendar

BEGIN:VCALENDAR
--a--
--r
Content-Type: image/png
Content-ID: <logo>
Content-Disposition: inline; filename="logo.png"
Content-Transfer-Encoding: base64

iVBORw==
--r--
--m
Content-Type: message/rfc822

Subject: inner

Text.
--m
Content-Type: text/csv; charset=iso-8859-2; name="../t.csv"
Content-Transfer-Encoding: quoted-printable

=EC
--m
Content-Type: text/plain

The footer of the list.
--m
Content-Type: application/pgp-signature; name="signature.asc"

xyz
--m
Content-Type: application/pdf; name="empty.pdf"

--m--
"""


def test_all_that_a_mail_holds_goes_along() -> None:
    found = mail.read(NESTED)
    assert [(one.name, one.media_type, one.body) for one in found.files] == [
        ("part-1-1-3.ics", "text/calendar", b"BEGIN:VCALENDAR"),
        ("logo.png", "image/png", b"\x89PNG"),
        ("part-2.eml", "message/rfc822", b"Subject: inner\n\nText."),
        ("t.csv", "text/csv", "ě".encode()),
    ]
    assert "Attachments: part-1-1-3.ics, logo.png, part-2.eml, t.csv\n" in found.text
    assert "In-Doubt: part 1.1.3: its events cannot be read\n" in found.text
    assert found.text.endswith("\n\nPlease.\n\nThe footer of the list.\n")


def test_attachments_are_of_the_object() -> None:
    extra = attached.File("photo.jpg", "image/jpeg", b"jpg")
    draft = document.draft("x.eml", MAIL, document.Wishes("acme", files=(extra,)))
    assert [one.name for one in draft.files] == ["report.pdf", "photo.jpg"]
    spec = draft.manifest(None, [document.unstored(one.body) for one in draft.files])["spec"]
    assert [(one["name"], one["mediaType"], one["contentRef"]["bytes"]) for one in spec["attachments"]] == [
        ("report.pdf", "application/pdf", 3),
        ("photo.jpg", "image/jpeg", 3),
    ]
    alone = document.draft("x.eml", MAIL, document.Wishes("acme", own_files=False))
    assert (alone.files, "Attachments: report.pdf" in alone.content) == ((), True)
    assert alone.name != draft.name, "another file is another task"


def test_what_the_knowledge_base_does_not_store_is_named_before_it_is_sent() -> None:
    assert document.Wishes("acme").largest == kb_settings.Settings().max_content_bytes
    large = attached.File("film.mp4", "video/mp4", b"x" * 11)
    for name, raw, wishes, field in (
        ("film.mp4", MAIL, document.Wishes("acme", files=(large,), own_files=False, largest=1000), ""),
        ("film.mp4", b"short", document.Wishes("acme", files=(large,), largest=10), "spec.attachments"),
        ("x.txt", b"a" * 11, document.Wishes("acme", largest=10), "FILE"),
    ):
        if not field:
            assert document.draft("x.eml", raw, wishes).files == (large,)
            continue
        with pytest.raises(errors.Unusable, match=rf"{name} has 11 bytes; the knowledge base stores at most 10") as no:
            document.draft("x.txt", raw, wishes)
        assert no.value.field == field
        assert "--max-bytes" in (no.value.remedy or "")
    many = document.Wishes("acme", files=(large,) * 33)
    with pytest.raises(errors.Unusable, match="has 33 attachments; a task holds at most 32"):
        document.draft("x.txt", b"x", many)


def test_a_mail_brings_its_type_source_and_title() -> None:
    draft, manifest = made("in/Disk.EML", MAIL)
    assert manifest["spec"] == {
        "type": "EmailProcessing",
        "clientId": "acme",
        "sourceUrn": "email::20261118.disk@example.com",
        "mode": "Background",
        "content": "From: Jan Dvořák <jan@example.com>\nTo: team@example.com\n"
        "Message-ID: <20261118.disk@example.com>\nSubject: Disk č. vega-7\nAttachments: report.pdf\n\n"
        "Prosím, vyměnte disk.\n",
        "attachments": [
            {
                "name": "report.pdf",
                "mediaType": "application/pdf",
                "contentRef": document.unstored(b"\0\0\0").wire(),
            }
        ],
    }
    assert manifest["metadata"]["annotations"] == {memory.TITLE_ANNOTATION: "Disk č. vega-7"}
    assert draft.name.startswith("disk-")
    # The operator reads the same title off it.
    task = pendingtask.PendingTask.model_validate(manifest)
    assert ingest.content_title(task) == "Disk č. vega-7"


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "demo").glob("*.eml")), ids=lambda path: path.stem)
def test_the_mails_of_the_examples(path: Path) -> None:
    _, manifest = made(path.name, path.read_bytes())
    assert manifest["spec"]["sourceUrn"].startswith("email::")
    assert manifest["metadata"]["annotations"][document.TITLE_ANNOTATION]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"just words", "none of the headers"),
        (b"", "none of the headers"),
        (b"Subject: x\nContent-Type: image/png\n\nAAAA", "no text"),
    ],
)
def test_what_is_no_mail(raw: bytes, why: str) -> None:
    with pytest.raises(errors.Unusable, match=why):
        made("x.eml", raw)


def test_a_mail_without_an_identity_has_no_source() -> None:
    _, manifest = made("x.eml", b"Subject: x\n\nhello")
    assert "sourceUrn" not in manifest["spec"]


def test_text_is_a_question_in_the_foreground() -> None:
    draft, manifest = made("What now?.txt", "\ufeffWho?\n".encode())
    assert manifest["spec"] == {
        "type": "UserInputProcessing",
        "clientId": "acme",
        "mode": "Foreground",
        "content": "Who?\n",
    }
    assert draft.title == "What now?.txt"
    assert draft.name == document.draft("What now?.txt", "\ufeffWho?\n".encode(), document.Wishes("acme")).name
    assert draft.name != document.draft("What now?.txt", b"Who?\n", document.Wishes("other")).name


def test_flags_win_over_the_file() -> None:
    wishes: dict[str, Any] = {
        "type": Type.WIKI,
        "mode": Mode.FOREGROUND,
        "name": "page",
        "title": "Page",
        "source_urn": "wiki::1",
        "project": "storage",
        "group": "platform",
        "position": 2,
    }
    _, manifest = made("x.eml", MAIL, **wishes)
    assert manifest["metadata"] == {"name": "page", "annotations": {document.TITLE_ANNOTATION: "Page"}}
    spec = manifest["spec"]
    assert spec.pop("content") == MAIL.decode()
    assert spec == {
        "type": "WikiProcessing",
        "clientId": "acme",
        "projectId": "storage",
        "groupId": "platform",
        "sourceUrn": "wiki::1",
        "mode": "Foreground",
        "queuePosition": 2,
    }


def test_the_bound_is_in_bytes() -> None:
    fits, _ = made("x.txt", b"a" * 32768)
    assert not fits.stored
    draft = document.draft("x.txt", ("é" * 16385).encode(), document.Wishes("acme"))
    assert draft.stored
    reference = ContentRef(key="k", sha256="0" * 64, bytes=32770)
    spec = draft.manifest(reference)["spec"]
    assert "content" not in spec
    assert spec["contentRef"] == {"store": "gridfs", "key": "k", "sha256": "0" * 64, "bytes": 32770}


@pytest.mark.parametrize(
    ("raw", "wishes", "field", "why"),
    [
        (b"\xff\xfe", {}, "FILE", "byte 0 is no UTF-8"),
        (b" \n", {}, "FILE", "is empty"),
        (b"x", {"project": "a/b"}, "spec.projectId", "spec.projectId"),
        (b"x", {"position": 0}, "spec.queuePosition", "greater than or equal to 1"),
        (b"x", {"source_urn": "nonsense"}, "spec.sourceUrn", "pattern"),
    ],
)
def test_a_mistake_names_its_field(raw: bytes, wishes: Any, field: str, why: str) -> None:
    with pytest.raises(errors.Unusable, match=why) as refused:
        made("x.txt", raw, **wishes)
    assert refused.value.field == field
    assert refused.value.remedy


@pytest.mark.parametrize(("file", "stem"), [("-", "input"), ("???", "task"), ("a" * 80 + ".txt", "a" * 50)])
def test_names_are_dns_labels(file: str, stem: str) -> None:
    draft, _ = made(file, b"x")
    assert draft.name.rpartition("-")[0] == stem
    assert len(draft.name) <= 63
