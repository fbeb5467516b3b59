"""Pages of a PDF that say little by their text: which they are, as images, and their place in the document's text.

They are drawn by `kb.files.rendering` in a process that is bounded in processor time, memory and time: a PDF that
breaks or stalls it costs its own pages and nothing else. One such process runs at a time.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kb.files import image, rendering

_BLOCK = 1500
_BLANKS = 3


@dataclass(frozen=True)
class Limits:
    """`pages` of a document are looked at, each with fewer than `chars` characters; 0 pages switch it off. Those that
    show nothing do not count, up to `_BLANKS` of them for each that does.

    A page is drawn with at most `pixels`. `seconds` of processor time and `memory` bytes are for all pages together;
    their images have at most `bytes`. After `wall` seconds the process is ended, whatever it does: it may have to wait
    for a processor.
    """

    pages: int = 10
    chars: int = 100
    pixels: int = 2_200_000
    seconds: int = 20
    memory: int = 512 << 20
    bytes: int = 32 << 20
    wall: float = 70.0


@dataclass(frozen=True)
class Drawn:
    """Images of pages by their number, from 1; `problems` name the pages that are missing and why, and `beyond` are
    those after the last one that the limit allows."""

    images: Mapping[int, bytes] = field(default_factory=dict)
    beyond: tuple[int, ...] = ()
    problems: tuple[str, ...] = ()


def sparse(chars: Sequence[int], limits: Limits) -> tuple[list[tuple[int, bool]], list[int]]:
    """(page, whether it has text) for each page with little text that may be seen, and the numbers of the others."""
    if not limits.pages:
        return [], []
    found = [(number, count > 0) for number, count in enumerate(chars, start=1) if count < limits.chars]
    most = limits.pages * (1 + _BLANKS)
    return found[:most], [number for number, _ in found[most:]]


def text(sights: Mapping[int, image.Sight]) -> str:
    """What was seen, each passage with the page that shows it: a chunk of a long page says so, too."""
    return "\n\n".join(
        f"Page {number}, as its image shows it:\n{block}"
        for number, sight in sorted(sights.items())
        for block in _blocks(image.document(sight))
    )


def _blocks(said: str) -> Iterator[str]:
    """Paragraphs and lines together, as many as fit."""
    block = ""
    for line in said.splitlines():
        for piece in (line[at : at + _BLOCK] for at in range(0, len(line) or 1, _BLOCK)):
            if block and len(block) + len(piece) >= _BLOCK:
                yield block.strip()
                block = ""
            block += f"{piece}\n"
    if block.strip():
        yield block.strip()


class Renderer:
    """Draws pages within `limits`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._alone = asyncio.Semaphore(1)

    async def draw(self, raw: bytes, wanted: Sequence[tuple[int, bool]]) -> Drawn:
        """The pages that have something to see. It raises nothing: what cannot be drawn is a problem."""
        limits = self.limits
        asked = {"pages": wanted, "pixels": limits.pixels, "cpu": limits.seconds, "memory": limits.memory}
        asked["most"] = limits.pages
        async with self._alone:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                rendering.__name__,
                json.dumps(asked),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                # Nothing of this process's own environment, which has its secrets.
                env={"PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
            )
            images: dict[int, bytes] = {}
            problems: dict[int, str] = {}
            try:
                async with asyncio.timeout(limits.wall):
                    why = await _read(process, raw, limits.bytes, images, problems)
            except TimeoutError:
                why = f"drawing it takes longer than {limits.wall:g} seconds"
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        missing = [number for number, _ in wanted if number not in images.keys() | problems.keys()]
        problems.update({number: why for number in missing if why})
        return Drawn(
            {number: png for number, png in images.items() if png},
            tuple(number for number in missing if not why),
            tuple(f"page {number} could not be looked at: {why}" for number, why in sorted(problems.items())),
        )


async def _read(
    process: asyncio.subprocess.Process, raw: bytes, most: int, images: dict[int, bytes], problems: dict[int, str]
) -> str:
    """Take the frames; why those that are missing are, or ""."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(raw)
        await process.stdin.drain()
        process.stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        pass  # it has ended, and its code says why
    while True:
        try:
            number, size = rendering.FRAME.unpack(await process.stdout.readexactly(rendering.FRAME.size))
            if size == rendering.BROKEN:
                problems[number] = "it cannot be drawn"
                continue
            if size + sum(map(len, images.values())) > most:
                return f"the images of its pages have more than {most} bytes"
            images[number] = await process.stdout.readexactly(size)
        except asyncio.IncompleteReadError:
            break
    match await process.wait():
        case 0:
            return ""
        case rendering.REFUSED:
            return "the file cannot be opened"
        case _:
            return "drawing it takes too much memory or processor time"
