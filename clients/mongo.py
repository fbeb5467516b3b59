"""MongoDB through motor: the client, and its errors as ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import bson.errors
import pymongo
import pymongo.errors
from motor.motor_asyncio import AsyncIOMotorClient

from crds import errors

Duplicate = pymongo.errors.DuplicateKeyError
UpdateOne = pymongo.UpdateOne
ASCENDING, DESCENDING, AFTER = pymongo.ASCENDING, pymongo.DESCENDING, pymongo.ReturnDocument.AFTER


_TOO_LARGE = frozenset({10334, 17419, 17420})
"""Codes of a server for a document above 16 MiB."""


class Unavailable(errors.Operational):
    """MongoDB is away or busy."""


class Refused(errors.Permanent):
    """MongoDB can never take this: a document above 16 MiB, half a character, a number above 64 bits."""


def client(
    uri: str,
    timeout: float = 5.0,
    *,
    absent: float | None = None,
    app_name: str = "jervis-sources",
    listeners: Sequence[Any] = (),
) -> Any:
    """A client of MongoDB whose calls end after `timeout` seconds, or after `absent` where no server is found.

    The server's log names it by `app_name`; `listeners` are pymongo's.
    """
    milliseconds = int(timeout * 1000)
    missing = milliseconds if absent is None else int(absent * 1000)
    return AsyncIOMotorClient(
        uri,
        appname=app_name,
        event_listeners=list(listeners),
        serverSelectionTimeoutMS=missing,
        connectTimeoutMS=missing,
        socketTimeoutMS=milliseconds,
        tz_aware=True,
    )


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """MongoDB's errors as ours."""
    try:
        yield
    except (pymongo.errors.DocumentTooLarge, bson.errors.BSONError, UnicodeEncodeError, OverflowError) as error:
        raise Refused(f"It cannot be stored: {str(error)[:200]}") from error
    except pymongo.errors.PyMongoError as error:
        if isinstance(error, pymongo.errors.OperationFailure) and error.code in _TOO_LARGE:
            raise Refused(f"It cannot be stored: {str(error)[:200]}") from error
        raise Unavailable(f"MongoDB did not {what}: {short(error)}") from error


def short(error: Exception) -> str:
    """What an error of the driver says, without its whole topology, which pymongo appends."""
    return f"{type(error).__name__}: {str(error).split(', Timeout', 1)[0][:200]}"
