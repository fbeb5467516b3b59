"""docs/decisions: headers, index and references agree."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hack import decisions

ROOT = Path(__file__).resolve().parents[2]
_GOOD = "# {number}: A title\n\nStatus: accepted. Date: 2026-11-25. Area: router.{more}\n\n## Context\n"


def written(folder: Path, **headers: str) -> Path:
    """A folder of records; a keyword such as `n0001` is a record's number, its value is added to its header."""
    for name, more in headers.items():
        (folder / f"{name[1:]}-title.md").write_text(_GOOD.format(number=name[1:], more=more))
    return folder


def test_index_is_current() -> None:
    said: list[str] = []
    assert decisions.main(["--check"], said.append) == 0, "".join(said)
    numbers = [int(record.number) for record in decisions.records()]
    assert numbers == list(range(1, len(numbers) + 1)), "a record takes the next number"


def test_every_reference_exists() -> None:
    files = {path.stem[:4]: path.name for path in decisions.FOLDER.glob("[0-9]*.md")}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    broken = []
    for name in tracked.splitlines():
        path = ROOT / name
        if (
            path == Path(__file__)
            or path.suffix not in {".md", ".py", ".yaml", ".tpl", ".toml", ".mk", ".json"}
            or not path.exists()
        ):
            continue
        text = path.read_text(encoding="utf-8")
        for number in re.findall(r"\bdecisions?[ /\n]+(?:\d{4} and )?(\d{4})\b", text, re.IGNORECASE):
            if number not in files:
                broken.append(f"{name}: decision {number}")
        for found in re.findall(r"\b(\d{4}-[a-z0-9-]+\.md)\b", text):
            if re.search(rf"(decisions/|\]\(){re.escape(found)}", text) and found not in files.values():
                broken.append(f"{name}: {found}")
    assert not broken


def test_index_lists_what_there_is_and_what_is_missing(tmp_path: Path) -> None:
    written(tmp_path, n0001=" Replaces: 0003.", n0003=" Replaced by: 0001.", n0004="")
    third = tmp_path / "0003-title.md"
    third.write_text(third.read_text().replace("Status: accepted", "Status: replaced"))
    text = decisions.rendered(tmp_path)
    assert "Not used: 0002." in text
    assert "| [0001](0001-title.md) | A title | accepted | 2026-11-25 | replaces 0003 |" in text
    assert "| [0003](0003-title.md) | A title | replaced | 2026-11-25 | replaced by 0001 |" in text


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("Status: accepted. Date: 2026-11-25.", "needs `Area"),
        ("Date: 2026-11-25. Area: router.", "needs `Status"),
        ("Status: accepted. Date: soon. Area: router.", "`Date: soon.`"),
        ("Status: done. Date: 2026-11-25. Area: router.", "`Status: done.`"),
        ("Status: accepted. Date: 2026-11-25. Area: router. Replaces: 0007.", "0007, which does not exist"),
        (
            "Status: accepted. Date: 2026-11-25. Area: router. Changes: 0002.",
            "0002-title.md: write `Changed by: 0001.`",
        ),
        ("Status: replaced. Date: 2026-11-25. Area: router.", "go together"),
        ("Status: accepted. Date: 2026-11-25. Area: router. More words.", "not of the form"),
        ("Situation", "not of the form"),
    ],
)
def test_a_header_that_is_not_well_formed_is_refused(tmp_path: Path, header: str, message: str) -> None:
    written(tmp_path, n0002="")
    (tmp_path / "0001-title.md").write_text(f"# 0001: A title\n\n{header}\n")
    with pytest.raises(decisions.RecordError) as error:
        decisions.records(tmp_path)
    assert message in str(error.value)


def test_a_number_belongs_to_one_record(tmp_path: Path) -> None:
    written(tmp_path, n0001="")
    (tmp_path / "0001-another.md").write_text(_GOOD.format(number="0001", more=""))
    with pytest.raises(decisions.RecordError, match="0001 is taken"):
        decisions.records(tmp_path)
