"""What is written in an image: Tesseract reads its pixels, as a process of its own beside the event loop.

The same image is read once. A word counts where Tesseract is sure of it, so that blurred writing is none.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections import OrderedDict

LANGUAGES = ("deu", "ces", "eng")
"""In the order in which they are tried: German words are read as Czech ones where Czech is the first."""
PACKAGES = ("tesseract-ocr", *(f"tesseract-ocr-{one}" for one in sorted(LANGUAGES)))
"""Those of Debian that bring it and its languages."""
_SURE = 60.0
_COLUMNS = 12
_MENTION = re.compile(r"^©(?=\w)")
_KEPT = 512


class Unable(Exception):  # noqa: N818 -- named for what is wrong
    """Tesseract is missing, lacks a language, or did not end in time: nothing is known about the image."""


class Reader:
    """At most `at_once` processes of at most `seconds` each; `program` is Tesseract's."""

    def __init__(self, *, at_once: int = 2, seconds: float = 60.0, program: str = "tesseract") -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._seconds = seconds
        self._program = program
        self._known: OrderedDict[str, asyncio.Task[str]] = OrderedDict()

    async def read(self, image: bytes) -> str:
        """The words line by line, a blank line between paragraphs; "" where none can be read. Raises `Unable`."""
        digest = hashlib.sha256(image).hexdigest()
        if digest not in self._known:
            self._known[digest] = asyncio.create_task(self._read(image))
        self._known.move_to_end(digest)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        try:
            # Another request may wait for the same image when this one is given up.
            return await asyncio.shield(self._known[digest])
        except Unable:
            self._known.pop(digest, None)
            raise

    async def _read(self, image: bytes) -> str:
        async with self._slots:
            status, said, problem = await self._run("stdin", "stdout", "-l", "+".join(LANGUAGES), "tsv", given=image)
        if status != 0 and "language" in problem:
            raise Unable(f"Tesseract lacks a language: install the Debian packages {' '.join(PACKAGES)}")
        # Any other failure: bytes that it does not take for an image. A model would see nothing in them either.
        return words(said) if status == 0 else ""

    async def _run(self, *arguments: str, given: bytes) -> tuple[int, str, str]:
        pipe = asyncio.subprocess.PIPE
        # One thread: several are slower on small images, and the machine runs several simulators.
        environment = os.environ | {"OMP_THREAD_LIMIT": "1"}
        try:
            running = await asyncio.create_subprocess_exec(
                self._program, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
            )
        except OSError as error:
            raise Unable(f"no Tesseract ({error}): install the Debian packages {' '.join(PACKAGES)}") from error
        try:
            async with asyncio.timeout(self._seconds):
                said, problem = await running.communicate(given)
        except TimeoutError as error:
            raise Unable(f"Tesseract did not end within {self._seconds:g} seconds") from error
        finally:
            if running.returncode is None:
                running.kill()
                await running.wait()
        assert running.returncode is not None
        return running.returncode, said.decode("utf-8", "replace"), problem.decode("utf-8", "replace")


def words(table: str) -> str:
    """The text of Tesseract's TSV output: eleven columns of place and confidence, then a word."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in table.splitlines()[1:]:
        cells = row.split("\t")
        if len(cells) == _COLUMNS and cells[11].strip() and float(cells[10]) >= _SURE:
            # The sign before a name in a chat is often taken for a round letter in a circle.
            lines.setdefault(tuple(cells[1:5]), []).append(_MENTION.sub("@", cells[11].strip()))
    text, before = "", None
    for place, found in lines.items():
        gap = "" if before is None else "\n" if before == place[:3] else "\n\n"
        text, before = f"{text}{gap}{' '.join(found)}", place[:3]
    return text
