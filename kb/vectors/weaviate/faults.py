"""What Weaviate, its client and the network say when something is wrong, and what of it may pass by itself."""

from __future__ import annotations

import re

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from weaviate.exceptions import (
    UnexpectedStatusCodeError,
    WeaviateConnectionError,
    WeaviateRetryError,
    WeaviateStartUpError,
    WeaviateTimeoutError,
)

from kb import errors

AWAY = (WeaviateTimeoutError, WeaviateConnectionError, WeaviateStartUpError)
_BUSY = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
}
# Said of a collection that is not there: it has gone, or this server has not loaded it yet.
_NO_COLLECTION = re.compile(
    r"could not find class|class .* not found|not found in schema|could not check if tenant exists"
    r"|(cannot|could not) find index for class|non-existing index",
    re.IGNORECASE,
)
# Said when nothing was ever written for a client.
_NO_TENANT = re.compile(r"tenant (not found|.* not found|.*does not exist)", re.IGNORECASE)
_DIMENSIONS = re.compile(r"vector length|vector dimension|dimensions? mismatch", re.IGNORECASE)


def is_operational(error: BaseException) -> bool:
    """Busy, away, or a collection or tenant that was lost and is made again by the next call.

    weaviate-client keeps only the text of a gRPC error; the error itself is found along the chain of causes.
    """
    if isinstance(error, UnexpectedStatusCodeError) and error.status_code >= 500:
        return True
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, WeaviateRetryError):
            return True
        if isinstance(cause, grpc.aio.AioRpcError) and cause.code() in _BUSY:
            return True
        cause = cause.__cause__ or cause.__context__
    return no_collection(error)


def no_collection(error: BaseException) -> bool:
    """Whether the collection asked for has gone, or is not loaded yet."""
    return bool(_NO_COLLECTION.search(str(error)))


def no_tenant(error: BaseException) -> bool:
    """Whether the client asked for has no tenant."""
    return bool(_NO_TENANT.search(str(error)))


def refuse_dimensions(message: str, embed_model: str) -> None:
    """Raise `errors.Misconfigured` when the message speaks of vectors of another length than those stored."""
    if _DIMENSIONS.search(message):
        raise errors.Misconfigured(
            f"model {embed_model!r} gives vectors of another dimension than those stored: {message}",
            field="embedModel",
            remedy="Give the other embedding model another name, so that it has an index of its own.",
        )
