"""Which page of its file a passage stands on. Pure.

`Starts` are pairs (offset, page) in the order of their offsets: from `offset` on, counted in characters, a text stands
on that page, until the next pair. Page 0 is none: what follows is no text of a page. Where there are no pairs, no
page is known.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Sequence

Starts = tuple[tuple[int, int], ...]
METADATA = "jervisPages"
"""Name among the metadata of a chunk under which its pages are kept; no sender may use it."""
MOST = 10_000
"""Pages of a file whose places are known; what stands on those behind them has no page."""
_BREAK = "\f"


def of(pairs: Iterable[Sequence[int]]) -> Starts:
    """The pairs in order: the last one of each offset, and none that says what the one before it says. A text that
    begins on no page has the pair (0, 0) where a page follows."""
    found = sorted(({0: 0} | {int(offset): int(page) for offset, page in pairs}).items())
    kept = found[:1]
    for offset, page in found[1:]:
        if kept[-1][1] != page:
            kept.append((offset, page))
    if kept == [(0, 0)]:
        return ()
    return (*kept[:MOST], (kept[MOST][0], 0)) if len(kept) > MOST else tuple(kept)


def within(starts: Starts, begin: int, end: int) -> Starts:
    """Those of the characters from `begin` to before `end`, with offsets from `begin`."""
    first = max(bisect.bisect_right(starts, begin, key=_offset) - 1, 0)
    last = bisect.bisect_left(starts, end, key=_offset)
    return of((max(offset - begin, 0), page) for offset, page in starts[first:last])


def carried(text: str, starts: Starts, change: Callable[[str], str]) -> tuple[str, Starts]:
    """What `change` makes of a text that has no form feed, and where its pages begin then. `change` keeps white space
    and the order of the text; what it adds behind the text has no page."""
    if not starts:
        return change(text), ()
    cuts = [0, *(offset for offset, _ in starts), len(text)]
    said = change(_BREAK.join(text[one:other] for one, other in itertools.pairwise(cuts)) + _BREAK)
    pieces = said.split(_BREAK)
    ends = itertools.accumulate(len(one) for one in pieces)
    pages = [page for _, page in starts]
    return "".join(pieces), of(zip(ends, [*pages, 0], strict=False))


def _offset(one: tuple[int, int]) -> int:
    return one[0]
