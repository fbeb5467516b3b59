"""From a Connection's spec to its conditions. Pure; honest about what is not done."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from controllers.connection.credentials import Finding
from crds import conditions, connection
from crds.connection import Type

SCHEMES = {
    Type.EMAIL: ("imap", "imaps", "pop3", "pop3s"),
    Type.JIRA: ("http", "https"),
    Type.CONFLUENCE: ("http", "https"),
    Type.GITHUB: ("http", "https"),
    Type.GITLAB: ("http", "https"),
    Type.GIT: ("http", "https", "ssh", "git", "file"),
}


def patch(conn: connection.Connection, found: Finding, now: datetime, *, file_urls: bool = False) -> dict[str, Any]:
    """Merge patch of the status; empty when it already says all of this. `found` is about its credentials; `file_urls`
    allows file:// for Git."""
    listed = conn.status.conditions
    for one in _conditions(conn, found, now, _url_problem(conn, file_urls)):
        listed = conditions.put(listed, one)
    said = [(c.type, c.status, c.reason, c.message) for c in listed]
    before = [(c.type, c.status, c.reason, c.message) for c in conn.status.conditions]
    if said == before and conn.status.observed_generation == conn.metadata.generation:
        return {}
    return {"conditions": [c.wire() for c in listed], "observedGeneration": conn.metadata.generation}


def _conditions(
    conn: connection.Connection, found: Finding, now: datetime, problem: str
) -> tuple[conditions.Condition, ...]:
    generation = conn.metadata.generation

    def make(type_: str, ok: bool | None, reason: str, message: str) -> conditions.Condition:
        return conditions.make(type_, ok, reason, message, now=now, generation=generation)

    credentials = make("CredentialsValid", found.ok, found.reason, found.message)
    if found.ok is False or found.stops:
        return credentials, make("Ready", False, found.reason, found.message)
    if problem:
        return credentials, make("Ready", False, "InvalidURL", problem)
    if conn.spec.suspend:
        return credentials, make("Ready", False, "Suspended", "spec.suspend is true; set it to false to go on.")
    text = (
        f"The object is valid. Fetching from {conn.spec.type.value} sources is not part of this version of the"
        " operator; create PendingTasks for the items meanwhile."
    )
    return credentials, make("Ready", False, "PollingNotEnabled", text)


def _url_problem(conn: connection.Connection, file_urls: bool) -> str:
    allowed = SCHEMES.get(conn.spec.type)
    try:
        parts = urlsplit(conn.spec.url)
    except ValueError as error:
        return f"spec.url {conn.spec.url!r} is no URL: {error}."
    if allowed is not None and parts.scheme not in allowed:
        return f"spec.url of type {conn.spec.type.value} must start with {' or '.join(s + '://' for s in allowed)}."
    if parts.scheme == "file" and not file_urls:
        return (
            "spec.url: file:// is not allowed, it names a file of the pod that reads it. Use https:// or ssh://, or set"
            " connections.allowFileUrls of the chart."
        )
    if allowed is not None and parts.scheme != "file" and not parts.hostname:
        return f"spec.url {conn.spec.url!r} names no host."
    return ""
