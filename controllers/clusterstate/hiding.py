"""What messages and logs must not repeat: values of environments, arguments, and what looks like a credential. Pure.

A runtime's message quotes the command that it could not run, and a program prints its configuration. Values that stand
in a pod's own specification are known and are hidden wherever they appear; what comes from a Secret is not known here,
and is recognized by what it looks like, or not at all. So a log is never shown unless its namespace allows it.

The texts are of others and may be long, so the time for one is bounded: what cannot be shown is cut off first, and
every pattern takes time in proportion to the text. Where a pattern finds the beginning of a value, the search goes on
behind the value, so that no character is looked at more than a few times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

HIDDEN = "***"
MARGIN = 16 << 10
"""Characters beside what is shown that are looked at: a key of 16,384 bits has fewer."""
MOST_VALUES = 4000
MOST_CHARS = 4 << 20
"""Different values of specifications, and characters of all of them; with more no text is shown."""
_SHORTEST = 4
_CODED = 4
"""Of so many characters at least one is no control character, as a rule."""
_PORT = re.compile(r"[0-9]{1,5}|true|false|yes|no|none|null|info|debug|warning|error", re.IGNORECASE)
_SECRET = re.compile(
    r"password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?",
    re.IGNORECASE,
)
_KEY = re.compile(r"-----(BEGIN|END) [A-Z ]{0,40}PRIVATE KEY-----")
# Possessive, and only where no character of the same kind stands before: each run of characters is read once.
_ASSIGNED = re.compile(r"(?<![\w.-])([\w.-]++)[\"']?[:=]\s*+")
_OPTION = re.compile(r"(?<![\w-])([\w-]++)\s++(?=[^\s-]|-[^-])")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'[^']*+'", re.DOTALL)
_UNQUOTED = re.compile(r"[\"'][^\n]*+|[^\s\"',;&{}()\[\]]++")
_WORD = re.compile(r"\S++")
_TOKEN = re.compile(r"(?<![A-Za-z0-9_-])([A-Za-z0-9_-]{11,}+)\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+")
_PATTERNS = (
    re.compile(r"://([^\s/@:]*+:[^\s/]+)@"),
    re.compile(r"(?i)(?<![a-z0-9])(?:bearer|basic)\s++([A-Za-z0-9._~+/=-]{8,}+)"),
    re.compile(
        r"(?<![A-Za-z0-9])((?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}+|glpat-[\w-]{20,}+|xox[abprs]-[\w-]{10,}+)"
    ),
)
_CODES = re.compile(r"\x1b\[[0-9;:?]{0,40}[A-Za-z]")
_CONTROLS = dict.fromkeys({*range(32), *range(127, 160)} - {ord("\n"), ord("\t")})
_Span = tuple[int, int]


class Hidden:
    """The values of these pods and pod templates, by their specifications. `full`: they are too many to be looked for,
    so no text is shown."""

    def __init__(self, specs: Iterable[Mapping[str, Any]], *, full: bool = False) -> None:
        values: set[str] = set()
        shown: set[str] = set()
        for spec in specs:
            for one in containers(spec):
                values |= _values(one)
                # The program is named in messages that say why it does not start.
                shown |= {str(one.get("name") or ""), str(one.get("image") or ""), *(one.get("command") or ())[:1]}
        kept = {one for one in values - shown if _tells(one)}
        self.full = full or len(kept) > MOST_VALUES or sum(map(len, kept)) > MOST_CHARS
        plain = () if self.full else {_plain(one) for one in kept}
        self._values = sorted(one for one in plain if len(one) >= _SHORTEST)
        self._margin = max([MARGIN, *map(len, self._values)])

    def text(self, value: object, most: int, *, end: bool = False) -> str:
        """A text of others without what is to be hidden, plain, and its beginning, or its `end`, where it is long: of
        about `most` characters."""
        if not isinstance(value, str) or self.full:
            return ""
        reach = most + self._margin
        raw = _CODED * reach
        plain = _plain(value[-raw:] if end else value[:raw])
        cut = len(value) > raw or len(plain) > reach
        plain = plain[-reach:] if end else plain[:reach]
        if len(plain) <= most and not cut:
            return _without(plain, self._spans(plain, 0, len(plain)), 0, len(plain))
        # What stands so near to the cut that it may be a part of a value is not shown.
        size = max(0, min(most - 1, len(plain) - (self._margin if cut else 0)))
        first, last = (len(plain) - size, len(plain)) if end else (0, size)
        spans = _merged(self._spans(plain, max(0, first - MARGIN), last + MARGIN, cut_before=end and cut))
        for one in spans:
            if one[0] < first < one[1] or one[0] < last < one[1]:
                first, last = min(first, one[0]), max(last, one[1])
        kept = _without(plain, spans, first, last)
        if end:
            return kept[-most:] if first == 0 and not cut else f"…{kept[max(0, len(kept) + 1 - most) :]}"
        return kept[:most] if last == len(plain) and not cut else f"{kept[: most - 1]}…"

    def _spans(self, text: str, first: int, last: int, *, cut_before: bool = False) -> Iterator[_Span]:
        """Where something is to be hidden: known values anywhere, other ones from `first` to `last`."""
        for one in self._values:
            at = text.find(one)
            while at >= 0:
                yield at, at + len(one)
                at = text.find(one, at + len(one))
        part = text[first:last]
        cut_before = cut_before or first > 0
        for start, stop in _recognized(part):
            yield first + start, first + stop
        # Of a word that began before the part, what it is cannot be seen.
        if cut_before and (begun := _WORD.match(part)):
            yield first, first + begun.end()


SILENT = Hidden((), full=True)
"""Shows no text, and takes no time for it."""


def containers(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All containers of a pod's specification."""
    return [one for name in ("initContainers", "containers", "ephemeralContainers") for one in spec.get(name) or ()]


def _values(container: Mapping[str, Any]) -> set[str]:
    words = [*(container.get("command") or ())[1:], *(container.get("args") or ())]
    found = {str(one.get("value") or "") for one in container.get("env") or ()}
    found |= {str(one) for one in words} | {str(one).partition("=")[2] for one in words}
    return found


def _tells(value: str) -> bool:
    """Whether a value is more than a switch or a port."""
    return len(value.strip()) >= _SHORTEST and not _PORT.fullmatch(value)


def _plain(text: str) -> str:
    """Without control characters and colours, which may stand between a name and its value."""
    text = _CODES.sub("", text).translate(_CONTROLS)
    if text.isascii() or text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(one for one in text if one.isprintable() or one in "\n\t")


def _without(text: str, spans: Iterable[_Span], first: int, last: int) -> str:
    made = []
    for start, stop in _merged(spans):
        if stop <= first or start >= last:
            continue
        made += [text[first:start], HIDDEN]
        first = stop
    return "".join([*made, text[first:last]])


def _merged(spans: Iterable[_Span]) -> list[_Span]:
    """In order, without those that overlap."""
    made: list[_Span] = []
    for start, stop in sorted(spans):
        if made and start < made[-1][1]:
            made[-1] = made[-1][0], max(stop, made[-1][1])
        else:
            made.append((start, stop))
    return made


def _recognized(text: str) -> Iterator[_Span]:
    """What looks like a credential."""
    yield from _keys(text)
    yield from _assigned(text)
    yield from _options(text)
    yield from _tokens(text)
    for pattern in _PATTERNS:
        yield from (found.span(1) for found in pattern.finditer(text))


def _keys(text: str) -> Iterator[_Span]:
    """Private keys, also those that the text has the beginning or the end of."""
    begun, opened = 0, False
    for found in _KEY.finditer(text):
        if found[1] == "END":
            if begun >= 0:
                yield begun, found.end()
            begun, opened = -1, False
        elif not opened:
            begun, opened = found.start(), True
    if opened:
        yield begun, len(text)


def _assigned(text: str) -> Iterator[_Span]:
    """The values of `name=value` and `"name": value`."""
    at = 0
    while found := _ASSIGNED.search(text, at):
        at = found.end()
        if _SECRET.search(found[1]) and (value := _QUOTED.match(text, at) or _UNQUOTED.match(text, at)):
            yield value.span()
            at = value.end()


def _options(text: str) -> Iterator[_Span]:
    """The values of `--name value`."""
    at = 0
    while found := _OPTION.search(text, at):
        at = found.end()
        _, dashes, name = found[1].partition("--")
        if dashes and _SECRET.search(name) and (value := _WORD.match(text, at)):
            yield value.span()
            at = value.end()


def _tokens(text: str) -> Iterator[_Span]:
    """JSON Web Tokens."""
    at = 0
    while found := _TOKEN.search(text, at):
        if (start := found[1].find("eyJ")) >= 0:
            yield found.start() + start, found.end()
            at = found.end()
        else:
            at = found.end(1)
