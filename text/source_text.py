"""The text of a source file from its bytes, in whatever encoding it was saved. Pure.

Git has bytes and the API has text, so who sends a file decodes it, by the same rules as who reads one from a folder.
In the order of what is asked: a byte order mark, UTF-8, the encoding that the file declares in its first two lines
(PEP 263; Ruby's, Emacs' and Vim's comments have the same form), Japanese, Latin-1, in which every byte is a letter.
"""

from __future__ import annotations

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    # Before that of UTF-16, with which it begins.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(rb"^[^\n]*?coding[:=][ \t]*([-\w]+)", re.ASCII)
_JAPANESE = ("cp932", "euc_jp")
_KNOWN = frozenset(
    {*(f"iso8859-{number}" for number in range(1, 17)), *(f"cp125{number}" for number in range(9)), "cp866"}
    | {"koi8-r", "koi8-u", "mac-roman", "shift_jis", "gb2312", "gbk", "gb18030", "big5", "euc_kr", "cp949", *_JAPANESE}
)
"""Encodings in which the letters of ASCII are themselves, by Python's names. Others (UTF-7, punycode, escapes) would
make another program of the same bytes, or take the square of their number."""
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_HEAD = 1_000


def decode(raw: bytes) -> str:
    """The text, without a byte order mark. What no encoding has gets replacement characters; nothing is raised."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(encoding, errors="replace")
    for encoding in ("utf-8", *_declared(raw[:_HEAD])):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    # A second byte of Shift-JIS may be a quote or a backslash: as Latin-1 such a file does not parse.
    for encoding in _JAPANESE:
        text = raw.decode(encoding, errors="replace")
        # Latin-1 may look like ideographs, and hardly ever like kana, which every Japanese text has.
        if "\N{REPLACEMENT CHARACTER}" not in text and _KANA.search(text):
            return text
    return raw.decode("latin-1")


def _declared(head: bytes) -> list[str]:
    found = (_DECLARED.match(line) for line in head.split(b"\n")[:2])
    names = [one[1].decode("ascii") for one in found if one]
    known = []
    for name in names:
        try:
            known.append(codecs.lookup(name).name)
        except LookupError:
            continue
    return [name for name in known if name in _KNOWN]
