"""What a file is, by its own bytes and not by its name or its sender's word. Pure."""

from __future__ import annotations

import io
import re
import zipfile
from enum import Enum

from kb import errors


class Type(Enum):
    """The types that are taken, each with its media type."""

    PDF = "application/pdf"
    DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    EML = "message/rfc822"
    MSG = "application/vnd.ms-outlook"
    HTML = "text/html"
    TEXT = "text/plain"

    @property
    def zipped(self) -> bool:
        """Whether it is an archive by nature."""
        return self in (Type.DOCX, Type.PPTX, Type.XLSX)


_PARTS = {"word/": Type.DOCX, "ppt/": Type.PPTX, "xl/": Type.XLSX}
_OLE2 = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# The streams of a message store (MS-OXMSG 2.2), as the directory of the compound file spells them.
_MSG = ("__substg1.0_".encode("utf-16-le"), "__properties_version1.0".encode("utf-16-le"))
_HTML = re.compile(
    rb"^\s*(?:<\?xml[^>]*>\s*)?(?:(?><!--.*?-->)\s*+)*+<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_HEADER = re.compile(rb"^[A-Za-z][A-Za-z0-9-]{0,60}:[ \t\r\n]")
_MAIL = re.compile(
    rb"^(?:from|to|subject|date|received|return-path|message-id|mime-version|delivered-to):", re.I | re.M
)
_END, _ZIP64 = b"PK\x05\x06", b"PK\x06\x07"
# About 200 bytes for each of the 5,000 entries that `inspection` takes.
_DIRECTORY_BYTES = 1 << 20
_REMEDY = "Send PDF, DOCX, PPTX, XLSX, EML, MSG, HTML or UTF-8 text."


def detect(body: bytes) -> Type:
    """The type. Raises `kb.errors.Invalid` for everything else."""
    head = body[:4096].removeprefix(b"\xef\xbb\xbf")
    if b"%PDF-" in head[:1024]:
        return Type.PDF
    if body.startswith(b"PK"):
        return _office(body)
    if body.startswith(_OLE2):
        if any(mark in body for mark in _MSG):
            return Type.MSG
        raise errors.Invalid("the file is an Office document of the old binary form", field="body", remedy=_REMEDY)
    if _HTML.match(head):
        return Type.HTML
    if _HEADER.match(head) and len(_MAIL.findall(head)) >= 2:
        return Type.EML
    if _is_text(body):
        return Type.TEXT
    raise errors.Invalid("the file is of none of the types that are taken", field="body", remedy=_REMEDY)


def _office(body: bytes) -> Type:
    _check_directory(body)
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError, EOFError) as error:
        raise errors.Invalid(f"the file is a damaged archive: {error}", field="body", remedy=_REMEDY) from error
    if "[Content_Types].xml" in names:
        for prefix, found in _PARTS.items():
            if any(name.startswith(prefix) for name in names):
                return found
    raise errors.Invalid("the file is an archive and no Office document", field="body", remedy=_REMEDY)


def _check_directory(body: bytes) -> None:
    """Raises `TooLarge` for an archive whose directory alone would fill the memory of its reader.

    Its length stands at the archive's end (APPNOTE 4.3.16), found as `zipfile` finds it; a ZIP64 record, which would
    override it, is for archives larger than any that is taken.
    """
    end = len(body) - 22 if body[-22:-18] == _END and body[-2:] == b"\0\0" else body.rfind(_END, -(22 + 65_535))
    if end < 0 or len(body) < end + 22:
        return  # no archive, which `zipfile` says better
    size = int.from_bytes(body[end + 12 : end + 16], "little")
    if size > _DIRECTORY_BYTES or body[max(end - 20, 0) : end].startswith(_ZIP64):
        raise errors.TooLarge(
            f"the directory of the archive has {size} bytes, at most {_DIRECTORY_BYTES} are read",
            field="body",
            remedy="Take it apart and send the parts that matter.",
        )


def _is_text(body: bytes) -> bool:
    if b"\0" in body:
        return False
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return bool(body.strip())
