"""MongoDB through motor: the client, and its errors as ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymongo
import pymongo.errors
from motor.motor_asyncio import AsyncIOMotorClient

from crds import errors

Duplicate = pymongo.errors.DuplicateKeyError
UpdateOne = pymongo.UpdateOne
ASCENDING, DESCENDING, AFTER = pymongo.ASCENDING, pymongo.DESCENDING, pymongo.ReturnDocument.AFTER


class Unavailable(errors.Operational):
    """MongoDB is away or busy."""


def client(uri: str, timeout: float = 5.0, *, listeners: Sequence[Any] = ()) -> Any:
    """A client of MongoDB whose calls end after `timeout` seconds; `listeners` are pymongo's."""
    milliseconds = int(timeout * 1000)
    return AsyncIOMotorClient(
        uri,
        appname="jervis-sources",
        event_listeners=list(listeners),
        serverSelectionTimeoutMS=milliseconds,
        connectTimeoutMS=milliseconds,
        socketTimeoutMS=milliseconds,
        tz_aware=True,
    )


@contextmanager
def trouble(what: str) -> Iterator[None]:
    """MongoDB's errors as ours."""
    try:
        yield
    except pymongo.errors.PyMongoError as error:
        raise Unavailable(f"MongoDB did not {what}: {error}") from error
