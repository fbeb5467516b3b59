"""MongoDB: the only module that imports its driver. Calls run in threads, are retried while the server is unavailable,
and raise this package's errors.

The driver is synchronous because the LangGraph saver requires it: one client, one pool, one set of errors. Every
operation here may be repeated after a lost response. No code depends on transactions, change streams, TTL expiry,
pipeline updates or partial indexes: the server of the local profile lacks them (design page "cluster").
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pymongo
import pymongo.collection
import pymongo.errors

from orchestrator_job import errors
from orchestrator_job.store import retry
from text import surrogates

T = TypeVar("T")
Document = dict[str, Any]

# Server codes that mean "not now" (MongoDB error codes: shutdown, not primary, stepped down, network, timeouts).
_OPERATIONAL_CODES = frozenset({6, 7, 89, 91, 112, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})


def connect(uri: str) -> pymongo.MongoClient[Document]:
    """A client with short timeouts: `retry.Retry` does the waiting, because there it can be cancelled.

    Raises InvalidInput for an unusable address.
    """
    try:
        return pymongo.MongoClient(
            uri,
            tz_aware=True,
            appname="jervis-orchestrator-job",
            retryWrites=False,
            serverSelectionTimeoutMS=2000,
            connectTimeoutMS=2000,
            socketTimeoutMS=10_000,
        )
    except (pymongo.errors.ConfigurationError, ValueError) as error:
        raise errors.InvalidInput(
            f"MONGODB_URI cannot be used: {error}.", field="JERVIS_MONGODB_URI", remedy="Give a mongodb:// URI."
        ) from error


class Database:
    """The operations of a run, on named collections of one database."""

    def __init__(self, client: pymongo.MongoClient[Document], name: str, retries: retry.Retry) -> None:
        self.client = client
        self.name = name
        self._retries = retries

    async def find_one(
        self, collection: str, query: Mapping[str, Any], *, sort: Sequence[tuple[str, int]] | None = None
    ) -> Document | None:
        """The first match, or None."""
        found = await self.call(f"read {collection}", lambda: self._at(collection).find_one(query, sort=sort))
        return dict(found) if found is not None else None

    async def find(
        self,
        collection: str,
        query: Mapping[str, Any],
        *,
        sort: Sequence[tuple[str, int]],
        fields: Sequence[str],
        limit: int = 0,
    ) -> list[Document]:
        """All matches, with `fields` only; with a `limit` the first ones."""
        return await self.call(
            f"read {collection}",
            lambda: list(self._at(collection).find(query, projection=list(fields), sort=sort, limit=limit)),
        )

    async def insert(self, collection: str, document: Mapping[str, Any]) -> None:
        """Insert the document unless its `_id` exists."""

        def write() -> None:
            try:
                _encoded(document, lambda one: self._at(collection).insert_one(dict(one)))
            except pymongo.errors.DuplicateKeyError:
                return  # the existing document stays; the caller reads it

        await self.call(f"write {collection}", write)

    async def update(
        self, collection: str, query: Mapping[str, Any], change: Mapping[str, Any], *, upsert: bool = False
    ) -> Document | None:
        """Change one document and return its new version.

        None when nothing matched; with `upsert`, when a document of this `_id` exists and does not match.
        """

        def write() -> Document | None:
            try:
                return _encoded(
                    change,
                    lambda one: self._at(collection).find_one_and_update(
                        query, one, upsert=upsert, return_document=pymongo.ReturnDocument.AFTER
                    ),
                )
            except pymongo.errors.DuplicateKeyError:
                return None

        return await self.call(f"write {collection}", write)

    async def delete(self, collection: str, query: Mapping[str, Any]) -> int:
        """Delete every match and return their number."""
        return await self.call(f"prune {collection}", lambda: self._at(collection).delete_many(query).deleted_count)

    async def call(self, what: str, operation: Callable[[], T]) -> T:
        """Run a blocking, repeatable operation of the driver; raises StoreUnavailable when the retries end."""

        async def once() -> T:
            return await asyncio.to_thread(_translated, what, operation)

        return await self._retries.call(what, once)

    def _at(self, collection: str) -> pymongo.collection.Collection[Document]:
        return self.client[self.name][collection]


def _encoded(document: Mapping[str, Any], write: Callable[[Mapping[str, Any]], T]) -> T:
    """What `write` gives for the document; without halves of characters where it has any."""
    try:
        return write(document)
    except UnicodeEncodeError:
        return write(surrogates.cleaned(dict(document)))


def _translated(what: str, operation: Callable[[], T]) -> T:
    """Translate the driver's errors by retry meaning."""
    try:
        return operation()
    except pymongo.errors.ConnectionFailure as error:
        raise errors.StoreUnavailable(f"MongoDB could not {what}: {error}") from error
    except pymongo.errors.OperationFailure as error:
        if error.code in _OPERATIONAL_CODES:
            raise errors.StoreUnavailable(f"MongoDB could not {what} just now: {error}") from error
        raise errors.Failure(
            f"MongoDB refused to {what}: {error}",
            field="JERVIS_MONGODB_URI",
            remedy="Check the user's rights and the server's version.",
        ) from error
