"""What a request is: the place in the operator's code that it comes from, told from the wire alone. Pure.

Two requests are of the same site when door, verb, resource, subresource and intent are the same; the intent of a status
patch is the phase that it sets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qs, urlsplit

_READS = frozenset({"GET", "LIST", "WATCH", "find", "aggregate", "getMore", "count"})
_DISCOVERY = "discovery"
_TERM = re.compile(r"([\w./-]+)(!=|=| in |)")
RELEASE = "release"
"""Intent of the write that gives a Lease back."""


class Door(StrEnum):
    """Whom the operator speaks to."""

    API = "apiserver"
    KNOWLEDGE = "kb"
    MONGODB = "mongodb"


class Moment(StrEnum):
    """When in the life of a request: not sent yet, done but not told, told."""

    BEFORE = "before-send"
    COMMITTED = "after-commit"
    ANSWERED = "after-answer"


@dataclass(frozen=True, order=True, slots=True)
class Site:
    """One call site."""

    door: Door
    verb: str
    resource: str
    subresource: str = ""
    intent: str = ""

    @property
    def writes(self) -> bool:
        """It changes something."""
        return self.verb not in _READS

    def __str__(self) -> str:
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.door} {self.verb} {resource}" + (f" [{self.intent}]" if self.intent else "")


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its site, the object that it is about ("" for many), and the text of its body."""

    site: Site
    name: str = ""
    body: str = ""


def of_api(method: str, target: str, body: bytes) -> Call:
    """A request to the apiserver."""
    parts = urlsplit(target)
    resource, name, subresource = _resource(parts.path)
    if resource == _DISCOVERY:
        return Call(Site(Door.API, method, _DISCOVERY))
    document = json.loads(body) if body else {}
    if not name and method in ("GET", "DELETE"):
        query = parse_qs(parts.query)
        method = "DELETECOLLECTION" if method == "DELETE" else "WATCH" if query.get("watch") else "LIST"
        return Call(Site(Door.API, method, resource, intent=_selection(query)))
    site = Site(Door.API, method, resource, subresource, _intent(method, resource, document))
    return Call(site, name or str((document.get("metadata") or {}).get("name") or ""))


def of_knowledge(method: str, target: str, body: bytes) -> Call:
    """A request to the knowledge base. Its object is the source of the content."""
    document = json.loads(body) if body else {}
    source = str(document.get("sourceUrn") or "")
    return Call(Site(Door.KNOWLEDGE, method, urlsplit(target).path), source, str(document.get("content") or ""))


def of_mongodb(command: Mapping[str, Any]) -> Call:
    """A MongoDB command: its name is the first key, the collection that key's value."""
    verb = next(iter(command))
    collection = command[verb]
    site = Site(Door.MONGODB, verb, collection if isinstance(collection, str) else "")
    return Call(site, _subject(command))


def _selection(query: Mapping[str, Sequence[str]]) -> str:
    """What is asked for: the first key of each selector, without the values that differ from request to request."""
    said = [one for key in ("labelSelector", "fieldSelector") for one in query.get(key, ())]
    terms = {found[1] + found[2].rstrip() for one in said if (found := _TERM.match(one))}
    return "by " + "+".join(sorted(terms)) if terms else ""


def _resource(path: str) -> tuple[str, str, str]:
    """(plural, name, subresource) of /api/v1/... or /apis/GROUP/VERSION/..."""
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return _DISCOVERY, "", ""
    return rest[0], rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""


def _intent(method: str, resource: str, document: Mapping[str, Any]) -> str:
    if resource == "leases" and method in ("POST", "PUT"):
        spec = document["spec"]
        if not spec.get("holderIdentity"):
            return RELEASE
        return "acquire" if spec.get("acquireTime") == spec.get("renewTime") else "renew"
    if method != "PATCH" and not (method == "PUT" and "status" in document):
        return ""
    status = document.get("status")
    if status is not None:
        return str(status["phase"]) if "phase" in status else "+".join(sorted(set(status) - {"leaderEpoch"}))
    labels = (document.get("metadata") or {}).get("labels")
    if labels is not None:
        return "label " + "+".join(sorted(labels))
    spec = document.get("spec") or {}
    return "+".join(f"{key}={spec[key]}" if isinstance(spec[key], bool) else key for key in sorted(spec))


def _subject(command: Mapping[str, Any]) -> str:
    for key in ("filter", "query"):
        if key in command:
            return str(command[key].get("_id", ""))
    for key in ("updates", "deletes"):
        if command.get(key):
            return str(command[key][0]["q"].get("_id", ""))
    return ""
