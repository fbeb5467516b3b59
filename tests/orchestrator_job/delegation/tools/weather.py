"""A server of the Model Context Protocol, as a process of its own, that can end in the middle of a call.

`python -m tests.orchestrator_job.delegation.tools.weather FOLDER` listens on a free port, whose number it prints. Each
call is a line of FOLDER/calls. `LAST` as a city ends the process after that line and before an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LAST = "Oslo"
_ROOT = Path(__file__).resolve().parents[4]


class Weather:
    """The process; `url` is where it listens."""

    def __init__(self, process: subprocess.Popen[str], url: str, folder: Path) -> None:
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
def running(folder: Path) -> Iterator[Weather]:
    """The server, started."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, str(folder)]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port, "it ended before it listened"
            yield Weather(process, f"http://127.0.0.1:{port}/mcp", folder)
        finally:
            process.kill()


async def _serve(folder: Path) -> None:
    import socket

    import uvicorn
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

    @server.tool(description="Book a balloon.")
    def book(city: str) -> str:
        called("book", city)
        return f"A balloon is booked in {city}."

    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
