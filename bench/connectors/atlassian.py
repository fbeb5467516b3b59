"""Jira and Confluence: search shows changes up to ten minutes late; pages tear, tokens expire, spaces are hidden."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from bench.connectors import knowledge, site
from crds import connection, pendingtask
from sources.core import assignments, port
from sources.providers.atlassian import sites as atlassian
from sources.providers.confluence import reading as confluence
from sources.providers.jira import reading as jira
from tests.sources import confluence_server, jira_server

LATE = timedelta(minutes=10)
_ANSWERS = {"limit": (429, {"Retry-After": "30"}), "away": (503, {}), "broken": (500, {})}


class _Always(random.Random):
    """Calls what changes before every request."""

    def random(self) -> float:
        return 0.0


class _Atlassian(site.Site):
    server: Any
    module: Any

    @property
    def now(self) -> datetime:
        """See `Site`."""
        found: datetime = self.server.now
        return found

    def tick(self, much: timedelta) -> None:
        """See `Site`."""
        self.server.now += much

    @property
    def url(self) -> str:
        """See `Site`."""
        return str(self.server.url)

    def serving(self) -> contextlib.AbstractAsyncContextManager[Any]:
        """See `Site`."""
        self.server.late = LATE
        self.server.dice = _Always()
        self.server.meanwhile = lambda: self.meanwhile and self.meanwhile()
        found: contextlib.AbstractAsyncContextManager[Any] = self.server.serving()
        return found

    def change(self, dice: random.Random, number: int) -> None:
        """See `Site`."""
        # Times have milliseconds: a thing does not change twice in one of them.
        self.server.now += timedelta(seconds=dice.randint(0, 30), milliseconds=1)
        self.server.dice = dice  # how late the change shows
        self._changed(dice, knowledge.token(number))
        self.server.dice = _Always()

    def _changed(self, dice: random.Random, said: str) -> None:
        raise NotImplementedError

    def _trouble(self, what: str, dice: random.Random, there: Sequence[int]) -> None:
        server = self.server
        if what == "unreadable":
            server.poison.add(dice.choice(there))
        elif what == "readable":
            self.heal(dice)
        elif what == "short":
            server.lacking = {number for number in there if dice.random() < 0.3}
        elif what == "whole":
            server.lacking = set()

    def heal(self, dice: random.Random) -> None:
        """See `Site`."""
        self.server.lacking = set()
        self.server.poison = {number for number in sorted(self.server.poison) if dice.random() < 0.5}

    def faults(self, fault: tuple[int, str] | None) -> None:
        """See `Site`."""
        self.server.faults = [(0, {})] * fault[0] + [_ANSWERS[fault[1]]] if fault else []

    def fault(self) -> str:
        """See `Site`."""
        if self.meanwhile is not None:
            self.meanwhile()
        self.server.settle()
        status = self.server.faults.pop(0)[0] if self.server.faults else 0
        return str(status) if status else ""

    def query_zone(self) -> tzinfo:
        """See `Site`."""
        return ZoneInfo(self.zone)

    def opens(self, assigned: assignments.Assignments) -> Callable[[assignments.Claim], port.Source]:
        """See `Site`."""
        at = atlassian.opened(True, site.tls(), lambda: 0.0, lambda: self.now)
        makes = self.module.opened(at, size=3, ids_size=4)
        return lambda claim: makes(claim.spec, {"username": "u", "token": "t"}, self.bucket)


class Jira(_Atlassian):
    """Every second one is a Data Center; a token of Cloud is good for four changes."""

    type, module = connection.Type.JIRA, jira

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.server = jira_server.Jira(_Always(), zone=self.zone, cloud=seed % 2 == 0)
        self.server.token_life = 4
        self._said: dict[int, set[str]] = {}
        self._keys: dict[int, set[str]] = {}
        """All that an issue ever had."""

    def _changed(self, dice: random.Random, said: str) -> None:
        server = self.server
        there = sorted(server.issues.values(), key=lambda one: one.id)
        kinds = ("new", "new", "edit", "edit", "comment", "move", "delete", "hide", "show", "bulk")
        what = dice.choice((*kinds, *site.TROUBLES))
        if what == "new" or not there:
            server.put(dice.choice(("JERV", "SHOP")), summary=f"New {said}")
            return
        one = dice.choice(there)
        if what == "edit":
            server.touch(one, summary=f"Edit {said}")
        elif what == "comment":
            server.comment(one, f"Comment {said}")
            self._said.setdefault(one.id, set()).add(said)
        elif what == "bulk":
            for each in there:
                server.touch(each, summary=f"Bulk {said}")
        elif what == "show":
            for each in there:
                each.hidden = False
        elif what == "move":
            server.move(one, dice.choice(("JERV", "SHOP")))
        elif what == "delete":
            server.delete(one)
        elif what == "hide":
            one.hidden = True
        else:
            self._trouble(what, dice, [each.id for each in there])

    def _noted(self) -> None:
        for one in self.server.issues.values():
            self._keys.setdefault(one.id, set()).add(one.key)
        super()._noted()

    def _tokens(self, one: jira_server.Issue) -> frozenset[str]:
        return frozenset({one.fields["summary"].split()[-1], *self._said.get(one.id, ())})

    def live(self) -> dict[str, frozenset[str]]:
        """See `Site`."""
        shown = (one for one in self.server.issues.values() if self.server.seen(one))
        return {f"jira::{one.key}": self._tokens(one) for one in shown}

    @property
    def unreadable(self) -> Mapping[str, str]:
        """See `Site`."""
        issues = [one for one in self.server.issues.values() if one.id in self.server.poison and self.server.seen(one)]
        return {f"jira::{key}": one.key for one in issues for key in self._keys[one.id]}

    def rows(self) -> list[site.Row]:
        """See `Site`."""
        found = []
        for number, (key, updated) in self.server.index.items():
            one = self.server.issues[number]
            if self.server.seen(one):
                tokens = self._tokens(one)
                item = _item("jira", key, f"{one.history}", tokens, pendingtask.Type.BUG_TRACKER, str(number))
                found.append(site.Row(item, updated, item.place))
        return found


class Confluence(_Atlassian):
    """Every second one is a Data Center, which does not give the zone of its user."""

    type, module = connection.Type.CONFLUENCE, confluence

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.server = confluence_server.Confluence(_Always(), zone=self.zone, cloud=seed % 2 == 0)

    def _changed(self, dice: random.Random, said: str) -> None:
        server = self.server
        there = sorted((one for one in server.contents.values() if one.type == "page"), key=lambda one: one.id)
        kinds = ("new", "new", "edit", "edit", "comment", "move", "trash", "hide", "show", "draft")
        what = dice.choice((*kinds, *site.TROUBLES))
        if what in ("new", "draft") or not there:
            status = "draft" if what == "draft" else "current"
            server.put(dice.choice(("DEV", "OPS")), status=status, title=f"New {said}")
            return
        one = dice.choice(there)
        if what == "edit":
            one.title = f"Edit {said}"
            server.edit(one, "<p>New.</p>")
        elif what == "comment":
            server.put(one.space, kind="comment", parent=one.id, title="", body=f"<p>Comment {said}</p>")
        elif what == "show":
            for each in there:
                each.hidden, each.status = False, "current" if each.status == "trashed" else each.status
        elif what == "move":
            server.move(one, dice.choice(("DEV", "OPS")))
        elif what == "trash":
            one.status = dice.choice(("trashed", "archived"))
        elif what == "hide":
            one.hidden = True
        else:
            self._trouble(what, dice, [each.id for each in there])

    def _tokens(self, one: confluence_server.Content) -> frozenset[str]:
        said = (each.body for each in self.server.contents.values() if each.parent == one.id)
        return frozenset({one.title.split()[-1], *(body[:-4].split()[-1] for body in said)})

    def live(self) -> dict[str, frozenset[str]]:
        """See `Site`."""
        pages = (one for one in self.server.contents.values() if one.type == "page" and self.server.seen(one))
        return {f"confluence::{one.space}::{one.id}": self._tokens(one) for one in pages}

    @property
    def unreadable(self) -> Mapping[str, str]:
        """See `Site`."""
        pages = [one for one in self.server.contents.values() if one.id in self.server.poison and self.server.seen(one)]
        return {f"confluence::{space}::{one.id}": one.title for one in pages for space in self.server.spaces}

    def rows(self) -> list[site.Row]:
        """See `Site`."""
        found = []
        for number, (when, version) in self.server.index.items():
            one = self.server.contents[number]
            if one.type == "page" and self.server.seen(one):
                tokens = self._tokens(one)
                name = f"{one.space}::{number}"
                item = _item("confluence", name, str(version), tokens, pendingtask.Type.WIKI, f"{one.space}/{number}")
                found.append(site.Row(item, when, item.place))
        return found


def _item(
    provider: str, name: str, version: str, tokens: frozenset[str], kind: pendingtask.Type, place: str
) -> port.Item:
    text = " ".join(sorted(tokens))
    return port.Item(
        source_id=name, version=version, type=kind, urn=f"{provider}::{name}", title=name, text=text, place=place
    )
