"""The pages: their links lead somewhere, and their words are those of the field."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    if not name.startswith(("changelog.d/", "tests/"))
]

# What a reader does not search for, beside what he does.
WORDS = {
    r"nobody|somebody|everybody|whoever": "the subject: a user, a caller, a client",
    r"mend(s|ed|ing)?": "fix, repair",
    r"told|heard|is heard": "reported, received",
    r"doors?": "client, API",
    r"worked off": "processed",
    r"by (letter|meaning)": "keyword search, vector search",
    r"tickets? of (the|a) (reader|history|archive)": "short-lived token",
    r"(and|or) the like": "such as",
    r"at leisure": "write delay",
}


def prose(text: str) -> str:
    """The page without code and targets of links: names of files and fields stay as they are."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def anchors(page: Path) -> set[str]:
    """The names that headings get on the hosting platforms: lower case, hyphens for spaces, no punctuation."""
    headings = re.findall(r"^#+ +(.+?)\s*$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, heading = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists() or (heading and heading not in anchors(there)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_words_are_those_of_the_field(page: Path) -> None:
    text = prose(page.read_text())
    found = [
        f"{match.group(0)!r}: write {better}"
        for words, better in WORDS.items()
        for match in re.finditer(rf"\b({words})\b", text, flags=re.IGNORECASE)
    ]
    assert not found


def test_the_index_leads_to_every_page_and_the_readme_to_the_index() -> None:
    """The README stays short: 120 lines, with the way to the rest."""
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages - set(re.findall(r"\]\(([^)\s#]+)\)", index)) == set()
    readme = (ROOT / "README.md").read_text()
    assert "(docs/README.md)" in readme
    assert readme.count("\n") <= 120
