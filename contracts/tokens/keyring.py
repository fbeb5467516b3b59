"""The keys of run tokens, read from the folder where the release's Secret is mounted.

Each file is one key. `signing` signs; all keys verify. To rotate the key without a gap:

    1. add the new key under another name; wait until every pod has it (the kubelet takes about a minute)
    2. exchange the two: the new key is `signing`, the old one gets the other name
    3. remove the old key when the last token that it signed has expired

The folder is read at most once a second. If the new keys are unusable, the old ones stay in use.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from contracts.tokens import runtoken

SIGNING = "signing"
_MAX_BYTES = 4096
_EVERY = 1.0

log = structlog.get_logger(__name__)


class Keyring:
    """Call it to get the present keys of `folder`. `monotonic` gives seconds. The constructor raises
    runtoken.Unusable."""

    def __init__(self, folder: Path, monotonic: Callable[[], float]) -> None:
        self._folder = folder
        self._monotonic = monotonic
        self._looked = monotonic()
        self._found = self._read()
        self._ring = runtoken.ring(self._found)

    def __call__(self) -> runtoken.Ring:
        """The keys; a new object after each change."""
        now = self._monotonic()
        if now - self._looked >= _EVERY:
            self._looked = now
            try:
                found = self._read()
                if found != self._found:
                    self._ring = runtoken.ring(found)
                    self._found = found
            except runtoken.Unusable as error:
                log.error("run token keys unusable", error=error.message, remedy=error.remedy)
        return self._ring

    def _read(self) -> tuple[bytes, ...]:
        # Names that begin with a dot are the kubelet's own links and folders.
        try:
            names = sorted(entry.name for entry in self._folder.iterdir() if not entry.name.startswith("."))
            if SIGNING not in names:
                raise self._unusable(f"has no file {SIGNING!r}")
            names.remove(SIGNING)
            return tuple(self._key(name) for name in [SIGNING, *names])
        except OSError as error:
            raise self._unusable(f"cannot be read: {error}") from error

    def _key(self, name: str) -> bytes:
        with (self._folder / name).open("rb") as file:
            key = file.read(_MAX_BYTES + 1).strip()
        if not runtoken.KEY_BYTES <= len(key) <= _MAX_BYTES:
            raise self._unusable(f"has a key {name!r} of {len(key)} bytes")
        return key

    def _unusable(self, problem: str) -> runtoken.Unusable:
        return runtoken.Unusable(
            f"The folder of run tokens' keys {self._folder} {problem}.",
            field="runToken.existingSecret",
            remedy=f"Mount a Secret whose entry {SIGNING!r}, and each other one, is a random text of 32 to 4096 bytes.",
        )
