"""Words of headers that are encoded (RFC 2047), or written in bytes beyond ASCII. Pure; nothing here raises.

Neighbours of one charset are put together before they are decoded: programs cut letters in two. A charset that is not
known is guessed (`text.charsets`).
"""

from __future__ import annotations

import base64
import binascii
import quopri
import re

from text import charsets

_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bq])\?([^?]*?)\?=", re.IGNORECASE)
_BETWEEN = re.compile(r"(\?=)[ \t\r\n]+(?==\?[^?\s]{1,60}\?[bq]\?)", re.IGNORECASE)
_SURROGATES = re.compile("[\udc80-\udcff]")


def decoded(value: str) -> str:
    """A header's value as text on one line; blanks between encoded words are none."""
    if "=?" not in value:
        return plain(value)
    value = _BETWEEN.sub(r"\1", value.replace("\r", "").replace("\n", ""))
    made, at = list[str](), 0
    label, waiting = "", b""
    for found in _WORD.finditer(value):
        text = eight_bit(value[at : found.start()])
        charset = found[1].partition("*")[0]
        if waiting and (text or charset.lower() != label.lower()):
            made.append(charsets.decode(waiting, label).text)
            waiting = b""
        made.append(text)
        label, at = charset, found.end()
        waiting += _bytes(found[2], found[3])
    last = charsets.decode(waiting, label).text if waiting else ""
    return " ".join("".join([*made, last, eight_bit(value[at:])]).split())


def plain(value: str) -> str:
    """A header's value without its line breaks, its bytes as letters."""
    return eight_bit(value).replace("\r", "").replace("\n", "")


def eight_bit(text: str) -> str:
    """A text of the parser, in which bytes beyond ASCII are surrogates, with the letters that they stand for."""
    if not _SURROGATES.search(text):
        return text
    return charsets.decode(text.encode("utf-8", "surrogateescape")).text


def _bytes(form: str, said: str) -> bytes:
    if form in "qQ":
        return quopri.decodestring(said.replace("_", " ").replace(" ", "=20").encode("utf-8", "surrogateescape"))
    bare = re.sub(r"[^A-Za-z0-9+/]", "", said)
    bare = bare[: len(bare) - (len(bare) % 4 == 1)]
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error:
        return said.encode("utf-8", "surrogateescape")
