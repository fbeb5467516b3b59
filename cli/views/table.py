"""Tables as kubectl draws them: no frame, upper-case headings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import table, text

from text import printable

Row = Sequence[str]

# A sentence is not folded narrower than this.
_READABLE = 30


def plain(headings: Sequence[str], rows: Iterable[Row], *, indent: int = 0) -> table.Table:
    """One line per row; an empty cell is `-`. Where it is narrow, sentences are folded and words are not."""
    drawn = table.Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_edge=False, header_style="bold")
    cells = [[printable.line(cell) or "-" for cell in row] for row in rows]
    for number, heading in enumerate(headings):
        column = [row[number] for row in cells]
        sentences = any(" " in cell for cell in column)
        longest = max(map(len, column), default=0)
        name = " " * (indent if number == 0 else 0) + heading
        drawn.add_column(name, no_wrap=not sentences, min_width=min(longest, _READABLE) if sentences else None)
    for row in cells:
        drawn.add_row(*(text.Text(" " * (indent if number == 0 else 0) + cell) for number, cell in enumerate(row)))
    return drawn
