"""A maildrop and the part of POP3 (RFC 1939, with RESP-CODES of RFC 2449 and SYS/TEMP of RFC 3206) that is asked of
it, on loopback."""

from __future__ import annotations

import asyncio
import itertools

from bench.connectors import lines

BAD = ("err", "empty", "hangup")
"""How a server fails at one mail: RETR is answered by -ERR; by no line; or the connection ends. TOP gives its header
all the same."""


class Drop(lines.Server):
    """`names` has the numbers of mails by the name that UIDL gives. `locks`: a second session is refused while one is
    open, as RFC 1939 has it; many servers let it in. A session shows the maildrop as it was at its login. `bad` are
    mails that it does not give, each with the way how (`BAD`); `hidden` ones that UIDL does not list, though they are
    counted."""

    scheme = "pop3"

    def __init__(self, *, locks: bool) -> None:
        super().__init__()
        self._locks, self._open = locks, 0
        self._names = itertools.count(1)
        self.names: dict[str, int] = {}
        self.bad: dict[int, str] = {}
        self.hidden: set[int] = set()

    def put(self, number: int) -> None:
        """Deliver a mail."""
        self.names[f"n{next(self._names)}"] = number

    def present(self) -> set[int]:
        """Numbers of the mails that are there."""
        return set(self.names.values())

    def take(self, number: int) -> None:
        """Delete every copy."""
        self.names = {name: one for name, one in self.names.items() if one != number}

    def order(self, numbers: list[int]) -> None:
        """The server lists its mails in another order; all keep their names."""
        self.names = dict(sorted(self.names.items(), key=lambda one: (numbers.index(one[1]), one[0])))

    def rename(self) -> None:
        """The maildrop has moved to another server: other names."""
        before, self.names = list(self.names.values()), {}
        for number in before:
            self.put(number)

    async def session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """See `lines.Server`."""
        writer.write(b"+OK ready\r\n")
        shown: list[tuple[str, int]] | None = None
        try:
            while line := await reader.readline():
                command, *words = line.decode().split()
                if self.meanwhile is not None:
                    self.meanwhile()
                fault = self.fault() if command != "QUIT" else ""
                if fault == "away":
                    return
                if fault == "limit":
                    writer.write(b"-ERR [SYS/TEMP] not now\r\n")
                    continue
                if command == "PASS" and shown is None:
                    if self._locks and self._open:
                        writer.write(b"-ERR [IN-USE] another session is open\r\n")
                        continue
                    self._open += 1
                    shown = list(self.names.items())
                if command == "RETR" and self.bad.get((shown or [])[int(words[0]) - 1][1]) == "hangup":
                    return
                answer = self._answer(command, words, shown or [])
                if fault == "broken":
                    writer.write(answer[: len(answer) // 2])
                    return
                writer.write(answer)
                if command == "QUIT":
                    return
                await writer.drain()
        finally:
            self._open -= shown is not None

    def _answer(self, command: str, words: list[str], shown: list[tuple[str, int]]) -> bytes:
        sizes = [len(self.mails[number][0]) for _, number in shown]
        match command:
            case "CAPA":
                return _several(["UIDL", "RESP-CODES", "USER"])
            case "STAT":
                return f"+OK {len(shown)} {sum(sizes)}\r\n".encode()
            case "UIDL":
                listed = [(place, name) for place, (name, number) in enumerate(shown, 1) if number not in self.hidden]
                return _several([f"{place} {name}" for place, name in listed])
            case "LIST":
                return _several([f"{place} {size}" for place, size in enumerate(sizes, 1)])
            case "RETR":
                name, number = shown[int(words[0]) - 1]
                if name not in self.names:
                    return b"-ERR it was deleted\r\n"
                if how := self.bad.get(number):
                    return b"-ERR it cannot be read\r\n" if how == "err" else b"+OK\r\n.\r\n"
                return b"+OK\r\n%s.\r\n" % self.mails[number][0]
            case "TOP":
                raw = self.mails[shown[int(words[0]) - 1][1]][0]
                return b"+OK\r\n%s.\r\n" % raw[: raw.index(b"\r\n\r\n") + 2]
        return b"+OK\r\n"


def _several(found: list[str]) -> bytes:
    return "".join(f"{line}\r\n" for line in ("+OK", *found, ".")).encode()
