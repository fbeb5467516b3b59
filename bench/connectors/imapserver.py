"""A mailbox and the part of IMAP (RFC 3501, with LIST-STATUS of RFC 5819) that is asked of it, on loopback."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.connectors import lines

_WORDS = re.compile(rb'"((?:[^"\\]|\\.)*)"|(\S+)')


@dataclass
class Folder:
    """Numbers of mails by UID; `following` is the UID of the next one."""

    validity: int
    following: int = 1
    mails: dict[int, int] = field(default_factory=dict)

    def put(self, number: int) -> None:
        """Append a mail."""
        self.mails[self.following] = number
        self.following += 1


BAD = ("no", "nil", "absent", "empty", "hangup")
"""How a server fails at one mail: FETCH of its body is answered by NO; by NIL; by an answer without it; by no bytes; or
the connection ends. Its header, or for NO its ENVELOPE, is still given."""


class Box(lines.Server):
    """Folders of mails; `lists`: the server has LIST-STATUS. `bad` are mails that it does not give, each with the way
    how (`BAD`); `hidden` ones that SEARCH does not list, though they are counted."""

    scheme = "imap"

    def __init__(self, *, lists: bool) -> None:
        super().__init__()
        self.lists = lists
        self.bad: dict[int, str] = {}
        self.hidden: set[int] = set()
        self._validities = itertools.count(1)
        self.folders = {name: Folder(next(self._validities)) for name in ("INBOX", "Sent")}

    def present(self) -> set[int]:
        """Numbers of the mails that are in a folder."""
        return {number for folder in self.folders.values() for number in folder.mails.values()}

    def take(self, number: int, but: str = "") -> None:
        """Delete every copy that is not in folder `but`."""
        for name, folder in self.folders.items():
            if name != but:
                folder.mails = {uid: one for uid, one in folder.mails.items() if one != number}

    def renumber(self, name: str) -> None:
        """The folder is made anew: another UIDVALIDITY, other UIDs."""
        made = Folder(next(self._validities))
        for number in self.folders[name].mails.values():
            made.put(number)
        self.folders[name] = made

    def rename(self, name: str, to: str) -> None:
        """A client renames a folder: it keeps its UIDVALIDITY and its UIDs."""
        self.folders = {to if one == name else one: folder for one, folder in self.folders.items()}

    async def session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """See `lines.Server`."""
        await _Session(self, reader, writer).run()


class _Session:
    def __init__(self, box: Box, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._box, self._reader, self._writer = box, reader, writer
        self._name, self._validity = "", 0

    async def run(self) -> None:
        self._writer.write(b"* OK ready\r\n")
        while line := await self._reader.readline():
            tag, *words = [quoted or plain for quoted, plain in _WORDS.findall(line)]
            command = words.pop(0).upper()
            if command == b"UID":
                command = b"UID " + words.pop(0).upper()
            if self._box.meanwhile is not None:
                self._box.meanwhile()
            status = b" OK done\r\n"
            try:
                answer = self._answer(command, words)
            except _RefusedError:
                answer, status = b"", b" NO [SERVERBUG] it cannot be read\r\n"
            except ConnectionAbortedError:
                return
            match self._box.fault() if command not in (b"CAPABILITY", b"LOGOUT") else "":
                case "limit":
                    self._writer.write(tag + b" NO [LIMIT] not now\r\n")
                    continue
                case "away":
                    return
                case "broken":
                    self._writer.write(answer[: len(answer) // 2])
                    return
            open_ = self._box.folders.get(self._name)
            if self._name and (open_ is None or open_.validity != self._validity):
                self._writer.write(b"* BYE the folder is gone\r\n")
                return
            self._writer.write(answer + tag + status)
            if command == b"LOGOUT":
                return
            await self._writer.drain()

    def _answer(self, command: bytes, words: list[bytes]) -> bytes:
        box = self._box
        match command:
            case b"CAPABILITY":
                return b"* CAPABILITY IMAP4rev1%s\r\n" % (b" LIST-EXTENDED LIST-STATUS" if box.lists else b"")
            case b"LIST":
                lines = [b'* LIST (\\HasNoChildren) "/" "%s"\r\n' % name.encode() for name in box.folders]
                if len(words) > 2:
                    lines += [
                        b'* STATUS "%s" (UIDVALIDITY %d UIDNEXT %d MESSAGES %d)\r\n'
                        % (name.encode(), one.validity, one.following, len(one.mails))
                        for name, one in box.folders.items()
                    ]
                return b"".join(lines)
            case b"EXAMINE":
                if words[0].decode() not in box.folders:
                    raise _RefusedError
                self._name = words[0].decode()
                one = box.folders[self._name]
                self._validity = one.validity
                return b"* %d EXISTS\r\n* OK [UIDVALIDITY %d] v\r\n* OK [UIDNEXT %d] n\r\n" % (
                    len(one.mails),
                    one.validity,
                    one.following,
                )
            case b"UID SEARCH":
                shown = self._mails()
                listed = sorted(uid for uid, number in shown.items() if number not in box.hidden)
                for wanted in (_numbers(word, listed) for name, word in itertools.pairwise(words) if name == b"UID"):
                    listed = [uid for uid in listed if uid in wanted]
                return b"* SEARCH%s\r\n" % b"".join(b" %d" % uid for uid in listed)
            case b"UID FETCH" | b"FETCH":
                there = sorted(self._mails())
                if command == b"FETCH":
                    places = range(1, len(there) + 1)
                    wanted = {there[place - 1] for place in _numbers(words[0], places) if place in places}
                else:
                    wanted = _numbers(words[0], there)
                return self._fetched(wanted, b" ".join(words[1:]))
            case b"LOGOUT":
                return b"* BYE\r\n"
        return b""

    def _mails(self) -> dict[int, int]:
        folder = self._box.folders.get(self._name)
        return folder.mails if folder is not None else {}

    def _fetched(self, wanted: set[int], asked: bytes) -> bytes:
        answers = []
        for place, (uid, number) in enumerate(sorted(self._mails().items()), 1):
            if uid in wanted:
                raw, at = self._box.mails[number]
                how, fields = self._box.bad.get(number, ""), b""
                if b"HEADER" in asked:
                    if how == "no":
                        raise _RefusedError
                    head = raw[: raw.index(b"\r\n\r\n") + 4]
                    fields = b" BODY[HEADER] {%d}\r\n%s" % (len(head), head)
                elif b"ENVELOPE" in asked:
                    fields = b' ENVELOPE (NIL "%s" NIL NIL NIL NIL NIL NIL NIL NIL)' % _subject(raw)
                elif b"BODY" in asked:
                    if how == "hangup":
                        raise ConnectionAbortedError
                    if how == "no":
                        raise _RefusedError
                    if how == "absent":
                        continue
                    fields = {"nil": b" BODY[] NIL", "empty": b' BODY[] ""'}.get(
                        how, b" BODY[] {%d}\r\n%s" % (len(raw), raw)
                    )
                elif b"SIZE" in asked:
                    when = at.strftime("%d-%b-%Y %H:%M:%S %z").encode()
                    fields = b' RFC822.SIZE %d INTERNALDATE "%s"' % (len(raw), when)
                answers.append(b"* %d FETCH (UID %d%s)\r\n" % (place, uid, fields))
        return b"".join(answers)


class _RefusedError(Exception):
    """The command is answered by NO."""


def _subject(raw: bytes) -> bytes:
    return next((line[9:] for line in raw.splitlines() if line.startswith(b"Subject: ")), b"")


def _ends(word: bytes, listed: Sequence[int]) -> tuple[int, int]:
    """Of `n:*`, which always has the last mail, `n:m` or `n`."""
    first, _, last = word.partition(b":")
    highest = max(listed, default=0)
    if last == b"*":
        return min(int(first), highest), highest
    return int(first), int(last or first)


def _numbers(said: bytes, there: Sequence[int]) -> set[int]:
    found: set[int] = set()
    for part in said.split(b","):
        first, last = _ends(part, there)
        found |= set(range(first, last + 1))
    return found
