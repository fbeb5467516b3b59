"""Which folders of a mailbox have the same mails as before, and the UIDs of these (RFC 3501 2.3.1.1)."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

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
