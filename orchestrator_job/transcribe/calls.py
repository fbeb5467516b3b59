"""The pod's calls to the sources process: the recording, the transcript, or why there is none.

Unavailable  Operational  no answer, 429, 5xx: repeated for `patience` seconds
Over         Permanent    404, 401: the attempt is over, or the meeting was deleted
Refused      Permanent    another 4xx
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import httpx

from contracts.api import meeting
from crds import addresses, errors

T = TypeVar("T")
PAUSE = 2.0


class Unavailable(errors.Operational):
    """The sources process does not answer."""


class Over(errors.Permanent):
    """The attempt is over: another one runs, or the meeting is gone."""


class Refused(errors.Permanent):
    """It does not take what it was sent."""


class Calls:
    """`token_file` is read before each call: the kubelet may write it after the pod began."""

    def __init__(
        self,
        url: str,
        meeting_id: str,
        token_file: str,
        http: httpx.Client,
        *,
        patience: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._base = f"{url.rstrip('/')}/api/v1/meetings{addresses.path(meeting_id)}"
        self._token_file, self._http, self._patience = Path(token_file), http, patience
        self._monotonic, self._sleep = monotonic, sleep

    def recording(self, to: Path) -> None:
        """Write the recording into a file. Raises `Unavailable`, `Over`, `Refused`."""

        def load() -> None:
            with self._http.stream("GET", f"{self._base}/audio", headers=self._headers()) as response:
                if response.status_code >= 300:
                    response.read()
                    raise _refusal(response)
                with to.open("wb") as file:
                    for piece in response.iter_bytes(1 << 20):
                        file.write(piece)

        self._retried(load)

    def heard(self, transcript: meeting.Transcript) -> None:
        """Hand the transcript back. Raises as `recording`."""
        self._send("PUT", "transcript", transcript.model_dump_json(by_alias=True))

    def failed(self, problem: meeting.Problem) -> None:
        """Say why there is none. Raises as `recording`."""
        self._send("POST", "problem", problem.model_dump_json(by_alias=True))

    def _send(self, method: str, path: str, body: str) -> None:
        def send() -> None:
            headers = {"Content-Type": "application/json", **self._headers()}
            response = self._http.request(method, f"{self._base}/{path}", content=body.encode(), headers=headers)
            if response.status_code >= 300:
                raise _refusal(response)

        self._retried(send)

    def _headers(self) -> dict[str, str]:
        try:
            return {"Authorization": f"Bearer {self._token_file.read_text(encoding='ascii').strip()}"}
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"The token cannot be read: {error}") from error

    def _retried(self, step: Callable[[], None]) -> None:
        begun = self._monotonic()
        while True:
            try:
                return step()
            except httpx.TransportError as error:
                found: errors.Operational = Unavailable(f"The sources process does not answer: {error!r}")
            except Unavailable as error:
                found = error
            if self._monotonic() - begun + PAUSE > self._patience:
                raise found
            self._sleep(PAUSE)


def _refusal(response: httpx.Response) -> errors.JervisError:
    said = f"The sources process answers {response.status_code}: {response.text[:200]}"
    if response.status_code in (401, 403, 404):
        return Over(said)
    if response.status_code == 429 or response.status_code >= 500:
        return Unavailable(said)
    return Refused(said)
