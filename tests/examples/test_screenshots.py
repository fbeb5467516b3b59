"""A task that comes with a screenshot: what is submitted, and what the screenshot decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli import attached, document
from crds.pendingtask import Type
from hack import drawing
from tests import needs
from tests.conftest import ROOT
from tests.fakes.ollama import tesseract
from tests.fakes.ollama.rules import hints, prompt
from tests.simulator import documents

FOLDER = ROOT / "examples" / "screenshots"


@pytest.mark.parametrize(("file", "type_"), [("mail.eml", Type.EMAIL), ("question.txt", Type.USER_INPUT)])
def test_it_goes_along(tmp_path: Path, file: str, type_: Type) -> None:
    picture = tmp_path / "alert.png"
    assert drawing.main([str(FOLDER / "alert.txt"), str(picture)]) == 0
    wishes = document.Wishes("acme", files=(attached.named(str(picture)),))
    draft = document.draft(file, (FOLDER / file).read_bytes(), wishes)
    made = draft.manifest(None, [document.unstored(one.body) for one in draft.files])
    assert (made["spec"]["type"], [one["mediaType"] for one in made["spec"]["attachments"]]) == (type_, ["image/png"])


async def test_the_words_of_the_screenshot_are_what_is_assigned(tmp_path: Path) -> None:
    needs.ocr()
    written = await tesseract.Reader().read(drawing.picture((FOLDER / "alert.txt").read_text()))
    assert written.split() == (FOLDER / "alert.txt").read_text().split()
    mail = (FOLDER / "mail.eml").read_text()
    for text, assigned in ((mail, False), (f"{mail}\n\nVISUAL CONTEXT:\nalert.png: {written}", True)):
        asked = documents.ask("kb.qualify.email/v2", text, team="Platform Team, platform-team@example.com")
        assert hints.answer(prompt.parse(asked))["isAssignedToMe"] is assigned


@pytest.mark.parametrize(
    ("arguments", "says"), [(["x.txt", "x.bmp"], "ends in none of"), (["no-such.txt", "x.png"], "No such file")]
)
def test_what_cannot_be_drawn_is_said(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status = drawing.main(arguments)
    except SystemExit as left:
        status = int(str(left.code))
    assert status != 0
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_letters_without_a_font_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(drawing, "_FONT", tmp_path / "absent")
    assert drawing.picture("ASCII has a font of its own")
    with pytest.raises(drawing.Unable, match="fonts-dejavu-core"):
        drawing.picture("Žádost")
