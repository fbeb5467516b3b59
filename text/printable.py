"""Untrusted text on a terminal: mails and answers of models may carry escape sequences that it must not see."""

from __future__ import annotations

import re

# C0 without tab and newline, DEL, C1 (among them the one-byte CSI), and the marks that reverse the reading direction.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def text(said: str) -> str:
    """`said` with every character that steers a terminal replaced; tabs and line ends stay."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", said.replace("\r\n", "\n"))


def line(said: str, limit: int = 0) -> str:
    """The same on one line, cut after `limit` characters (0: not cut)."""
    flat = " ".join(text(said).split())
    return flat if not limit or len(flat) <= limit else flat[: limit - 1] + "…"
