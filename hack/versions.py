"""`python -m hack.versions`: which versions of docs/dependencies.md are past their end of life, or soon will be.

The page is the only place of the dates. A table with the columns `what`, `version` and `end of life` is read. The last
one begins with a date (`2027-02-10`, or `2027-10` for the end of that month), with `ended` where the maker says so
without a date, or with `no date`. That the versions are those of the code is checked by tests/repository.
"""

from __future__ import annotations

import argparse
import calendar
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "dependencies.md"
COLUMNS = ("what", "version", "end of life")
SOON = 90
"""Days before the end of life from which it is reported."""


class PageError(ValueError):
    """A table that cannot be read; the message names the row."""


@dataclass(frozen=True)
class Version:
    """One row. `ends` is None without a date, date.min for one that has ended on an unknown day."""

    what: str
    version: str
    ends: date | None

    def past(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.ends is not None and self.ends < today

    def finding(self, today: date, days: int = SOON) -> str | None:
        """One line if it is past its end of life, or within `days` of it."""
        name = f"{self.what} {self.version}"
        if self.ends is None or self.ends > today + timedelta(days=days):
            return None
        if self.ends == date.min:
            return f"past its end of life: {name}"
        apart = abs((self.ends - today).days)
        if self.past(today):
            return f"past its end of life: {name}, since {self.ends} ({apart} days)"
        return f"near its end of life: {name}, on {self.ends} (in {apart} days)"


def tables(text: str) -> Iterator[list[dict[str, str]]]:
    """Each table of a page: its rows as {heading: cell}, without the backquotes of a cell."""
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        cells = [[cell.strip().replace("`", "") for cell in line.split("|")[1:-1]] for line in block.splitlines()]
        head, _, *rows = cells
        yield [dict(zip(head, row, strict=True)) for row in rows]


def listed(text: str) -> list[Version]:
    """All versions with an end of life on the page. Raises PageError for a cell that is none of its forms."""
    return [_version(row) for rows in tables(text) for row in rows if set(COLUMNS) <= row.keys()]


def findings(text: str, today: date, days: int = SOON) -> list[str]:
    """One line for each version that is past its end of life or within `days` of it. Raises PageError."""
    return [line for version in listed(text) if (line := version.finding(today, days))]


def main(arguments: list[str], today: date, page: Path = PAGE, say: Callable[[str], object] = print) -> int:
    """Exit status: 0 none is past its end of life, 1 one is, or the page cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m hack.versions", description=__doc__.splitlines()[0])
    parser.add_argument("--today", type=date.fromisoformat, default=today, help="instead of the present day")
    parser.add_argument("--days", type=int, default=SOON, help="report an end of life that is as near [default: 90]")
    parsed = parser.parse_args(arguments)
    text = page.read_text(encoding="utf-8")
    try:
        for line in findings(text, parsed.today, parsed.days):
            say(line)
        return 1 if any(version.past(parsed.today) for version in listed(text)) else 0
    except PageError as error:
        say(f"error: {error}")
        return 1


def _version(row: dict[str, str]) -> Version:
    what, version, end = (row[column] for column in COLUMNS)
    if found := re.match(r"(\d{4})-(\d\d)(?:-(\d\d))?(?![\w-])", end):
        year, month = int(found[1]), int(found[2])
        return Version(what, version, date(year, month, int(found[3] or calendar.monthrange(year, month)[1])))
    if re.match(r"ended\b", end):
        return Version(what, version, date.min)
    if re.match(r"no date\b", end):
        return Version(what, version, None)
    raise PageError(f"{PAGE.name}, {what}: `{end}` begins with neither a date nor `ended` nor `no date`")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], date.today()))
