"""`winmail.dat`: a message of Outlook in its own form (MS-OXTNEF), with its text and its files. Pure."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from text import charsets

_SIGNATURE = b"\x78\x9f\x3e\x22"
_OBJECT = 11
"""Bytes of an object without its data."""
_MOST_OBJECTS, _MOST_RTF = 2000, 1 << 20

logging.getLogger("tnefparse").setLevel(logging.CRITICAL)  # what it cannot read stays a file, and is named as one


@dataclass(frozen=True, slots=True)
class Message:
    """`files` are pairs of a name and its bytes."""

    text: str = ""
    html: str = ""
    files: tuple[tuple[str, bytes], ...] = ()


def opened(raw: bytes) -> Message | None:
    """None for what is none, or has nothing in it: it stays a file."""
    if not raw.startswith(_SIGNATURE) or not _bounded(raw):
        return None
    import tnefparse  # few mails have it

    try:
        found = tnefparse.TNEF(raw, do_checksum=False)
        text, html = _text(found.body), _text(found.htmlbody)
        if not text.strip() and not html.strip():
            text = _rich(found)
        files = tuple((_text(one.long_filename()).strip("\0"), bytes(one.data or b"")) for one in found.attachments)
    except Exception:  # noqa: BLE001  # the library raises whatever its bytes make it meet
        return None
    return Message(text, html, files) if text.strip() or html.strip() or files else None


def _bounded(raw: bytes) -> bool:
    """Whether it has few objects: the library copies what follows each."""
    at = 6
    for _ in range(_MOST_OBJECTS):
        if at + _OBJECT > len(raw):
            return True
        at += _OBJECT + int.from_bytes(raw[at + 5 : at + 9], "little")
    return False


def _text(said: object) -> str:
    return charsets.decode(said).text if isinstance(said, bytes) else str(said or "")


def _rich(found: object) -> str:
    """The text of a body that is RTF alone."""
    import compressed_rtf
    from striprtf.striprtf import rtf_to_text

    packed = getattr(found, "_rtfbody", None) or b""
    if not packed or len(packed) > _MOST_RTF:
        return ""
    rich = compressed_rtf.decompress(packed + b"\0")  # the library reads one byte beyond the end
    text = rtf_to_text(rich.decode("latin-1"), errors="replace")  # type: ignore[no-untyped-call]
    return str(text)
