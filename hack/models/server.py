"""An Ollama on loopback with the models of `store` in it."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from hack.cluster import errors

_START_SECONDS, _STOP_SECONDS = 120.0, 20.0
# Ollama kills the runner of a model that it unloads, which is no crash.
_CRASH = re.compile(
    r'llama runner terminated" error="(?!signal: killed)|runner process has terminated: (?!signal: killed)'
    r"|SIGSEGV|SIGABRT|^panic:"
)
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def environment(address: str, store: Path, **more: str) -> dict[str, str]:
    """Of `ollama serve` at `address` (host:port): nothing of the user's own Ollama, no cloud, nothing is pruned.

    `more` are variables of Ollama without OLLAMA_, in lower case.
    """
    chosen = {
        "host": address,
        "models": str(store / "models"),
        "no_cloud": "1",
        "noprune": "1",
        "keep_alive": "1h",
        "num_parallel": "1",
        "max_loaded_models": "2",
    }
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return kept | {"HOME": str(store)} | {f"OLLAMA_{name.upper()}": value for name, value in (chosen | more).items()}


def free_address() -> str:
    """A port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def answers(url: str) -> bool:
    """Whether an Ollama answers at `url`."""
    try:
        _DIRECT.open(f"{url}/api/version", timeout=5).close()
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False
    return True


def crashes(log: Path) -> list[str]:
    """Lines of a server's log that say that it or the runner of a model died."""
    if not log.exists():
        return []
    return [line for line in log.read_text(errors="replace").splitlines() if _CRASH.search(line)]


@contextlib.contextmanager
def running(program: Path, store: Path, log: Path, **more: str) -> Iterator[str]:
    """The URL of a server for the length of the block; it writes to `log`. Raises errors.NotReady with its end."""
    address = free_address()
    url = f"http://{address}"
    with log.open("ab") as output:
        server = subprocess.Popen(
            [program, "serve"], env=environment(address, store, **more), stdin=subprocess.DEVNULL,
            stdout=output, stderr=output,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not answers(url):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise errors.NotReady(f"ollama does not serve; {log} ends:\n{log.read_text()[-2000:]}")
                time.sleep(0.05)
            yield url
        finally:
            server.terminate()
            try:
                server.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
