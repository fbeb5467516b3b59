"""Text of a file by Tika's server (`PUT /rmeta/text`, see its page "TikaServerEndpointsCompared").

The answer is a list of metadata objects, the file first and what is embedded in it after it. A file on which Tika's
child dies is tried once more, because the child may have died of another one; then it is the file's fault.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any

import httpx

from kb import errors
from kb.files import sniff

# Begins at a line's end and gives nothing back: a run of a million blanks costs one look.
_BLANK = re.compile(r"\n(?:[ \t\r\f\v]*+\n)++")
_EMBEDDED = 100
_TRIES = 2
# Seconds between looks whether the child is back, and how many looks.
_PAUSE = 0.5
_LOOKS = 30


@dataclass(frozen=True)
class Extracted:
    """The text, with that of embedded files under their names, and the title, "" when the file has none.

    `page_chars`: of a PDF, the characters on each page that have a meaning in Unicode.
    """

    text: str
    title: str
    page_chars: tuple[int, ...] = ()


class Tika:
    """One server. `seconds` bounds a parse, `max_chars` the text of a file. Raises `kb.errors.Away` and `Invalid`."""

    def __init__(self, url: str, http: httpx.AsyncClient, *, seconds: float = 30.0, max_chars: int = 4_000_000) -> None:
        self._url = url.rstrip("/")
        self._http = http
        self._seconds = seconds
        self._max_chars = max_chars

    async def ready(self) -> None:
        """Return when it answers."""
        try:
            answer = await self._http.get(f"{self._url}/version", timeout=5.0)
        except httpx.HTTPError as error:
            raise errors.Away("tika", f"{type(error).__name__}: {error}") from error
        if answer.status_code != 200:
            raise errors.Away("tika", f"HTTP {answer.status_code}")

    async def extract(self, body: bytes, kind: sniff.Type) -> Extracted:
        """What the file says. Raises `kb.errors.Invalid` for one that cannot be read, `TooLarge` for too much text."""
        await self.ready()
        for attempt in range(_TRIES):
            try:
                return self._read(await self._ask(body, kind))
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if attempt < _TRIES - 1:
                    await self._await_return()
            except httpx.TimeoutException as error:
                raise _unreadable(f"it took longer than {self._seconds:g} seconds to read") from error
            except httpx.HTTPError as error:
                raise errors.Away("tika", f"{type(error).__name__}: {error}") from error
        raise _unreadable("the parser dies of it")

    async def _ask(self, body: bytes, kind: sniff.Type) -> list[dict[str, Any]]:
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
        raw = bytearray()
        timeout = httpx.Timeout(self._seconds + 5, connect=5.0)
        async with self._http.stream(
            "PUT", f"{self._url}/rmeta/text", content=body, headers=headers, timeout=timeout
        ) as answer:
            async for piece in answer.aiter_bytes():
                raw += piece
                if len(raw) > most:
                    raise self._too_long()
        if answer.status_code in (429, 503):
            raise errors.Away("tika", f"HTTP {answer.status_code}", retry_after=5)
        if answer.status_code != 200:
            raise _unreadable(f"Tika says HTTP {answer.status_code}")
        try:
            found = json.loads(raw)
        except ValueError as error:
            raise errors.Away("tika", "it answered with something that is not JSON") from error
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def _read(self, found: list[dict[str, Any]]) -> Extracted:
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
        parts = [_text(whole)]
        for one in embedded:
            text, name = _text(one), str(one.get("resourceName", "")).strip()
            if text:
                parts.append(f"Attachment: {name}\n\n{text}" if name else text)
        text = "\n\n".join(part for part in parts if part)
        if len(text) > self._max_chars:
            raise self._too_long()
        title = _first(whole.get("dc:title")) or _first(whole.get("dc:subject"))
        return Extracted(text, title, _page_chars(whole))

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


def _text(one: dict[str, Any]) -> str:
    return squeezed(_first(one.get("X-TIKA:content")))


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
