"""Which pages of a PDF are drawn, how, and what hostile ones cost: a process of its own, and never this one."""

from __future__ import annotations

import asyncio
import random
import struct
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.files import image, pages, rendering
from tests import waiting
from tests.kb.files import making

BAR, LINE = making.BAR, "BT /F1 12 Tf 72 720 Td (Hello) Tj ET"
FLATE = "/Filter /FlateDecode"


async def drawn(raw: bytes, *wanted: tuple[int, bool], limits: pages.Limits | None = None) -> pages.Drawn:
    """What is drawn of some pages."""
    return await pages.Renderer(limits or pages.Limits()).draw(raw, wanted or [(1, False)])


def grey(png: bytes) -> list[bytes]:
    """The rows of an image without a filter."""
    width, height = struct.unpack(">II", png[16:24])
    at = png.index(b"IDAT")
    [size] = struct.unpack(">I", png[at - 4 : at])
    rows = zlib.decompress(png[at + 4 : at + 4 + size])
    return [rows[row * (width + 1) + 1 : (row + 1) * (width + 1)] for row in range(height)]


async def test_a_page_is_a_grey_image_with_what_the_page_shows() -> None:
    found = await drawn(making.pages(BAR))
    assert found.problems == ()
    png = found.images[1]
    assert image.check(png) == "image/png"
    rows = grey(png)
    scale = 150 / 72
    # The bar stands from 600 to 690 points above the foot of 792.
    assert (rows[int(140 * scale)][int(200 * scale)], rows[int(300 * scale)][int(200 * scale)]) == (51, 255)


async def test_what_has_nothing_to_see_is_no_image() -> None:
    raw = making.pages(BAR, "", LINE, f"{BAR} {LINE}")
    found = await drawn(raw, (1, False), (2, False), (3, True), (4, True), (5, False))
    assert (list(found.images), found.problems) == ([1, 4], ("page 5 could not be looked at: it cannot be drawn",))
    # Text without a meaning in Unicode is read from the image.
    assert list((await drawn(raw, (3, False))).images) == [3]


@pytest.mark.parametrize(("width", "height"), [(14_400, 14_400), (1_000_000_000, 1_000_000_000), (14_400, 1), (0, 0)])
async def test_no_page_is_drawn_larger_than_the_limit(width: float, height: float) -> None:
    found = await drawn(making.pages(BAR, width=width, height=height), limits=pages.Limits(pixels=100_000))
    for png in found.images.values():
        wide, high = struct.unpack(">II", png[16:24])
        assert wide * high <= 105_000


async def test_the_process_opens_nothing_once_it_has_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a PDFium that a file has taken over."""
    (tmp_path / "pypdfium2.py").write_text(
        "import pathlib, socket\n"
        "class PdfiumError(Exception): pass\n"
        "def tried(what):\n"
        "    try: what(); return 'opened'\n"
        "    except OSError as error: return str(error.errno)\n"
        "def PdfDocument(raw):\n"
        f"    said = tried(lambda: open('{tmp_path}/secret')), tried(socket.socket)\n"
        f"    raise SystemExit(100 + (said == ('24', '24')))\n"
    )
    (tmp_path / "secret").write_text("a token")
    monkeypatch.syspath_prepend(tmp_path)
    codes: list[int] = []

    async def ended(process: asyncio.subprocess.Process) -> int:
        codes.append(await wait(process))
        return codes[-1]

    wait = asyncio.subprocess.Process.wait
    monkeypatch.setattr(asyncio.subprocess.Process, "wait", ended)
    assert (await drawn(making.pages(BAR))).images == {}
    assert codes[0] == 101


SMALL = pages.Limits(memory=160 << 20)
"""As much memory as a page needs."""
LINES = b"0 0 m 600 700 l S\n" * 1_000_000
HOSTILE = {
    "no PDF": (b"%PDF-1.7 this is no PDF at all", pages.Limits(), "the file cannot be opened"),
    "memory": (making.pages(zlib.compress(LINES * 4, 1), filters=FLATE), SMALL, "too much memory"),
    "time": (
        making.pages(zlib.compress(b"0.2 g 0 0 612 792 re f\n" * 200_000), filters=FLATE),
        pages.Limits(seconds=1),
        "processor time",
    ),
    "encrypted": (
        making.pages(BAR, more=f"/Encrypt << /Filter /Standard /V 1 /R 2 /O <{'0' * 64}> /U <{'0' * 64}> /P -1 >>"),
        pages.Limits(),
        "the file cannot be opened",
    ),
}


async def test_a_page_needs_little_memory() -> None:
    assert (await drawn(making.pages(BAR), limits=SMALL)).images


@pytest.mark.parametrize("name", list(HOSTILE))
async def test_a_hostile_file_costs_its_own_pages(name: str) -> None:
    raw, limits, why = HOSTILE[name]
    found = await drawn(raw, limits=limits)
    assert found.images == {}
    [problem] = found.problems
    assert problem.startswith("page 1 could not be looked at: ")
    assert why in problem


async def test_pages_before_the_hostile_one_are_kept() -> None:
    loop = f"{BAR} " + "0.2 g 0 0 612 792 re f " * 200_000
    found = await drawn(
        making.pages(BAR, loop, BAR), (1, False), (2, False), (3, False), limits=pages.Limits(seconds=1)
    )
    assert list(found.images) == [1]
    assert [one.partition(" could")[0] for one in found.problems] == ["page 2", "page 3"]


async def test_pages_with_nothing_to_see_take_no_place_of_others() -> None:
    limits = pages.Limits(pages=3)
    wanted, beyond = pages.sparse((0, 5, 0, 5, 0, 0, 0, 0), limits)
    assert (len(wanted), beyond) == (8, [])
    found = await drawn(making.pages("", LINE, BAR, LINE, BAR, "", BAR, BAR), *wanted, limits=limits)
    assert (list(found.images), found.beyond, found.problems) == ([3, 5, 7], (8,), ())
    wanted, beyond = pages.sparse((0,) * 10_000, limits)
    assert len(wanted) + len(beyond) == 10_000
    assert len(wanted) == 4 * limits.pages, "what a file costs is bounded"


async def test_the_images_of_a_file_are_bounded_together() -> None:
    whole = await drawn(making.pages(BAR, BAR), (1, False), (2, False))
    size = len(whole.images[1])
    found = await drawn(making.pages(BAR, BAR), (1, False), (2, False), limits=pages.Limits(bytes=2 * size - 1))
    assert (list(found.images), len(found.problems)) == ([1], 1)


async def test_one_that_does_nothing_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    [problem] = (await drawn(making.pages(BAR), limits=pages.Limits(wall=0.2))).problems
    assert problem == "page 1 could not be looked at: drawing it takes longer than 0.2 seconds"


async def test_the_process_has_no_secrets_and_ends_with_its_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program, seen = tmp_path / "python", tmp_path / "seen"
    program.write_text(f"#!/bin/sh\n/usr/bin/env > {seen}.part\necho $$ >> {seen}.part\n"
                       f"/bin/mv {seen}.part {seen}\nexec /bin/sleep 600\n")  # fmt: skip
    program.chmod(0o755)
    monkeypatch.setenv("JERVIS_KB_MONGODB_URI", "mongodb://secret")
    monkeypatch.setattr("sys.executable", str(program))
    task = asyncio.create_task(drawn(making.pages(BAR)))
    await waiting.eventually(lambda: asyncio.to_thread(seen.exists))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    *environment, number = seen.read_text().splitlines()
    assert not any("secret" in one or one.startswith("JERVIS_") for one in environment)
    assert not await asyncio.to_thread(Path(f"/proc/{number}").exists)


def test_which_pages_are_looked_at() -> None:
    limits = pages.Limits(pages=2, chars=100)
    few = [(number, number == 3) for number in range(2, 10)]
    assert pages.sparse([100, 0, 99, *[0] * 6, 99, 0], limits) == (few, [10, 11])
    assert pages.sparse([0] * 10_000, pages.Limits())[0] == [(number, False) for number in range(1, 41)]
    assert pages.sparse([0, 0], pages.Limits(pages=0)) == ([], [])


@given(st.text(max_size=6000), st.integers(1, 300))
def test_every_passage_names_its_page(said: str, page: int) -> None:
    text = pages.text({page: image.Sight(description=f"D{said}D")})
    blocks = text.split(f"Page {page}, as its image shows it:\n")
    assert blocks[0] == ""
    assert all(len(block) <= 1600 for block in blocks)
    assert "".join("".join(blocks).split()) == "".join(image.document(image.Sight(description=f"D{said}D")).split())


def test_the_protocol_has_room_for_every_length() -> None:
    assert rendering.FRAME.unpack(rendering.FRAME.pack(7, rendering.BROKEN)) == (7, rendering.BROKEN)


async def test_what_is_over_the_limit_ends_though_its_reader_is_full() -> None:
    noise = random.Random(1).randbytes(300 * 300).hex()
    page = f"q 612 0 0 792 0 0 cm BI /W 300 /H 300 /CS /G /BPC 8 /F /AHx ID {noise}> EI Q"
    over = pages.Renderer(pages.Limits(bytes=60_000))

    async def busy() -> None:
        # While this process does something else, more comes than a reader takes.
        while True:
            time.sleep(0.03)  # noqa: ASYNC251 -- it is to block
            await asyncio.sleep(0)

    other = asyncio.create_task(busy())
    try:
        async with asyncio.timeout(60):
            ended = [await over.lay(making.pages(page.encode(), LINE), 1, 2) for _ in range(4)]
    finally:
        other.cancel()
    assert [(one.count, one.next, len(one.problems)) for one in ended] == [(2, 2, 1)] * 4
