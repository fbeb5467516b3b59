"""The parameters of a question about the history, checked before MongoDB sees them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from crds import errors, phases, scope

MOST = 500
USUAL = 50
PARAMETERS = ("namespace", "client", "phase", "name", "limit", "since", "before")

_NAMESPACE = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
_NAME = re.compile(r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")
_CLIENT = re.compile(scope.IDENTIFIER)
_UID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_PHASES = tuple(sorted(phase.value for phase in phases.TERMINAL))


class Unreadable(errors.Permanent):
    """A parameter is wrong; the error names it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A moment and, among those of that moment, a uid."""

    at: datetime
    uid: str = ""

    def text(self) -> str:
        """As it travels in `before`."""
        return f"{rfc3339(self.at)}_{self.uid}" if self.uid else rfc3339(self.at)


@dataclass(frozen=True, slots=True)
class Query:
    """ "" means any. Everything ended at `since` or later, and before `before` or then with a smaller uid."""

    namespace: str = ""
    client: str = ""
    phase: str = ""
    name: str = ""
    limit: int = USUAL
    since: datetime | None = None
    before: Place | None = None

    def equal(self) -> dict[str, str]:
        """Fields of the archive that have to have a value."""
        return {"namespace": self.namespace, "clientId": self.client, "phase": self.phase, "name": self.name}


def parse(given: Mapping[str, str]) -> Query:
    """Query parameters by name; an empty one counts as absent. Raises `Unreadable`."""
    for name in given:
        if name not in PARAMETERS:
            raise Unreadable(f"{name!r} is not a parameter", field=name, remedy=f"Use {', '.join(PARAMETERS)}.")
    namespace, client, phase, name = (given.get(key, "") for key in ("namespace", "client", "phase", "name"))
    if namespace and not _NAMESPACE.match(namespace):
        raise Unreadable("this is no name of a namespace", field="namespace", remedy="Give a DNS label.")
    if client and not _CLIENT.match(client):
        raise Unreadable("this is no client", field="client", remedy="Give the clientId of tasks.")
    if phase and phase not in _PHASES:
        raise Unreadable("only finished tasks have a history", field="phase", remedy=f"Use {', '.join(_PHASES)}.")
    if name and not _NAME.match(name):
        raise Unreadable("this is no name of a task", field="name", remedy="Give metadata.name of a task.")
    since = _moment(given.get("since", ""), "since", "Give an RFC 3339 time such as 2027-03-01T12:00:00Z.")
    limit, before = _limit(given.get("limit", "")), _place(given.get("before", ""))
    return Query(namespace, client, phase, name, limit, since, before)


def uid(text: str) -> str:
    """The uid of an object. Raises `Unreadable`."""
    if not _UID.match(text):
        raise Unreadable("this is no uid", field="uid", remedy="Take it from metadata.uid or from the list.")
    return text


def rfc3339(at: datetime) -> str:
    """RFC 3339 in UTC, with milliseconds only where there are any."""
    precision = "milliseconds" if at.microsecond else "seconds"
    return at.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def _limit(text: str) -> int:
    if not text:
        return USUAL
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MOST):
        raise Unreadable(f"limit must be a whole number from 1 to {MOST}", field="limit", remedy="Page with before.")
    return int(text)


def _place(text: str) -> Place | None:
    moment, _, tail = text.partition("_")
    remedy = "Give an RFC 3339 time such as 2027-03-01T12:00:00Z, or `next` of the page before."
    at = _moment(moment, "before", remedy)
    if tail and not _UID.match(tail):
        raise Unreadable("before is no place in the history", field="before", remedy=remedy)
    return None if at is None else Place(at, tail)


def _moment(text: str, field: str, remedy: str) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise Unreadable(f"{field} is no time", field=field, remedy=remedy) from error
    if at.tzinfo is None:
        raise Unreadable(f"{field} is no time with a zone", field=field, remedy=remedy)
    return at.astimezone(UTC)
