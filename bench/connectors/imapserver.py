"""A mailbox and the part of IMAP (RFC 3501, with LIST-STATUS of RFC 5819) that is asked of it, on loopback."""

from __future__ import annotations

import asyncio
import itertools
import re
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


class Box(lines.Server):
    """Folders of mails; `lists`: the server has LIST-STATUS."""

    scheme = "imap"

    def __init__(self, *, lists: bool) -> None:
        super().__init__()
        self.lists = lists
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
            answer = self._answer(command, words)
            match self._box.fault() if command not in (b"CAPABILITY", b"LOGOUT") else "":
                case "limit":
                    self._writer.write(tag + b" NO [LIMIT] not now\r\n")
                    continue
                case "away":
                    return
                case "broken":
                    self._writer.write(answer[: len(answer) // 2])
                    return
            if self._name and self._box.folders[self._name].validity != self._validity:
                self._writer.write(b"* BYE the folder is gone\r\n")
                return
            self._writer.write(answer + tag + b" OK done\r\n")
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
                self._name = words[0].decode()
                one = box.folders[self._name]
                self._validity = one.validity
                return b"* %d EXISTS\r\n* OK [UIDVALIDITY %d] v\r\n* OK [UIDNEXT %d] n\r\n" % (
                    len(one.mails),
                    one.validity,
                    one.following,
                )
            case b"UID SEARCH":
                first = int(words[1].partition(b":")[0])
                uids = sorted(box.folders[self._name].mails)
                # n:* has the last mail even where that is before n.
                return b"* SEARCH%s\r\n" % b"".join(b" %d" % uid for uid in uids if uid >= first or uid == uids[-1])
            case b"UID FETCH":
                return self._fetched(_numbers(words[0]), b"BODY" in b" ".join(words[1:]))
            case b"LOGOUT":
                return b"* BYE\r\n"
        return b""

    def _fetched(self, wanted: set[int], bodies: bool) -> bytes:
        found = []
        for place, (uid, number) in enumerate(sorted(self._box.folders[self._name].mails.items()), 1):
            if uid in wanted:
                raw, at = self._box.mails[number]
                said = (
                    b"BODY[] {%d}\r\n%s" % (len(raw), raw)
                    if bodies
                    else b'RFC822.SIZE %d INTERNALDATE "%s"' % (len(raw), at.strftime("%d-%b-%Y %H:%M:%S %z").encode())
                )
                found.append(b"* %d FETCH (UID %d %s)\r\n" % (place, uid, said))
        return b"".join(found)


def _numbers(said: bytes) -> set[int]:
    found: set[int] = set()
    for part in said.split(b","):
        first, _, last = part.partition(b":")
        found |= set(range(int(first), int(last or first) + 1))
    return found
