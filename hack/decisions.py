"""`python -m hack.decisions` writes the index of docs/decisions from the records' headers; `--check` compares only.

A record is `NNNN-title.md`. Its first line is `# NNNN: Title`, its third the header: fields `Name: value.` on one line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "decisions"
INDEX = "README.md"
AREAS = (
    "custom resources and admission",
    "operator",
    "runs",
    "connections",
    "router",
    "knowledge base: ingest and stores",
    "knowledge base: retrieval",
    "code graph",
    "command line",
    "chart",
    "development",
)
INVERSE = {"Replaces": "Replaced by", "Changes": "Changed by"}
"""A relation, and what the other record says of it. One that is replaced in part is changed."""
_REQUIRED = ("Status", "Date", "Area")
_VALUES = {
    "Status": r"proposed|accepted|replaced",
    "Date": r"\d{4}-\d\d-\d\d",
    "Area": "|".join(AREAS),
    **dict.fromkeys([*INVERSE, *INVERSE.values()], r"\d{4}(, \d{4})*"),
}


class RecordError(ValueError):
    """A record that the index cannot take; the message names the file and what to write."""


@dataclass(frozen=True)
class Record:
    """One decision."""

    name: str
    title: str
    fields: Mapping[str, str]

    @property
    def number(self) -> str:
        """Four digits."""
        return self.name[:4]

    def related(self, relation: str) -> list[str]:
        """The numbers behind a relation such as `Replaces`."""
        return self.fields[relation].split(", ") if relation in self.fields else []


def records(folder: Path = FOLDER) -> list[Record]:
    """All records by number, without the template 0000. Raises RecordError for the first that is not well formed."""
    found = [_parsed(path) for path in sorted(folder.glob("[0-9]*.md")) if not path.name.startswith("0000")]
    by_number = {record.number: record for record in found}
    for record in found:
        if by_number[record.number] is not record:
            raise RecordError(f"{record.name}: the number {record.number} is taken by {by_number[record.number].name}")
        for relation, inverse in [*INVERSE.items(), *((there, back) for back, there in INVERSE.items())]:
            for number in record.related(relation):
                if number not in by_number:
                    raise RecordError(f"{record.name}: {relation}: {number}, which does not exist")
                if record.number not in by_number[number].related(inverse):
                    raise RecordError(f"{by_number[number].name}: write `{inverse}: {record.number}.` in its header")
        if (record.fields["Status"] == "replaced") != bool(record.related("Replaced by")):
            raise RecordError(f"{record.name}: `Status: replaced.` and `Replaced by: NNNN.` go together")
    return found


def rendered(folder: Path = FOLDER) -> str:
    """The index: one table per area, and the numbers that were never used. Raises RecordError."""
    found = records(folder)
    known = {int(record.number) for record in found}
    unused = [f"{number:04}" for number in range(1, max(known) + 1) if number not in known]
    lines = [
        "# Decisions",
        "",
        "Written by `python -m hack.decisions` from the headers of the records; do not edit.",
        "A new record starts from [0000-template.md](0000-template.md). A decision that no longer holds keeps its",
        "text, and its header names the record that replaced or changed it.",
        "",
        f"Not used: {', '.join(unused)}." if unused else "Every number is used.",
    ]
    for area in AREAS:
        rows = [_row(record) for record in found if record.fields["Area"] == area]
        if rows:
            lines += ["", f"## {area[0].upper()}{area[1:]}", "", "| number | title | status | date | relations |"]
            lines += ["| --- | --- | --- | --- | --- |", *rows]
    return "\n".join(lines) + "\n"


def main(arguments: list[str], say: Callable[[str], object] = sys.stderr.write) -> int:
    """Exit status: 0 the index is (now) right, 1 it is not or a record is not well formed, 2 usage."""
    if arguments not in ([], ["--check"]):
        say("usage: python -m hack.decisions [--check]\n")
        return 2
    try:
        text = rendered()
    except RecordError as error:
        say(f"error: {error}\n")
        return 1
    if not arguments:
        (FOLDER / INDEX).write_text(text, encoding="utf-8")
    elif (FOLDER / INDEX).read_text(encoding="utf-8") != text:
        say("docs/decisions/README.md is out of date: python -m hack.decisions\n")
        return 1
    return 0


def _parsed(path: Path) -> Record:
    lines = path.read_text(encoding="utf-8").splitlines()
    number = path.name[:4]
    title = re.fullmatch(rf"# {number}: (\S.*)", lines[0])
    if title is None or len(lines) < 3:
        raise RecordError(f"{path.name}: the first line must be `# {number}: Title`, the third its header")
    fields = dict(re.findall(r"([A-Z][a-z ]+): ((?:[^.]|\.(?! |$))+)\.(?= |$)", lines[2]))
    if " ".join(f"{name}: {value}." for name, value in fields.items()) != lines[2]:
        raise RecordError(f"{path.name}: the third line is not of the form `Name: value. Name: value.`: {lines[2]}")
    for name in _REQUIRED:
        if name not in fields:
            raise RecordError(f"{path.name}: the header needs `{name}: ({_VALUES[name]}).`")
    for name, value in fields.items():
        if re.fullmatch(_VALUES.get(name, "(?!)"), value) is None:
            raise RecordError(f"{path.name}: `{name}: {value}.` must be one of {_VALUES.get(name, ', '.join(_VALUES))}")
    return Record(path.name, title[1], fields)


def _row(record: Record) -> str:
    relations = "; ".join(
        f"{relation.lower()} {', '.join(record.related(relation))}"
        for relation in ("Replaces", "Replaced by", "Changes", "Changed by")
        if record.related(relation)
    )
    cells = (f"[{record.number}]({record.name})", record.title, record.fields["Status"], record.fields["Date"])
    return f"| {' | '.join(cells)} | {relations} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
