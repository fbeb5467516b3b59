"""A mailbox behind IMAP: mails come, move, are copied and deleted; folders are made anew."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from bench.connectors import knowledge, site
from bench.connectors.imapserver import Box
from controllers.sources import assignments, port
from controllers.sources.protocols import mailboxes, mails
from crds import authorities, connection


class Mailbox(site.Site):
    """Every second one has LIST-STATUS."""

    type = connection.Type.EMAIL

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.box, self._planned = Box(lists=seed % 2 == 0), site.Planned()
        self.box.fault, self.box.meanwhile = self._planned.next, lambda: self.meanwhile and self.meanwhile()
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
        return self.box.url

    def serving(self) -> contextlib.AbstractAsyncContextManager[Any]:
        """See `Site`."""
        return self.box.serving()

    def live(self) -> dict[str, frozenset[str]]:
        """See `Site`."""
        return {self._items[number].urn: frozenset({knowledge.token(number)}) for number in self.box.present()}

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
        box = self.box
        there, away = sorted(box.present()), sorted(set(box.mails) - box.present())
        what = dice.choice(("new", "new", "new", "move", "move", "copy", "delete", "back", "anew"))
        folder = dice.choice(("INBOX", "Sent"))
        if what == "new" or not there:
            self._new(number)
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

    def _new(self, number: int) -> None:
        said = knowledge.token(number)
        head = f"From: ada@acme.example\r\nMessage-ID: <m{number}@acme.example>\r\nSubject: Mail {said}\r\n"
        raw = f"{head}\r\nText {said}\r\n".encode()
        self.box.mails[number] = raw, self._now
        self._items[number] = mails.item(hashlib.sha256(raw).hexdigest(), raw, self._now)

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
        makes = mailboxes.opened(True, authorities.context(), lambda: 0.0)
        return lambda claim: makes(claim.spec, {"username": "u", "password": "p"}, self.bucket)
