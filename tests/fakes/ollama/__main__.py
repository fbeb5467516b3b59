"""Composition root: `python -m tests.fakes.ollama --port 11434 --vram 24GiB`. SIGTERM drains and ends with status 0."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web
from pydantic import ValidationError
from pydantic_settings import CliApp

from tests.fakes.ollama import settings
from tests.fakes.ollama.server import app, information

_USAGE_ERROR = 2


def main(arguments: Sequence[str]) -> int:
    """Read the settings and serve until told to stop. Returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stdout)
    try:
        chosen = CliApp.run(settings.Settings, cli_args=list(arguments))
        return asyncio.run(_serve(chosen))
    except ValidationError as error:
        for problem in error.errors():
            print(f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}", file=sys.stderr)
    except (ValueError, OSError) as error:
        print(f"cannot start: {error}", file=sys.stderr)
    return _USAGE_ERROR


async def _serve(chosen: settings.Settings) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    application = app.build(chosen, loop, lambda: datetime.now(UTC))
    runner = web.AppRunner(
        application, handler_cancellation=True, access_log=None, shutdown_timeout=chosen.drain_seconds
    )
    await runner.setup()
    site = web.TCPSite(runner, chosen.host, chosen.port)
    await site.start()
    host, port = runner.addresses[0][:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    _banner(chosen, url)
    if chosen.ready_file:
        _write_ready(Path(chosen.ready_file), url)
    await stopping.wait()
    print("SIGTERM: no new connections; waiting for the requests that run", flush=True)
    await runner.cleanup()
    return 0


def _banner(chosen: settings.Settings, url: str) -> None:
    rule = "=" * 78
    print(rule)
    print("  SIMULATOR of Ollama. This is NOT a language model: answers are computed by")
    print("  rules from the prompt's own text, or read from a script.")
    print(f"  {url}   kind={chosen.kind}  vram={chosen.vram / 2**30:.1f}GiB  version={information.VERSION}")
    print(rule, flush=True)


def _write_ready(path: Path, url: str) -> None:
    """Appears whole or not at all, because whoever waits for it reads it at once."""
    draft = path.with_name(path.name + ".part")
    draft.write_text(json.dumps({"url": url, "pid": os.getpid()}), encoding="utf-8")
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
