"""The register of counterparts in docs/testing.md names every stand-in of ours, and what is real beside it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def rows() -> list[list[str]]:
    text = (ROOT / "docs/testing.md").read_text().partition("## Counterparts\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_each_stand_in_is_in_the_register() -> None:
    text = "\n".join(row[2] for row in rows())
    for path in sorted((ROOT / "tests/fakes").iterdir()):
        if path.name.startswith("__"):
            continue
        name = str(path.relative_to(ROOT))
        assert f"`{name}`" in text, f"docs/testing.md, Counterparts: name {name} and what it stands in for"


def test_what_the_register_names_is_there() -> None:
    for thing, _, stand_in, compared in rows():
        for part in (stand_in, compared):
            for name in part.split("`")[1::2]:
                assert not name.startswith(("tests/", "bench/", "hack/")) or (ROOT / name).exists(), f"{thing}: {name}"


def test_what_only_a_stand_in_is_met_of_is_in_the_readme() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    for thing, real, _, _ in rows():
        for name in thing.partition(" (")[0].split(", ") if real.startswith("none") else ():
            assert name in readme, f"README.md, what is not there: {name}"
