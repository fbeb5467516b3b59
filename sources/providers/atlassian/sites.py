"""What Jira and Confluence have in common: credentials, the frame of a poll, attachments within limits, and the batch
with one bad part."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from crds import connection, pendingtask
from sources.core import host_address, hosts, limits, port, rest, time_cursor
from sources.providers.atlassian import address
from text import mail

FILE_BYTES = 10 << 20
FILES_BYTES = 16 << 20
"""Bytes of all attachments of one thing."""
BATCH = 50
BATCH_BYTES = 16 << 20
TEXT_CHARS = 4 << 20
"""Characters of the text of one thing with all its comments."""
CUT = "[The text is longer; the rest is left out.]"
MOST_PLACES = 20_000
"""Projects or spaces that the user sees; a list without an end ends there."""
UNFORESEEN = (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError)
"""What reading a thing raises that is not as the documents of the API say."""
MOST_BAD = 3
"""If all of a batch fails and it has more things than this, the server fails and not they."""

T = TypeVar("T")
Api = Callable[[], rest.Rest]
Opened = Callable[[connection.Spec, Mapping[str, str], limits.Bucket], Api]


def opened(
    plain: bool,
    tls: ssl.SSLContext,
    monotonic: Callable[[], float],
    wall: Callable[[], datetime],
    reached: hosts.Hosts = hosts.LOCAL,
) -> Opened:
    """What says how the API of a Connection is opened. It raises `Misconfigured`."""

    def opens(spec: connection.Spec, credentials: Mapping[str, str], bucket: limits.Bucket) -> Api:
        at = host_address.derive(address.RULES, spec, credentials, plain=plain)
        trusted = hosts.trusted(tls, credentials.get("ca.crt", ""))
        return lambda: rest.Rest(at.api, at.headers, bucket, trusted, monotonic=monotonic, wall=wall, reached=reached)

    return opens


class Poll:
    """One poll. `opens` gives the API, which is closed behind each use; `size` and `ids_size` are things of a page: of
    changes and of places. The product may answer fewer."""

    product: str
    kind: str
    """What the filter names: project or space."""
    right: str
    """The verb of the right that shows one."""
    names: Sequence[str] = ("name", "key")
    """What the filter may name one by."""
    sizes = (100, 1000)

    def __init__(self, opens: Api, chosen: connection.Filter, of: str, size: int, ids_size: int) -> None:
        self._opens, self._filter, self._of = opens, chosen, of
        self._api: rest.Rest
        self._size, self._ids_size = size, ids_size
        self._zone: tzinfo | None = None
        self._places: dict[str, str] = {}
        """Keys of the projects or spaces that the user sees, by their names in small letters."""

    @classmethod
    def opened(
        cls, opens: Opened, *, size: int = 0, ids_size: int = 0
    ) -> Callable[[connection.Spec, Mapping[str, str], limits.Bucket], Any]:
        """What opens the poll of a Connection. It raises `Misconfigured`."""

        def made(spec: connection.Spec, credentials: Mapping[str, str], bucket: limits.Bucket) -> Poll:
            chosen = spec.filter or connection.Filter()
            of = time_cursor.of(
                cls.product.lower(), spec.url, credentials.get("username", ""), chosen.model_dump_json()
            )
            return cls(opens(spec, credentials, bucket), chosen, of, size or cls.sizes[0], ids_size or cls.sizes[1])

        return made

    async def _visible(self) -> Sequence[Mapping[str, Any]]:
        """Learn the time zone of the user; the projects or spaces that he sees."""
        raise NotImplementedError

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[list[str]]:
        """While the API is open: names of the filter that are not shown. Raises `Misconfigured` where nothing is."""
        self._api = self._opens()
        try:
            found = await self._visible()
            # What has no key is none that could be read, or asked for.
            shown = [one for one in found if isinstance(one, Mapping) and one.get("key")]
            self._places = {
                str(one[name]).casefold(): str(one["key"]) for name in self.names for one in shown if one.get(name)
            }
            if not self._places:
                raise port.Misconfigured(
                    f"The user sees no {self.kind}.",
                    field="spec.secretRef",
                    remedy=f"Give the user the right to {self.right} {self.kind}s.",
                )
            absent = [one for one in self._filter.include if one.casefold() not in self._places]
            if len(absent) == len(self._filter.include):
                self._complain(absent)
            yield absent
        finally:
            await self._api.close()

    def _complain(self, absent: Sequence[str]) -> None:
        if absent:
            raise port.Misconfigured(
                f"{self.product} shows no {self.kind} {', '.join(map(repr, absent))[:400]}; all others are read.",
                field="spec.filter.include",
                remedy=f"Correct it, or give the user the right to {self.right} the {self.kind}.",
            )

    def _where(self) -> list[str]:
        """The names of the filter as conditions of a query."""
        found = []
        for names, word in ((self._filter.include, "in"), (self._filter.exclude, "not in")):
            there = sorted({self._places[one.casefold()] for one in names if one.casefold() in self._places})
            if there:
                found.append(f"{self.kind} {word} ({', '.join(map(time_cursor.quoted, there))})")
        return found


def zone(name: object) -> tzinfo:
    """The user's; where it is not told, the one in which every minute is the earliest: nothing is missed."""
    try:
        return ZoneInfo(str(name))
    except (KeyError, ValueError, OSError):
        return timezone(timedelta(hours=-12))


async def apart(
    ask: Callable[[Sequence[str]], Awaitable[list[T]]], names: Sequence[str]
) -> tuple[list[T], dict[str, str]]:
    """What `ask` answers for the names, and those for which it fails, each with the reason.

    A batch that fails is halved down to the things that fail alone, twice. Raises what `ask` raises: about the server,
    and where everything fails.
    """
    found: list[T] = []
    bad: dict[str, str] = {}
    last: port.Misconfigured | port.Unreachable | None = None
    left = [list(names)] if names else []
    while left:
        some = left.pop()
        try:
            found += await ask(some)
        except (rest.Broken, rest.Garbled, rest.Foreign, port.Misconfigured) as error:
            last = error
            half = len(some) // 2
            if half:
                left += [some[half:], some[:half]]
            else:
                try:
                    found += await ask(some)
                except (rest.Broken, rest.Garbled, rest.Foreign, port.Misconfigured) as again:
                    bad[some[0]] = f"The source does not answer for it: {again.message}"
    if last is not None and len(bad) == len(names) > MOST_BAD:
        raise last
    return found, bad


async def files(api: rest.Rest, listed: Sequence[Mapping[str, Any]]) -> tuple[list[mail.File], list[str]]:
    """Attachments within the limits, and a line about each. `listed`: name, size, mediaType, path."""
    found: list[mail.File] = []
    lines, size = [], 0
    for one in listed:
        name, asked = mail.file_name(str(one["name"]), "file"), int(one.get("size") or 0)
        most = min(FILE_BYTES, FILES_BYTES - size)
        if len(found) >= pendingtask.MOST_ATTACHMENTS or asked > most:
            lines.append(f"{name} (not taken: {asked} bytes, or too many)")
            continue
        try:
            body = await api.download(str(one["path"]), most)
        except (port.Misconfigured, rest.Broken, rest.Garbled) as error:
            lines.append(f"{name} (not taken: {error.message[:200]})")
            continue
        size += len(body)
        lines.append(name)
        if body:
            media = str(one.get("mediaType") or mail.UNKNOWN_TYPE).partition(";")[0].strip()
            found.append(mail.File(name, media if mail.is_type(media) else mail.UNKNOWN_TYPE, body))
    return found, lines


def bounded(text: str) -> str:
    """The text, cut where it is too long; it says so."""
    return text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS].rstrip()}\n\n{CUT}\n"


def countable(found: Sequence[Any], what: str) -> None:
    """Raises `Misconfigured` where a list of projects or spaces is longer than can be held."""
    if len(found) > MOST_PLACES:
        raise port.Misconfigured(
            f"The source lists more than {MOST_PLACES} {what}.",
            field="spec.secretRef",
            remedy="Use an account that sees fewer of them.",
        )


def weight(item: port.Item) -> int:
    """Bytes of an item, about."""
    return len(item.text) + sum(len(one.body) for one in item.files)


def moment(text: object) -> datetime | None:
    """A time as Atlassian writes it, in UTC."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def rfc3339(text: object) -> str:
    """A time as texts of facts have it; "" without one."""
    at = moment(text) if text else None
    return at.isoformat(timespec="seconds").replace("+00:00", "Z") if at else ""
