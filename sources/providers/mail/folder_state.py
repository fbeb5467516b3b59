"""Folders of a mailbox: which are read, which did not change, and the UIDs of these (RFC 3501 2.3.1.1)."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crds import connection

REMEMBERED = 4_000_000
"""UIDs of unchanged folders that a process keeps, four bytes each."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells whether the mails of a folder are the same ones; `next` is 0 where the server does not say."""

    validity: int
    next: int
    mails: int


class Lists:
    """The UIDs of folders as they were listed last, for as long as their marks stay; the longest unused are dropped."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most, self._count = most, 0
        self._found: OrderedDict[tuple[str, str], tuple[Mark, array[int]]] = OrderedDict()

    def get(self, of: tuple[str, str], mark: Mark | None) -> Sequence[int] | None:
        """None: the folder has to be searched."""
        kept = self._found.get(of)
        if kept is None or kept[0] != mark:
            return None
        self._found.move_to_end(of)
        return kept[1]

    def put(self, of: tuple[str, str], mark: Mark, uids: Sequence[int]) -> None:
        """`mark` is from before the search: what changed meanwhile has another one the next time."""
        if old := self._found.pop(of, None):
            self._count -= len(old[1])
        if mark.next:
            self._found[of] = mark, array("I", uids)
            self._count += len(uids)
        while self._count > self._most:
            self._count -= len(self._found.popitem(last=False)[1][1])


ALL = b"\\all"
# Special use (RFC 6154): copies of all mail, and mails that are no input.
_LEFT_OUT = frozenset({ALL, b"\\trash", b"\\junk", b"\\drafts", b"\\noselect", b"\\nonexistent"})
_FOLDER_CHARS = 200

Folders = Mapping[str, tuple[frozenset[bytes], Mark | None]]
"""By name: the flags, and the mark where the server states it."""


def behind(known: Sequence[int] | None, mark: Mark | None) -> int | None:
    """How many UIDs were given since the place that is known of a folder; None: it has to be asked."""
    if mark is None or not mark.next:
        return None
    last = known[1] if known is not None and known[0] == mark.validity else 0
    return max(0, mark.next - 1 - last)


def chosen(names: Folders, by: connection.Filter, labels: bool = False) -> tuple[list[str], list[str]]:
    """(folders to read, names of the filter that are no folder). INBOX has no case (RFC 3501 5.1). `labels`: the one of
    all mails stands for the others."""
    by_case = {cased(name): name for name in names}
    wanted, excluded = [cased(name) for name in by.include], {cased(name) for name in by.exclude}
    if wanted:
        there = [by_case[name] for name in wanted if name in by_case and name not in excluded]
        return list(dict.fromkeys(there)), [name for name in wanted if name not in by_case]
    everything = [name for name, (flags, _) in names.items() if labels and ALL in flags]
    if everything:
        return everything[:1], []
    return sorted(real for name, real in by_case.items() if name not in excluded and not names[real][0] & _LEFT_OUT), []


def cased(name: str) -> str:
    """A name of a folder as it is compared."""
    return "INBOX" if name.upper() == "INBOX" else name


def prefix(folder: str) -> str:
    """What the places of a folder begin with. The names of two long folders may begin alike."""
    if len(folder) <= _FOLDER_CHARS:
        return folder
    return f"{folder[:168]}{hashlib.sha256(folder.encode()).hexdigest()[:32]}"


def shown(places: Mapping[str, Sequence[int]]) -> str:
    """The places of a cursor, for people."""
    return "; ".join(f"{name}: UID {uid} of {validity}" for name, (validity, uid) in sorted(places.items()))
