"""MongoDB through motor: one client of a process for its small collections, and its errors in our names.

Uses nothing that the MongoDB-wire server of the local profile lacks: no transactions, TTL expiry or pipeline updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Any

import bson.codec_options
import bson.errors
import pymongo
import pymongo.collection
from motor import motor_asyncio
from pymongo import errors as pymongo_errors

from clients import mongo
from crds import scope
from kb import errors

AFTER = pymongo.collection.ReturnDocument.AFTER
"""What `find_one_and_update` returns: the document as it is then."""
Replace = pymongo.ReplaceOne
"""One write of a `bulk_write`."""
DuplicateKey = pymongo_errors.DuplicateKeyError
"""This `_id` was inserted before."""
# Codes of a server (MongoDB's error_codes.yml) that cannot now do what it is asked, whatever that is.
_AWAY = frozenset(
    {
        *(1, 8),  # InternalError, UnknownError: FerretDB's answer when its own store fails
        *(11, 13, 18, 391),  # it does not know the caller, or gives it no right
        *(6, 7, 89, 9001, 202, 317),  # its own network
        *(43, 46, 50, 112, 175, 237, 262, 290, 11601),  # given up: time limits, locks, conflicts, killed cursors
        *(64, 79, 100, 133, 134),  # too few members answer
        *(91, 189, 10107, 11600, 11602, 13435, 13436),  # it stops, starts or is not the primary
        *(14031,),  # its disk is full
        8000,  # Atlas
    }
)
_LABELS = ("RetryableWriteError", "TransientTransactionError", "SystemOverloadedError")


class Database:
    """Named collections of one database; the connection is made on first use, a server that is away costs `patience`.

    Times come back in UTC.
    """

    def __init__(self, uri: str, name: str, *, patience: float = 5.0) -> None:
        self._client = mongo.client(uri, 4 * patience, absent=patience, app_name="jervis-kb")
        self.name = name
        options: Any = bson.codec_options.CodecOptions(tz_aware=True, tzinfo=UTC)
        self._database = self._client.get_database(name, codec_options=options)

    def __getitem__(self, collection: str) -> Any:
        """The driver's collection; use it inside `translated`."""
        return self._database[collection]

    def bucket(self, name: str) -> Any:
        """The driver's GridFS bucket; use it inside `translated`."""
        return motor_asyncio.AsyncIOMotorGridFSBucket(self._database, bucket_name=name)

    async def ping(self) -> None:
        """Ask the server for a sign of life. Raises `kb.errors.Away`."""
        with translated():
            await self._database.command("ping")

    async def close(self) -> None:
        """Let go of connections."""
        self._client.close()


@contextmanager
def translated() -> Iterator[None]:
    """Give the driver's errors our names. What is left is a bug: a command that no server would take."""
    try:
        yield
    except pymongo_errors.DocumentTooLarge as error:
        raise errors.TooLarge(str(error), remedy="Send less in one document.") from error
    except (
        pymongo_errors.ConnectionFailure,
        pymongo_errors.ExecutionTimeout,
        pymongo_errors.WriteConcernError,
        # Another program answers on its port, or a server that is too old.
        pymongo_errors.ProtocolError,
        pymongo_errors.ConfigurationError,
        bson.errors.InvalidBSON,
    ) as error:
        raise away(error) from error
    except pymongo_errors.OperationFailure as error:
        if _codes(error) & _AWAY or any(error.has_error_label(label) for label in _LABELS):
            raise away(error) from error
        raise


def away(error: Exception) -> errors.Away:
    """What to raise for an error of the driver that is none of ours."""
    return errors.Away("mongodb", str(error).split(", Timeout", 1)[0][:300] or type(error).__name__)


def _codes(error: pymongo_errors.OperationFailure) -> set[int]:
    """The error's code, and those of the writes of a batch."""
    found = {error.code or 0}
    for field in ("writeErrors", "writeConcernErrors"):
        found |= {one.get("code", 0) for one in (error.details or {}).get(field, ())}
    return found


def names(where: scope.Scope) -> dict[str, str]:
    """A scope as three fields of a document."""
    return {"clientId": where.client_id, "projectId": where.project_id, "groupId": where.group_id}


def owner(document: dict[str, Any]) -> scope.Scope:
    """The scope of such a document."""
    return scope.Scope(
        client_id=document["clientId"], project_id=document.get("projectId", ""), group_id=document.get("groupId", "")
    )


async def regroup(rows: Any, owner: scope.Scope, chosen: dict[str, Any]) -> list[str]:
    """Let those documents of a collection that `chosen` filters and the owner's project owns belong to its group.

    The ids of those that changed. Raises `kb.errors.Away`.
    """
    others = {"clientId": owner.client_id, "projectId": owner.project_id, "groupId": {"$ne": owner.group_id}}
    with translated():
        changed = [row["_id"] async for row in rows.find({**others, **chosen}, {"_id": 1})]
        await rows.update_many({"_id": {"$in": changed}}, {"$set": {"groupId": owner.group_id}})
    return changed


def visible(viewer: scope.Scope) -> dict[str, Any]:
    """`kb.visibility.sees` as a filter over the three fields."""
    widths: list[dict[str, Any]] = [{"projectId": "", "groupId": ""}]
    if viewer.project_id:
        widths.append({"projectId": viewer.project_id})
    if viewer.group_id:
        widths.append({"groupId": viewer.group_id})
    mine = {"clientId": viewer.client_id, "$or": widths}
    return {"$or": [{"clientId": ""}, mine]} if viewer.client_id else {"clientId": ""}


def governing(where: scope.Scope) -> dict[str, Any]:
    """`kb.visibility.governs` as a filter over the three fields of the owner."""
    widths: list[dict[str, Any]] = [{"projectId": "", "groupId": ""}]
    if where.project_id:
        widths.append({"projectId": where.project_id})
    if where.group_id:
        widths.append({"projectId": "", "groupId": where.group_id})
    mine = {"clientId": where.client_id, "$or": widths}
    return {"$or": [{"clientId": ""}, mine]} if where.client_id else {"clientId": ""}
