"""A real Ollama, counted by the lines of its own log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hack.models import server

_REQUEST = re.compile(r"^\[GIN\].*\|\s*(\d{3}) \|.*\|\s*[A-Z]+\s+\"([^\"]+)\"", re.MULTILINE)


@dataclass(frozen=True)
class Ollama:
    """A running server; `url` is its address."""

    url: str
    log: Path

    def ended(self, path: str) -> list[int]:
        """The status codes of the requests for `path` that have ended, in the order in which they ended."""
        lines = _REQUEST.findall(self.log.read_text(errors="replace"))
        return [int(status) for status, asked in lines if asked == path]

    def crashes(self) -> list[str]:
        """Lines that say that a runner died."""
        return server.crashes(self.log)
