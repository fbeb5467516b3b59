"""A server of the Model Context Protocol, as a process of its own, that can end in the middle of a call.

`python -m tests.orchestrator_job.effects.tools.weather FOLDER PORT BOOK` writes a line to FOLDER/calls for each
call, and says BOOK of its tool `book`. `LAST` as a city ends the process after that line and before an answer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests import ports, waiting

LAST = "Oslo"
_ROOT = Path(__file__).resolve().parents[4]


class Weather:
    """The process; `url` is where it listens."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, folder: Path) -> None:
        self._process, self.url, self._calls = process, url, folder / "calls"

    @property
    def calls(self) -> list[str]:
        """What it was called with, TOOL CITY each."""
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    def kill(self) -> None:
        """As a node that dies does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def running(folder: Path, book: str = "Book a balloon.", *, port: int = 0) -> Iterator[Weather]:
    """The server, once it listens."""
    port = port or ports.free()
    command = [sys.executable, "-m", __name__, str(folder), str(port), book]
    with subprocess.Popen(command, cwd=_ROOT) as process:
        try:
            waiting.served(lambda: _listens(port), process, folder / "log")
            yield Weather(process, f"http://127.0.0.1:{port}/mcp", folder)
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _serve(folder: Path, port: int, booking: str) -> None:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("weather")

    def called(tool: str, city: str) -> None:
        with (folder / "calls").open("a") as file:
            file.write(f"{tool} {city}\n")
        if city == LAST:
            os._exit(1)

    @server.tool(description="The weather of tomorrow.")
    def forecast(city: str) -> str:
        called("forecast", city)
        return f"Rain in {city}."

    @server.tool(description=booking)
    def book(city: str) -> str:
        called("book", city)
        return f"A balloon is booked in {city}."

    server.run("streamable-http", port=port)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
