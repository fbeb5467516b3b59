"""A mailbox behind IMAP and one behind POP3: mails come, move, are copied and deleted; names are made anew, single
mails are not given, and lists are short for a while."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from bench.connectors import imapserver, knowledge, pop3server, site
from bench.connectors.imapserver import Box
from bench.connectors.pop3server import Drop
from crds import connection
from sources.core import assignments, port
from sources.providers.mail import mailboxes, mails


class _Mails(site.Site):
    type = connection.Type.EMAIL

    def __init__(self, seed: int, box: Box | Drop) -> None:
        super().__init__(seed)
        self._served, self._planned = box, site.Planned()
        box.fault, box.meanwhile = self._planned.next, lambda: self.meanwhile and self.meanwhile()
        self._now = site.START
        self._items: dict[int, port.Item] = {}

    @property
    def now(self) -> datetime:
        """See `Site`."""
        return self._now

    def tick(self, much: timedelta) -> None:
        """See `Site`."""
        self._now += much

    @property
    def url(self) -> str:
        """See `Site`."""
        return self._served.url

    def serving(self) -> contextlib.AbstractAsyncContextManager[Any]:
        """See `Site`."""
        return self._served.serving()

    def live(self) -> dict[str, frozenset[str]]:
        """See `Site`."""
        return {self._items[number].urn: frozenset({knowledge.token(number)}) for number in self._served.present()}

    def _new(self, number: int, dice: random.Random) -> None:
        """Every third one has no Message-ID."""
        said = knowledge.token(number)
        named = "" if dice.random() < 1 / 3 else f"Message-ID: <m{number}@acme.example>\r\n"
        head = f"From: ada@acme.example\r\n{named}Subject: Mail {said}\r\n"
        raw = f"{head}\r\nText {said}\r\n".encode()
        self._served.mails[number] = raw, self._now
        self._items[number] = mails.item(hashlib.sha256(raw).hexdigest(), raw, self._now)

    @property
    def unreadable(self) -> Mapping[str, str]:
        """See `Site`."""
        some = self._served.bad.keys() & self._served.present()
        return {self._items[number].urn: self._items[number].title for number in some}

    def _trouble(self, what: str, dice: random.Random, ways: Sequence[str]) -> None:
        """One of the mails that are there, or some of them."""
        served, there = self._served, sorted(self._served.present())
        if what == "unreadable" and there:
            served.bad[dice.choice(there)] = dice.choice(ways)
        elif what == "readable":
            self.heal(dice)
        elif what == "short":
            served.hidden = {number for number in there if dice.random() < 0.3}
        elif what == "whole":
            served.hidden = set()

    def heal(self, dice: random.Random) -> None:
        """See `Site`."""
        self._served.hidden = set()
        self._served.bad = {number: how for number, how in sorted(self._served.bad.items()) if dice.random() < 0.5}

    def _known(self) -> tuple[list[int], list[int]]:
        """The mails that are there, and those that were."""
        there = self._served.present()
        return sorted(there), sorted(self._served.mails.keys() - there)

    def faults(self, fault: tuple[int, str] | None) -> None:
        """See `Site`."""
        self._planned.set(fault)

    def fault(self) -> str:
        """See `Site`."""
        if self.meanwhile is not None:
            self.meanwhile()
        return self._planned.next()

    def opens(self, assigned: assignments.Assignments) -> Callable[[assignments.Claim], port.Source]:
        """See `Site`."""
        makes = mailboxes.opened(True, site.tls(), lambda: 0.0)
        return lambda claim: makes(claim.spec, {"username": "u", "password": "p"}, self.bucket)


class Mailbox(_Mails):
    """By IMAP. Every second one has LIST-STATUS."""

    def __init__(self, seed: int) -> None:
        self.box = Box(lists=seed % 2 == 0)
        super().__init__(seed, self.box)

    def rows(self) -> list[site.Row]:
        """In every folder in the order of its sequence numbers."""
        return [
            site.Row(self._items[number], self.box.mails[number][1], f"{name}/{folder.validity}/{uid}")
            for name, folder in self.box.folders.items()
            for uid, number in sorted(folder.mails.items())
        ]

    def change(self, dice: random.Random, number: int) -> None:
        """See `Site`."""
        self._now += timedelta(seconds=dice.randint(0, 30))
        box, (there, away) = self.box, self._known()
        kinds = ("new", "new", "new", "move", "move", "copy", "delete", "back", "anew", "rename", *site.TROUBLES)
        what = dice.choice(kinds)
        folder = dice.choice(sorted(box.folders))
        if what == "new" or not there:
            self._new(number, dice)
            box.folders[folder].put(number)
        elif what == "move":
            one = dice.choice(there)
            box.folders[folder].put(one)
            box.take(one, but=folder)
        elif what == "copy":
            box.folders[folder].put(dice.choice(there))
        elif what == "delete":
            box.take(dice.choice(there))
        elif what == "back" and away:
            box.folders[folder].put(dice.choice(away))
        elif what == "anew":
            box.renumber(folder)
        elif what == "rename":
            other = next(name for name in box.folders if name != "INBOX")
            box.rename(other, f"Folder{number}")
        else:
            self._trouble(what, dice, imapserver.BAD)


class Maildrop(_Mails):
    """By POP3. Every second one is locked by a session."""

    def __init__(self, seed: int) -> None:
        self.drop = Drop(locks=seed % 2 == 0)
        super().__init__(seed, self.drop)

    def rows(self) -> list[site.Row]:
        """In the order in which the server lists them."""
        return [
            site.Row(self._items[number], self.drop.mails[number][1], f"pop3/{name}")
            for name, number in self.drop.names.items()
        ]

    def change(self, dice: random.Random, number: int) -> None:
        """See `Site`."""
        self._now += timedelta(seconds=dice.randint(0, 30))
        drop, (there, away) = self.drop, self._known()
        kinds = ("new", "new", "new", "copy", "delete", "delete", "back", "order", "rename", *site.TROUBLES)
        what = dice.choice(kinds)
        if what == "new" or not there:
            self._new(number, dice)
            drop.put(number)
        elif what == "copy":
            drop.put(dice.choice(there))
        elif what == "delete":
            drop.take(dice.choice(there))
        elif what == "back" and away:
            drop.put(dice.choice(away))
        elif what == "order":
            dice.shuffle(there)
            drop.order(there)
        elif what == "rename":
            drop.rename()
        else:
            self._trouble(what, dice, pop3server.BAD)
