"""The mails of one folder: which ones are there, and the bytes of each, where a server answers wrongly as well.

A list is complete when it has as many mails as the server counts; one that has fewer moves no cursor and deletes
nothing. A mail that the server does not give in a batch is asked for by itself. What it does not give then either
although it still lists it is a failure with its subject; it is tried again (`sources.core.items`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sources.core import limits, port
from sources.providers.mail import mails
from sources.providers.mail.folder_state import Mark
from sources.providers.mail.imap_session import Session

SIZES = 1000
"""Mails whose sizes are asked for at once."""
_LOOKS = 3
"""At a list that is shorter than what is counted: it may have changed in between."""
_ASKED = 200
"""UIDs that one command names: a line has at most 8,000 bytes (RFC 7162 4)."""
_MOST_SPLITS = 20
"""Of a batch whose sizes the server does not tell; the others are fetched without."""


class Declined(port.Unreachable):
    """The server refuses one command or answers nonsense to it; it may answer the next one."""


class Hangup(port.Unreachable):
    """The connection is lost."""


Call = Callable[..., Awaitable[Any]]
"""`call(session.step, ...)`: in a thread, when the rate limit lets it go. Raises `Declined`, `Hangup`."""


@dataclass(frozen=True, slots=True)
class Listed:
    """UIDs in order. Not `complete`: the server counts more mails than it lists."""

    uids: Sequence[int]
    complete: bool


class Folder:
    """A folder while it is selected. `prefix` is what its places begin with; `criteria` of RFC 3501 6.4.4, each of one
    mail, say which mails are read."""

    def __init__(
        self, call: Call, session: Session, name: str, mark: Mark, prefix: str, criteria: Sequence[str] = ()
    ) -> None:
        self._call, self._session, self.name, self.mark = call, session, name, mark
        self._prefix, self._criteria = prefix, tuple(criteria)

    def place(self, uid: int) -> str:
        """Where a mail is."""
        return f"{self._prefix}/{self.mark.validity}/{uid}"

    async def listed(self, last: int) -> Listed:
        """Its mails behind the UID `last`."""
        uids: Sequence[int] = ()
        for look in range(_LOOKS):
            if look:
                await self._again()
            # A search reads an index, which may be behind; the last look is at the mails themselves.
            numbered = look == _LOOKS - 1
            asked = self._session.numbered if numbered else self._session.search
            try:
                everything: list[int] = await self._call(asked, last)
            except Declined:
                if numbered:
                    raise
                continue
            uids = await self._admitted(last, everything)
            if await self._counts(last, len(everything)):
                return Listed(uids, complete=True)
        return Listed(uids, complete=False)

    async def there(self, uids: Sequence[int]) -> list[int]:
        """Those of these mails that are there and to be read, in order."""
        admitted = list[int]()
        for start in range(0, len(uids), _ASKED):
            some = sorted(uids)[start : start + _ASKED]
            there = await self._known(some)
            for criterion in self._criteria if there else ():
                named = ("UID", ",".join(map(str, some)), "NOT", criterion)
                there -= set(await self._call(self._session.search, 0, named))
            admitted += sorted(there)
        return admitted

    async def _known(self, uids: Sequence[int]) -> set[int]:
        """Those that the server still lists, by its search or by themselves: an index may lack what is there, and an
        answer may lack what is broken."""
        named = ",".join(map(str, uids))
        searched: set[int] = set(await self._call(self._session.search, 0, ("UID", named)))
        if searched >= set(uids):
            return searched
        return searched | set(await self._call(self._session.named, named))

    async def _admitted(self, last: int, everything: list[int]) -> Sequence[int]:
        """Without those of which the server says that a criterion does not hold; what it does not judge is read."""
        left_out = set[int]()
        for criterion in self._criteria if everything else ():
            left_out.update(await self._call(self._session.search, last, ("NOT", criterion)))
        return [uid for uid in everything if uid not in left_out]

    async def _counts(self, last: int, count: int) -> bool:
        """Whether `count` mails behind `last` are all: the mail before them has a UID up to `last`."""
        before = self.mark.mails - count
        if not last or before <= 0:
            return before <= 0
        uid = await self._call(self._session.uid_at, before)
        return uid is not None and uid <= last

    async def _again(self) -> None:
        """Select it once more. Raises `port.Unreachable` where it is not the same any more."""
        mark: Mark | None = await self._call(self._session.select, self.name)
        if mark is None or mark.validity != self.mark.validity:
            raise port.Unreachable(f"The folder {self.name!r} was made anew while it was read.")
        self.mark = mark

    async def read(
        self, uids: Sequence[int], budget: limits.Budget
    ) -> AsyncGenerator[tuple[Sequence[mails.Fetched], int]]:
        """Portions of these mails in order, each with the UID behind which the next one begins."""
        # A poll is cut long before the end of a large folder: the sizes of what it does not reach are not asked for.
        for start in range(0, len(uids), SIZES):
            some = uids[start : start + SIZES]
            sizes = await self._sizes(some)
            heads = [mails.Head(uid, size, self.place(uid), at) for uid, (size, at) in sizes.items()]
            for portion in mails.portions(heads):
                async with budget.hold(mails.weight(portion)):
                    yield await self._portion(portion, uids), portion[-1].number

    async def _sizes(self, uids: Sequence[int]) -> dict[int, tuple[int, datetime | None]]:
        """Of all of these, (0, None) where the server does not say."""
        told: dict[int, tuple[int, datetime | None]] = {}
        left, splits = [list(uids)], 0
        while left:
            some = left.pop()
            try:
                told |= await self._call(self._session.heads, some)
            except Declined:
                splits += 1
                half = len(some) // 2
                left += [some[half:], some[:half]] if half and splits <= _MOST_SPLITS else []
        return {uid: told.get(uid, (0, None)) for uid in uids}

    async def _portion(self, heads: Sequence[mails.Head], uids: Sequence[int]) -> list[mails.Fetched]:
        """Raises `Declined` where the server gives none of many mails, nor another one beside them."""
        wanted = [head.number for head in heads if head.size <= mails.LARGEST]
        whole = {head.number for head in heads if 0 < head.size <= mails.LARGEST}
        try:
            bodies = await self._call(self._session.bodies, [uid for uid in wanted if uid in whole]) if whole else {}
        except Declined:
            bodies = {}
        except Hangup:
            await self._reopened()
            bodies = {}
        fetched, hangups, reason = list[mails.Fetched](), 0, ""
        for head in heads:
            answer: mails.Fetched | None
            if head.number in bodies:
                answer = mails.Fetched(head, bodies.pop(head.number))
            elif why := mails.too_large(head):
                answer = mails.Fetched(head, reason=why, title=await self._title(head.number))
            else:
                try:
                    answer = await self._single(head)
                except Hangup as error:
                    hangups += 1
                    if hangups > mails.MOST_BAD:
                        raise
                    await self._reopened()
                    answer = await self._missing(head, error.message)
                else:
                    hangups = 0
            if answer is not None:
                reason = reason or answer.reason
                fetched.append(answer)
        bad = sum(answer.raw is None and answer.head.number in wanted for answer in fetched)
        if bad > mails.MOST_BAD and bad == len(fetched) and not await self._answers(heads, uids):
            raise Declined(f"The folder {self.name!r} gives none of its mails: {reason}")
        return fetched

    async def _single(self, head: mails.Head) -> mails.Fetched | None:
        """One mail by itself; None where it was deleted meanwhile."""
        reason = "The server answers without the mail."
        try:
            # A mail whose size is not known may be of any.
            most = 0 if head.size else mails.LARGEST + 1
            raw = (await self._call(self._session.bodies, [head.number], most)).get(head.number)
            if raw is not None and len(raw) <= mails.LARGEST:
                return mails.Fetched(head, raw)
            if raw is not None:
                reason = f"The mail has more than {mails.LARGEST} bytes."
        except Declined as error:
            reason = error.message
        return await self._missing(head, reason)

    async def _missing(self, head: mails.Head, reason: str) -> mails.Fetched | None:
        """A mail that the server does not give: a failure if it still lists it."""
        if head.number not in await self._known([head.number]):
            return None
        return mails.Fetched(head, reason=reason, title=await self._title(head.number))

    async def _title(self, uid: int) -> str:
        """Of the header, or as the server has read it before."""
        for asked in (self._session.header, self._session.subject):
            try:
                if title := mails.title(await self._call(asked, uid)):
                    return title
            except Declined:
                continue
            except Hangup:
                await self._reopened()
        return ""

    async def _answers(self, heads: Sequence[mails.Head], uids: Sequence[int]) -> bool:
        """Whether the server gives the last mail of the folder that is not one of these, or the one before them."""
        asked = {head.number for head in heads}
        before = await self._call(self._session.search, 0, ("UID", f"1:{max(heads[0].number - 1, 1)}"))
        for uid in [*[uid for uid in uids[-1:] if uid not in asked], *[uid for uid in before[-1:] if uid not in asked]]:
            try:
                if await self._call(self._session.bodies, [uid], 1):
                    return True
            except Declined:
                continue
        return False

    async def _reopened(self) -> None:
        await self._call(self._session.reopen)
        await self._again()
