"""The calls of `meetings` and `meeting`: the API of the sources process, and uploads that go on where they stopped."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli import errors, services
from cli.session import Session
from contracts.api import meeting

if TYPE_CHECKING:
    import httpx

PART = 8 << 20
MOST_MISSES = 10
"""Parts in a row that do not arrive."""
PAUSE = 3.0
_TYPE = "application/offset+octet-stream"


class Api:
    """Meetings of one release. Raises `cli.errors`."""

    def __init__(
        self, base: str, http: httpx.AsyncClient, token: str, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._base, self._http, self._sleep = f"{base.rstrip('/')}/api/v1/meetings", http, sleep
        self._headers = {"Authorization": f"Bearer {token}"}

    async def listed(self, namespace: str, connection: str = "", state: str = "") -> meeting.Page:
        """The newest first."""
        asked = {"namespace": namespace, "connection": connection, "state": state}
        response = await self._send("GET", "", params={name: value for name, value in asked.items() if value})
        return meeting.Page.model_validate_json(response.content)

    async def create(self, draft: meeting.Draft) -> meeting.Meeting:
        """A new one."""
        body = draft.model_dump_json(by_alias=True, exclude_defaults=True)
        response = await self._send("POST", "", headers={"Content-Type": "application/json"}, content=body)
        return meeting.Meeting.model_validate_json(response.content)

    async def get(self, meeting_id: str) -> meeting.Meeting:
        """One."""
        return meeting.Meeting.model_validate_json((await self._send("GET", f"/{meeting_id}")).content)

    async def retry(self, meeting_id: str) -> meeting.Meeting:
        """Have a failed one transcribed again."""
        return meeting.Meeting.model_validate_json((await self._send("POST", f"/{meeting_id}/retry")).content)

    async def delete(self, meeting_id: str) -> None:
        """Forget it."""
        await self._send("DELETE", f"/{meeting_id}")

    async def upload(
        self, meeting_id: str, file: Path, size: int, sha256: str, sent: Callable[[int], None]
    ) -> meeting.Meeting:
        """Send what is not there yet; `sent` gets how many bytes are. A part that does not arrive is asked about and
        sent again, `MOST_MISSES` times in a row."""
        misses = 0
        digest = base64.b64encode(bytes.fromhex(sha256)).decode()
        while True:
            try:
                one = await self.get(meeting_id)
                if one.sha256 == sha256:
                    return one  # the last part arrived, and its answer did not
                offset = await self._offset(meeting_id)
                sent(offset)
                while True:
                    offset = await self._part(meeting_id, file, offset, size, digest)
                    sent(offset)
                    misses = 0
                    if offset == size:
                        return await self.get(meeting_id)
            except errors.Unavailable as error:
                misses += 1
                if misses > MOST_MISSES:
                    raise
                await self._sleep(error.retry_after or PAUSE)

    async def _offset(self, meeting_id: str) -> int:
        response = await self._send("HEAD", f"/{meeting_id}/audio")
        return int(response.headers["Upload-Offset"])

    async def _part(self, meeting_id: str, file: Path, offset: int, size: int, digest: str) -> int:
        body = await asyncio.to_thread(_read, file, offset)
        headers = {"Content-Type": _TYPE, "Upload-Offset": str(offset), "Upload-Length": str(size)}
        if offset + len(body) == size:
            headers["Repr-Digest"] = f"sha-256=:{digest}:"
        response = await self._send("PATCH", f"/{meeting_id}/audio", content=body, headers=headers)
        return int(response.headers["Upload-Offset"])

    async def _send(
        self, method: str, path: str, headers: dict[str, str] | None = None, **given: Any
    ) -> httpx.Response:
        import httpx

        try:
            response = await self._http.request(
                method, f"{self._base}{path}", headers={**self._headers, **(headers or {})}, **given
            )
        except httpx.InvalidURL as error:
            raise errors.Unusable(f"{self._base} is no URL: {error}", field="--sources") from error
        except httpx.TransportError as error:
            raise errors.Unavailable(f"The sources process does not answer: {error!r}") from error
        if response.status_code >= 300:
            raise _refusal(response)
        return response


def _refusal(response: httpx.Response) -> Exception:
    try:
        said = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        said = {}
    message = str(said.get("message") or f"The sources process answers {response.status_code}.")
    field, remedy = said.get("field"), said.get("remedy")
    if response.status_code in (423, 429) or response.status_code >= 500:
        wait = response.headers.get("Retry-After", "")
        return errors.Unavailable(message, retry_after=float(wait) if wait.isdigit() else None)
    if response.status_code in (401, 403):
        return errors.Forbidden(message, field="--token", remedy=remedy)
    kind = errors.NotFound if response.status_code == 404 else errors.Refused
    return kind(message, field=field, remedy=remedy)


def _read(file: Path, offset: int) -> bytes:
    try:
        with file.open("rb") as opened:
            opened.seek(offset)
            return opened.read(PART)
    except OSError as error:
        raise errors.Unusable(f"{file} cannot be read: {error.strerror}", field="FILE") from error


def checked(file: Path) -> tuple[int, str]:
    """(bytes, SHA-256) of a recording, read once. Raises `Unusable`."""
    digest, size = hashlib.sha256(), 0
    try:
        with file.open("rb") as opened:
            while piece := opened.read(PART):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise errors.Unusable(f"{file} cannot be read: {error.strerror}", field="FILE") from error
    if not 0 < size <= meeting.MOST_BYTES:
        raise errors.Unusable(
            f"{file} has {size} bytes.", field="FILE", remedy=f"A recording has 1 to {meeting.MOST_BYTES} bytes."
        )
    return size, digest.hexdigest()


async def begun(api: Api, draft: meeting.Draft, size: int) -> tuple[meeting.Meeting, bool]:
    """The meeting whose upload broke off, or a new one; True: it was there. They are told by Connection, title and
    length; the digest at the end tells two files apart that are alike in these."""
    page = await api.listed(draft.namespace, draft.connection, meeting.State.RECORDING.value)
    for one in page.meetings:
        if (one.title, one.length) == (draft.title, size):
            return one, True
    return await api.create(draft), False


@asynccontextmanager
async def reached(session: Session, url: str, token: str, seconds: float) -> AsyncIterator[Api]:
    """The API at `url`; it asks everybody for a token. Raises `Unusable`."""
    if not token:
        raise errors.Unusable(
            "The sources process wants a token.",
            field="--token",
            remedy="Give one of sources.tokens with --token, or in JERVIS_SOURCES_TOKEN: docs/meetings.md.",
        )
    async with services.sources(session, url, token, seconds) as (base, http):
        yield Api(base, http, token)
