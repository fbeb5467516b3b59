"""Bytes of a mail as text, whatever they are said to be. Pure; nothing here raises.

A label means what the WHATWG Encoding Standard says (4.2 "Names and labels"; `webencodings`), as mail programs read it:
`iso-8859-1` is windows-1252, `gb2312` is GBK. Labels that it does not have are Python's (`utf-7`, `cp437`). Without a
label, or with `us-ascii`, UTF-8 is tried first. Where a label is unknown or does not fit, `charset-normalizer` guesses;
at last every byte is a letter of windows-1252.
"""

from __future__ import annotations

import codecs
import functools
import re
from dataclasses import dataclass

import webencodings

_LABEL = re.compile(r"[A-Za-z0-9_.:()+-]{1,60}")
_DETECTED_BYTES = 32 << 10
"""Of a text in which a charset is looked for: the library's time grows with them."""
_LEAST_DETECTED = 24
"""Bytes from which a guess is better than the usual charset."""
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_WEB = (
    *(f"cp{number}" for number in (1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258, 874, 866)),
    *("koi8_r", "koi8_u", "shift_jis", "euc_jp", "iso2022_jp", "euc_kr", "big5", "gb18030"),
)
"""Charsets of the standard, as Python calls them; of those that share most letters the one that mails have."""
_ASCII = frozenset({"", "us-ascii", "ascii", "ansi_x3.4-1968", "unknown-8bit", "8bit", "binary"})
"""Labels that say nothing of letters beyond ASCII."""
_NOT_OF_MAILS = frozenset({"punycode", "idna"})
"""Of names of hosts; their time grows with the square of the length."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """`doubt` is a sentence where the text may not be what was written; "" where the label or UTF-8 gave it."""

    text: str
    doubt: str = ""


def decode(raw: bytes, label: str = "") -> Decoded:
    """The text of these bytes; `label` as the mail has it, "" without one."""
    label = label.strip().strip("\"'").strip()
    for mark, name in _MARKS:
        if raw.startswith(mark):
            return Decoded(_replaced(raw[len(mark) :], name))
    plain = label.lower() in _ASCII
    codec = None if plain else _codec(label)
    if codec is not None and (text := _strict(raw, codec)) is not None:
        return Decoded(text)
    said = f"it is no {label or 'UTF-8'}" if codec or plain else f"the charset {label[:60]} is not known"
    if (text := _strict(raw, "utf-8")) is not None:
        return Decoded(text, "" if plain or (codec is None and raw.isascii()) else f"{said}, and was read as UTF-8")
    if codec is not None and _nearly(raw, codec):
        # A few broken letters of a charset that fits: a detector would take another one for all.
        return Decoded(_replaced(raw, codec), f"some bytes are no {label}")
    if (name := _detected(raw)) and (text := _strict(raw, name)) is not None:
        return Decoded(text, f"{said}, and was read as {name}")
    return Decoded(_western(raw), f"{said}, and was read as windows-1252")


@functools.lru_cache(256)
def _codec(label: str) -> str | None:
    """The name of Python's codec; None for a label that nothing knows."""
    if not _LABEL.fullmatch(label):
        return None
    found = webencodings.lookup(label)
    if found is not None:
        return str(found.codec_info.name) if found.name != "x-user-defined" else None
    for name in (label, label.lower().removeprefix("charset").strip("-_=:"), label.lower().removeprefix("x-")):
        try:
            info = codecs.lookup(name)
        except (LookupError, ValueError):
            continue
        # Others turn bytes into bytes (`zlib`), or names of hosts.
        if getattr(info, "_is_text_encoding", True) and info.name not in _NOT_OF_MAILS:
            return info.name
    return None


def _strict(raw: bytes, codec: str) -> str | None:
    if codec == "cp1252":
        return _western(raw)
    try:
        text = raw.decode(codec)
        text.encode()  # some charsets (UTF-7) spell letters that UTF-8 does not have
    except ValueError:
        return None
    return text


def _replaced(raw: bytes, codec: str) -> str:
    return raw.decode(codec, "replace").encode("utf-8", "replace").decode()


def _western(raw: bytes) -> str:
    """windows-1252 as the standard has it: its five free bytes are the control characters of the same number."""
    try:
        return raw.decode("cp1252")
    except UnicodeDecodeError:
        return "".join(_WESTERN[byte] for byte in raw)


_WESTERN = tuple(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(256))


def _nearly(raw: bytes, codec: str) -> bool:
    """Whether few of its letters are broken."""
    foreign = sum(1 for byte in raw if byte > 127)
    return 20 * _replaced(raw, codec).count("\ufffd") < foreign


def _detected(raw: bytes) -> str:
    """What the detector takes the bytes for, "" where it finds no charset, or where they are too few for a guess."""
    if len(raw) < _LEAST_DETECTED:
        return ""
    import charset_normalizer  # loads tables that most mails do not need

    best = charset_normalizer.from_bytes(raw[:_DETECTED_BYTES], cp_isolation=list(_WEB)).best()
    if best is None or (not best.language or best.language == "Unknown"):
        return ""
    return best.encoding
