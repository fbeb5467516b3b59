"""The simulated vision model: the pixels of an image decide what is said of it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from hack import drawing
from tests import needs
from tests.fakes.ollama import process, tesseract
from tests.simulator.conftest import client

TEXTS = {
    "en": "Backup failed\n\nNo space is left on vega-7.\nPlease free 20 GB by 27 November 2026.",
    "cs": "Žádost úřadu\n\nŽádáme vás o vrácení podepsané smlouvy do 4. prosince 2026.",
    "de": "Prüfung der Rechnung\n\nBitte prüfen Sie die Verträge bis 27. November 2026.",
}


@pytest.fixture(autouse=True)
def ocr() -> None:
    needs.ocr()


def asked(*images: bytes, tag: str = "kb.describe/v1") -> dict[str, Any]:
    encoded = [base64.b64encode(image).decode() for image in images]
    turns = [
        {"role": "system", "content": f"[prompt:{tag}]\nDescribe."},
        {"role": "user", "content": "Kind: image\nTitle: x", "images": encoded},
    ]
    names = ("title", "description", "text") if tag == "kb.describe/v1" else ("details",)
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}
    return {"model": "small:1b", "messages": turns, "stream": False, "format": schema}


async def said(http: httpx.AsyncClient, *images: bytes, tag: str = "kb.describe/v1") -> dict[str, Any]:
    reply = await http.post("/api/chat", json=asked(*images, tag=tag), timeout=120)
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = json.loads(reply.json()["message"]["content"])
    return answer


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize(
    ("name", "look"), [("a.png", "screen"), ("a.jpg", "scan"), ("a.gif", "screen"), ("a.webp", "scan")]
)
async def test_pixels_are_read_in_each_language_and_format(
    http: httpx.AsyncClient, language: str, name: str, look: drawing.Look
) -> None:
    text = TEXTS[language]
    answer = await said(http, drawing.picture(text, name=name, look=look))
    assert answer["text"].split("\n\n")[1].split() == text.split("\n\n")[1].split()


async def test_the_same_image_with_other_words_is_another_answer(http: httpx.AsyncClient) -> None:
    first, second = [await said(http, drawing.picture(f"The lamp is {colour}.")) for colour in ("green", "red")]
    assert (first["text"], second["text"]) == ("The lamp is green.", "The lamp is red.")


@pytest.mark.parametrize("image", [drawing.picture("Too blurred to read", look="blurred"), b"no image at all"])
async def test_where_nothing_can_be_read_that_is_said(http: httpx.AsyncClient, image: bytes) -> None:
    answer = await said(http, image)
    assert (answer["description"], answer["text"]) == ("An image in which no writing can be read.", "")
    assert await said(http, image, tag="kb.qualify.vision-email/v1") == {"details": ""}


async def test_fields_of_several_images(http: httpx.AsyncClient) -> None:
    images = [drawing.picture("Ticket\nStatus: Open\nAssignee: Petr Svoboda"), drawing.picture("A photo")]
    answer = await said(http, *images, tag="kb.qualify.vision-jira/v1")
    assert answer["details"].splitlines() == ["Status: Open", "Assignee: Petr Svoboda"]


async def test_what_is_no_base64_is_refused(http: httpx.AsyncClient) -> None:
    request = asked()
    request["messages"][1]["images"] = ["%%%"]
    assert (await http.post("/api/chat", json=request)).status_code == 400


def script(folder: Path, body: str) -> str:
    """A program in place of Tesseract's."""
    program = folder / "tesseract"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return str(program)


async def test_an_image_is_read_once_however_many_ask(tmp_path: Path) -> None:
    reader = tesseract.Reader(program=script(tmp_path, f'echo one >> {tmp_path}/runs\nexec tesseract "$@"'))
    image = drawing.picture("Read once")
    assert await asyncio.gather(*(reader.read(image) for _ in range(5))) == ["Read once"] * 5
    given_up = asyncio.create_task(reader.read(drawing.picture("Read later")))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await reader.read(drawing.picture("Read later")) == "Read later"
    assert (tmp_path / "runs").read_text().splitlines() == ["one"] * 2


async def test_the_loop_goes_on_and_a_process_that_does_not_end_is_killed(tmp_path: Path) -> None:
    reader = tesseract.Reader(program=script(tmp_path, f"echo $$ > {tmp_path}/pid\nexec sleep 600"), seconds=1.0)
    reading = asyncio.create_task(reader.read(b"image"))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 3
    with pytest.raises(tesseract.Unable, match="did not end within 1 seconds"):
        await reading
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    with pytest.raises(tesseract.Unable):
        await reader.read(b"image")


async def test_no_more_run_at_once_than_allowed(tmp_path: Path) -> None:
    count = f"echo in >> {tmp_path}/log; sleep 0.05; echo out >> {tmp_path}/log; cat > /dev/null"
    reader = tesseract.Reader(program=script(tmp_path, count), at_once=1)
    await asyncio.gather(*(reader.read(bytes([number])) for number in range(4)))
    assert (tmp_path / "log").read_text().split() == ["in", "out"] * 4


async def test_a_machine_without_tesseract_or_a_language_says_what_to_install(tmp_path: Path) -> None:
    packages = "tesseract-ocr tesseract-ocr-ces tesseract-ocr-deu tesseract-ocr-eng"
    with pytest.raises(tesseract.Unable, match=packages):
        await tesseract.Reader(program=str(tmp_path / "absent")).read(b"image")
    lacking = script(tmp_path, "cat > /dev/null; echo \"Failed loading language 'ces'\" >&2; exit 1")
    with pytest.raises(tesseract.Unable, match=packages):
        await tesseract.Reader(program=lacking).read(b"image")


async def test_the_simulator_refuses_what_it_cannot_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with process.running(models=["small:1b"]) as blind:
        async with client(blind) as http:
            reply = await http.post("/api/chat", json=asked(b"image"))
    assert (reply.status_code, "tesseract-ocr-ces" in reply.text) == (500, True)
