"""Pages of a PDF that say little by their text: which they are, as images, and their place in the document's text.

They are drawn by `kb.files.rendering` in a process that is bounded in processor time, memory and time: a PDF that
breaks or stalls it costs its own pages and nothing else. One such process runs at a time.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kb.files import image, rendering

_BLOCK = 1500
_LAYOUT_BYTES = 4 << 20
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


@dataclass(frozen=True)
class Word:
    """A word and its place, in 10,000ths of the page's sides as it is seen, from the upper left corner."""

    left: int
    top: int
    right: int
    bottom: int
    text: str


@dataclass(frozen=True)
class Laid:
    """A page as it is seen: its image as PNG, its size in points, and where its own words stand. `figures`: it shows
    more than text, tables and frames."""

    number: int
    image: bytes
    width: float
    height: float
    words: tuple[Word, ...] = ()
    figures: bool = True


@dataclass(frozen=True)
class Part:
    """Some pages of a PDF that has `count`, all before `next`; blank ones are not among them. `problems` as of `Drawn`.
    `late`: the time ended before page `next`, which says nothing about the file."""

    count: int
    pages: tuple[Laid, ...] = ()
    problems: tuple[str, ...] = ()
    next: int = 0
    late: bool = False


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
        images: dict[int, bytes] = {}
        problems: dict[int, str] = {}
        why = await self._run(raw, wanted, images, problems, most=self.limits.pages)
        missing = [number for number, _ in wanted if number not in images.keys() | problems.keys()]
        problems.update({number: why for number in missing if why})
        return Drawn(
            {number: png for number, png in images.items() if png},
            tuple(number for number in missing if not why),
            tuple(f"page {number} could not be looked at: {why}" for number, why in sorted(problems.items())),
        )

    async def lay(self, raw: bytes, first: int, most: int) -> Part:
        """The pages from `first` on, `most` at most, with the places of their words. It raises nothing.

        A page that ends the process ends the part before it; as the first page of a part it is a problem, and the part
        ends behind it.
        """
        images: dict[int, bytes] = {}
        problems: dict[int, str] = {}
        layouts: dict[int, bytes] = {}
        wanted = [(number, False) for number in range(first, first + most)]
        why = await self._run(raw, wanted, images, problems, layouts, most=most)
        # The number of pages comes as the layout of page 0.
        count = int(layouts.pop(0, b"0"))
        behind, late = first + most, why == self._late
        if why:
            behind = next((number for number, _ in wanted if number not in layouts.keys() | problems.keys()), behind)
            if behind == first and not late:
                problems[first] = why
                behind += 1
        return Part(
            count,
            tuple(_laid(number, png, layouts[number]) for number, png in images.items() if png and number in layouts),
            tuple(f"page {number} could not be drawn: {why}" for number, why in sorted(problems.items())),
            behind,
            late,
        )

    @property
    def _late(self) -> str:
        return f"drawing it takes longer than {self.limits.wall:g} seconds"

    async def _run(
        self,
        raw: bytes,
        wanted: Sequence[tuple[int, bool]],
        images: dict[int, bytes],
        problems: dict[int, str],
        layouts: dict[int, bytes] | None = None,
        *,
        most: int,
    ) -> str:
        """Draw into `images`, and with `layouts` into these; why those that are missing are, or ""."""
        limits = self.limits
        asked: dict[str, object] = {"pages": wanted, "pixels": limits.pixels, "cpu": limits.seconds}
        asked |= {"memory": limits.memory, "most": most, "layout": layouts is not None}
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
            try:
                async with asyncio.timeout(limits.wall):
                    return await _read(process, raw, limits.bytes, images, problems, layouts)
            except TimeoutError:
                return self._late
            finally:
                if process.returncode is None:
                    process.kill()
                    # A reader that is full waits for who reads, and never sees that the process has ended.
                    assert process.stdout is not None
                    await process.stdout.read()
                    await process.wait()


async def _read(
    process: asyncio.subprocess.Process,
    raw: bytes,
    most: int,
    images: dict[int, bytes],
    problems: dict[int, str],
    layouts: dict[int, bytes] | None,
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
            if layouts is not None and number == 0:
                layouts[0] = str(size).encode()
                continue
            if layouts is not None and number in images.keys() | problems.keys():
                layouts[number] = await process.stdout.readexactly(min(size, _LAYOUT_BYTES))
                continue
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


def _laid(number: int, png: bytes, layout: bytes) -> Laid:
    said = json.loads(zlib.decompressobj().decompress(layout, _LAYOUT_BYTES))
    width, height = said["size"]
    words = tuple(Word(left, top, right, bottom, text) for left, top, right, bottom, text in said["words"])
    return Laid(number, png, width, height, words, said["figures"])
