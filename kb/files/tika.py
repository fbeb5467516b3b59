"""Text of a file by Tika's server (`PUT /rmeta/text`, see its page "TikaServerEndpointsCompared").

A PDF is asked for as XHTML (`/rmeta/xml`), whose characters are the same text and which says where its pages begin.

The answer is a list of metadata objects, the file first and what is embedded in it after it. A file on which Tika's
child dies is tried once more, because the child may have died of another one; then it is the file's fault.
"""

from __future__ import annotations

import asyncio
import json
import re
import xml.parsers.expat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from clients import http
from kb import errors, paging
from kb.files import sniff

# Begins at a line's end and gives nothing back: a run of a million blanks costs one look.
_BLANK = re.compile(r"\n(?:[ \t\r\f\v]*+\n)++")
_EMBEDDED = 100
_TRIES = 2
# Seconds between looks whether the child is back, and how many looks.
_PAUSE = 0.5
_LOOKS = 30
_UNSAID = frozenset({"script", "style"})
"""Elements whose characters Tika's text leaves out."""


class _UnfitError(Exception):
    """The XHTML cannot be read, or is too long where the text may not be."""


@dataclass(frozen=True)
class Extracted:
    """The text, with that of embedded files under their names, and the title, "" when the file has none.

    `page_chars`: of a PDF, the characters on each page that have a meaning in Unicode; `starts`: where in the text its
    pages begin.
    """

    text: str
    title: str
    page_chars: tuple[int, ...] = ()
    starts: paging.Starts = ()


SECONDS = 30.0
"""Seconds for a parse; the caller waits for it."""


class Tika:
    """One server. `seconds` bounds a parse, `max_chars` the text of a file. Raises `kb.errors.Away` and `Invalid`."""

    def __init__(
        self, url: str, opened: httpx.AsyncClient, *, seconds: float = SECONDS, max_chars: int = 4_000_000
    ) -> None:
        self._url = url.rstrip("/")
        self._http = opened
        self._seconds = seconds
        self._max_chars = max_chars

    async def ready(self) -> None:
        """Return when it answers."""
        try:
            async with self._http.stream("GET", f"{self._url}/version", timeout=5.0) as answer:
                pass
        except httpx.HTTPError as error:
            raise errors.Away("tika", f"{type(error).__name__}: {error}") from error
        if answer.status_code != 200:
            raise errors.Away("tika", f"HTTP {answer.status_code}")

    async def extract(self, body: bytes, kind: sniff.Type) -> Extracted:
        """What the file says. Raises `kb.errors.Invalid` for one that cannot be read, `TooLarge` for too much text."""
        if kind is sniff.Type.PDF:
            try:
                return await self._extract(body, kind, paged=True)
            except _UnfitError:
                pass  # its text is worth more than its pages
        return await self._extract(body, kind, paged=False)

    async def _extract(self, body: bytes, kind: sniff.Type, *, paged: bool) -> Extracted:
        await self.ready()
        for attempt in range(_TRIES):
            try:
                found = await self._ask(body, kind, paged=paged)
                # Millions of characters take a while.
                return await asyncio.to_thread(self._read, found, paged=paged)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if attempt < _TRIES - 1:
                    await self._await_return()
            except httpx.TimeoutException as error:
                raise _unreadable(f"it took longer than {self._seconds:g} seconds to read") from error
            except httpx.HTTPError as error:
                raise errors.Away("tika", f"{type(error).__name__}: {error}") from error
        raise _unreadable("the parser dies of it")

    async def _ask(self, body: bytes, kind: sniff.Type, *, paged: bool) -> list[dict[str, Any]]:
        headers = {
            "Content-Type": kind.value,
            "Accept": "application/json",
            "writeLimit": str(self._max_chars + 1),
            "maxEmbeddedResources": str(_EMBEDDED),
            "X-Tika-Timeout-Millis": str(int(self._seconds * 1000)),
            # Where Tesseract stands beside Tika: images are a vision model's, and half a second a page is for nothing.
            "X-Tika-OCRskipOcr": "true",
            "X-Tika-PDFOcrStrategy": "no_ocr",
        }
        most = 4 * self._max_chars + (8 << 20)
        timeout = httpx.Timeout(self._seconds + 5, connect=5.0)
        try:
            async with self._http.stream(
                "PUT", f"{self._url}/rmeta/{'xml' if paged else 'text'}", content=body, headers=headers, timeout=timeout
            ) as answer:
                raw = await http.read(answer, most)
        except http.TooLarge:
            raise (_UnfitError() if paged else self._too_long()) from None
        if answer.status_code in (429, 503):
            raise errors.Away("tika", f"HTTP {answer.status_code}", retry_after=5)
        if answer.status_code != 200:
            raise _unreadable(f"Tika says HTTP {answer.status_code}")
        try:
            found = json.loads(raw)
        except ValueError as error:
            raise errors.Away("tika", "it answered with something that is not JSON") from error
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def _read(self, found: list[dict[str, Any]], *, paged: bool) -> Extracted:
        if not found:
            raise _unreadable("Tika says nothing about it")
        whole, *embedded = found
        trouble = str(whole.get("X-TIKA:EXCEPTION:container_exception", ""))
        if whole.get("X-TIKA:EXCEPTION:write_limit_reached") == "true":
            raise self._too_long()
        if trouble:
            if "Encrypted" in trouble:
                raise errors.Invalid("the file is encrypted", field="body", remedy="Send it without a password.")
            raise _unreadable(trouble.partition("\n")[0][:300])
        text, starts = _text(whole, paged=paged)
        parts = [text]
        for one in embedded:
            (text, _), name = _text(one, paged=paged), str(one.get("resourceName", "")).strip()
            if text:
                parts.append(f"Attachment: {name}\n\n{text}" if name else text)
        starts = paging.of([*starts, (len(parts[0]), 0)])
        text = "\n\n".join(part for part in parts if part)
        if len(text) > self._max_chars:
            raise self._too_long()
        title = _first(whole.get("dc:title")) or _first(whole.get("dc:subject"))
        return Extracted(text, title, _page_chars(whole), starts)

    async def _await_return(self) -> None:
        for _ in range(_LOOKS):
            try:
                await self.ready()
            except errors.Away:
                await asyncio.sleep(_PAUSE)
            else:
                return
        raise errors.Away("tika", "its parser does not come back", retry_after=10)

    def _too_long(self) -> errors.TooLarge:
        return errors.TooLarge(
            f"the file says more than {self._max_chars} characters",
            field="body",
            remedy="Split it, or raise JERVIS_KB_MAX_CHARS.",
        )


def squeezed(text: str) -> str:
    """`text` with one blank line where it has several."""
    return _BLANK.sub("\n\n", text).strip()


def _text(one: dict[str, Any], *, paged: bool) -> tuple[str, paging.Starts]:
    """The text of a file, and where its pages begin where its content is XHTML."""
    content = _first(one.get("X-TIKA:content"))
    if not paged or not content:
        return squeezed(content), ()
    raw, spans = _characters(content)
    text = squeezed(raw)
    cuts = _cuts(raw, spans)
    places = _moved(raw, [at for at, _ in cuts])
    return text, paging.of((min(at, len(text)), page) for at, (_, page) in zip(places, cuts, strict=True))


def _cuts(raw: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where in `raw` its pages begin, whose text is at `spans`, and where behind one of them stands what is no text of
    a page, such as bookmarks and the fields of a form: that as page 0."""
    found: list[tuple[int, int]] = []
    for number, (begin, end) in enumerate(spans, start=1):
        following = spans[number][0] if number < len(spans) else len(raw)
        # What stands before the first page is its title.
        found.append((begin if number > 1 else 0, number))
        if raw[end:following].strip():
            found.append((end, 0))
    return found


def _characters(xhtml: str) -> tuple[str, list[tuple[int, int]]]:
    """The characters of Tika's XHTML, and how many of them stand before the beginning and the end of each of its pages.
    Raises `_UnfitError`."""
    said: list[str] = []
    spans: list[tuple[int, int]] = []
    begun: list[int] = []
    count = left_out = 0

    def characters(data: str) -> None:
        nonlocal count
        if not left_out:
            said.append(data)
            count += len(data)

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal left_out
        left_out += name in _UNSAID
        if name == "div" and (begun or attributes.get("class") == "page"):
            # A page has further ones within it.
            begun.append(count)

    def end(name: str) -> None:
        nonlocal left_out
        left_out -= name in _UNSAID
        if name == "div" and begun:
            begin = begun.pop()
            if not begun:
                spans.append((begin, count))

    parser = xml.parsers.expat.ParserCreate()
    # Many characters at once, and before the next element begins.
    parser.buffer_text = True
    parser.CharacterDataHandler, parser.StartElementHandler, parser.EndElementHandler = characters, start, end
    try:
        # A parser of XML makes a line's end of a carriage return that is not written so.
        parser.Parse(xhtml.replace("\r", "&#13;"), True)
    except (xml.parsers.expat.ExpatError, ValueError) as error:
        raise _UnfitError from error
    return "".join(said), spans


def _moved(raw: str, places: Sequence[int]) -> list[int]:
    """Offsets of `raw`, in their order, as they are in `squeezed(raw)`."""
    made: list[int] = []
    shift = len(raw) - len(raw.lstrip())
    blanks = _BLANK.finditer(raw, shift)
    blank = next(blanks, None)
    for place in places:
        while blank is not None and blank.end() <= place:
            shift += len(blank[0]) - 2
            blank = next(blanks, None)
        # Within white space it is where the white space begins: the page's first word stands behind it in any case.
        made.append(max(min(place, blank.start() if blank is not None else place) - shift, 0))
    return made


def _first(value: Any) -> str:
    """Metadata may have one value or several."""
    if isinstance(value, list):
        value = value[0] if value else ""
    return str(value or "").strip()


def _page_chars(whole: dict[str, Any]) -> tuple[int, ...]:
    counts, unmapped = (_numbers(whole.get(f"pdf:{name}")) for name in ("charsPerPage", "unmappedUnicodeCharsPerPage"))
    if len(unmapped) != len(counts):
        return counts
    return tuple(max(count - without, 0) for count, without in zip(counts, unmapped, strict=True))


def _numbers(value: Any) -> tuple[int, ...]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(int(one) for one in values if str(one).isdecimal())


def _unreadable(reason: str) -> errors.Invalid:
    return errors.Invalid(
        f"the file cannot be read: {reason}", field="body", remedy="Open and save it anew, or send its text."
    )
