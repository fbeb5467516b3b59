"""What the apiserver says no with, sorted by retry meaning.

Unavailable    Operational  timeouts, refused connections, 401, 429, 5xx
Forbidden      Unavailable  403: a role is missing, and may be there in a moment
Conflict       Operational  409: the object changed; read it again
Expired        Operational  410: that place in the history is forgotten; list anew
NotFound       Permanent    404
AlreadyExists  Permanent    409 on creation
TooLarge       Permanent    the answer has more bytes than were asked for
Refused        Permanent    every other 4xx: the object is invalid; names the field; and what is too large for etcd
"""

from __future__ import annotations

from typing import Any

import orjson

from crds import errors

_TOO_LARGE = ("etcdserver: request is too large", "trying to send message larger than max")
"""What an apiserver says with 500 of an object above etcd's limit of 1.5 MiB, or above 2 MiB: for ever."""


class Unavailable(errors.Operational):
    """The apiserver is away or busy, or does not let us yet."""


class Forbidden(Unavailable):
    """Our account has no right to it yet."""


class Conflict(errors.Operational):
    """The object has changed since it was read."""


class Expired(errors.Operational):
    """The resourceVersion or the continuation of a list is too old."""


class NotFound(errors.Permanent):
    """There is no such object (any more)."""


class AlreadyExists(errors.Permanent):
    """An object of that name is there already."""


class TooLarge(errors.Permanent):
    """The answer has more bytes than the caller takes; a smaller page may have fewer."""


class Refused(errors.Permanent):
    """The apiserver does not accept the object."""


def refusal(verb: str, path: str, code: int, payload: bytes, retry_after: str | None) -> errors.JervisError:
    """The error that an answer's code and body (a metav1.Status) mean; `retry_after` is the header."""
    try:
        status: dict[str, Any] = orjson.loads(payload)
    except orjson.JSONDecodeError:
        status = {"message": payload[:200].decode(errors="replace")}
    message = f"{verb} {path}: {status.get('message') or f'HTTP {code}'}"
    if code == 404:
        return NotFound(message)
    if code == 409:
        return AlreadyExists(message) if status.get("reason") == "AlreadyExists" else Conflict(message)
    if code == 403:
        return Forbidden(message)
    if code == 410:
        return Expired(message)
    if code == 500 and any(said in message for said in _TOO_LARGE):
        return Refused(message, remedy="Make the object smaller.")
    if code in (401, 408, 429) or code >= 500:
        wait = float(retry_after) if retry_after and retry_after.isdigit() else None
        return Unavailable(message, retry_after=wait)
    causes: list[dict[str, Any]] = (status.get("details") or {}).get("causes") or [{}]
    return Refused(message, field=causes[0].get("field"), remedy="Fix the named field or the operator's settings.")
