"""What the reader of a file does not see of its text, found by `kb.files.layers` in a process that is bounded in
processor time, memory and time, and marked in the text that Tika reads. One such process runs at a time.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from typing import get_args

from kb.files import layers, sniff
from kb.hidden import marks, placing

_KINDS = frozenset({"", *get_args(marks.Kind)})
TYPES = frozenset({sniff.Type.PDF, sniff.Type.DOCX, sniff.Type.XLSX, sniff.Type.PPTX})
"""Types of files that are looked at here; those of HTML and mails `kb.hidden.pieces` knows."""


@dataclass(frozen=True)
class Limits:
    """`seconds` of processor time, `memory` and `bytes` of the answer; after `wall` seconds the process is ended."""

    seconds: int = 20
    memory: int = 768 << 20
    bytes: int = 32 << 20
    pieces: int = 200_000
    wall: float = 60.0


class Search:
    """Looks for hidden text within `limits`."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._alone = asyncio.Semaphore(1)

    async def find(self, raw: bytes, kind: sniff.Type) -> tuple[list[placing.Piece], str]:
        """The pieces of the file in order, none where nothing is hidden; and why not all of it was looked at, or ""."""
        limits = self._limits
        asked = {"type": kind.name, "cpu": limits.seconds, "memory": limits.memory, "pieces": limits.pieces}
        async with self._alone:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                layers.__name__,
                json.dumps(asked),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                # Nothing of this process's own environment, which has its secrets.
                env={"PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
            )
            try:
                async with asyncio.timeout(limits.wall):
                    said = await _exchange(process, raw, limits.bytes)
                    code = await process.wait() if said is not None else -1
            except TimeoutError:
                said, code = None, -1
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        match code:
            case 0:
                why = ""
            case layers.REFUSED:
                why = "it cannot be opened to the end"
            case layers.TOO_MANY:
                why = f"it has more than {limits.pieces} pieces of text"
            case _:
                said, why = None, "it takes too much memory or time"
        pieces = await asyncio.to_thread(_read, said) if said else []
        return pieces, f"not all of the file could be searched for hidden text: {why}" if why else ""


async def _exchange(process: asyncio.subprocess.Process, raw: bytes, most: int) -> bytes | None:
    """What it says, or None for more than `most` bytes."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(raw)
        await process.stdin.drain()
        process.stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        pass  # it has ended, and its code says why
    said = bytearray()
    while part := await process.stdout.read(1 << 16):
        said += part
        if len(said) > most:
            return None
    return bytes(said)


def _read(said: bytes) -> list[placing.Piece]:
    return [(kind, text) for kind, text in json.loads(said) if kind in _KINDS]
