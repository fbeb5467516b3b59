"""Hosts that a text names: whatever a program that is given the text may call. Pure.

With a scheme, or behind two slashes, any host counts. A bare name counts where it is surely none of a file: it begins
with `www.`, has three labels or more, or a path, a port or a question follows. `main.py` is none, `evil.example/x` and
`7713.evil.example` are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import regex

from text import shingles

_WITH_SCHEME = re.compile(r"(?:\b(?:https?|wss?|ftp):[/\\]*+|(?<![/\\])[/\\]{2,}+)(?P<authority>[^\s/\\?#<>\"']+)")
_LABEL = r"[\p{L}\p{N}_][\p{L}\p{N}_-]{0,62}+"
_BARE = regex.compile(
    rf"(?<![\p{{L}}\p{{N}}@/\\._-])(?P<host>{_LABEL}(?:\.{_LABEL}){{1,40}}+)\.?"
    r"(?:(?P<more>:[0-9]|[/?\\])|(?![\p{L}\p{N}@]))"
)
_FILE_LABELS = 2
_QUAD = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")


def named(text: str) -> Iterator[str]:
    """The hosts, in the order of the text, in small letters, without login and port."""
    folded = shingles.fold(text)
    for match in _WITH_SCHEME.finditer(folded):
        authority = match["authority"].rpartition("@")[2]
        yield authority.partition("]")[0].lstrip("[") if authority.startswith("[") else authority.partition(":")[0]
    for match in _BARE.finditer(folded):
        host, more = match["host"], match["more"]
        labels = host.split(".")
        if _QUAD.fullmatch(host):
            if more:
                yield host
        elif labels[-1][:1].isalpha() and (more or labels[0] == "www" or len(labels) > _FILE_LABELS):
            yield host
