"""What Weaviate, its client and the network say when something is wrong, and what of it may pass by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from weaviate.exceptions import (
    EmptyResponseError,
    ResponseCannotBeDecodedError,
    UnexpectedStatusCodeError,
    WeaviateClosedClientError,
    WeaviateConnectionError,
    WeaviateGRPCUnavailableError,
    WeaviateRetryError,
    WeaviateStartUpError,
    WeaviateTimeoutError,
)

from kb import errors

AWAY = (
    WeaviateTimeoutError,
    WeaviateConnectionError,
    WeaviateStartUpError,
    WeaviateGRPCUnavailableError,
    # The connection was closed because it could not be made whole, or another program answers on the port.
    WeaviateClosedClientError,
    ResponseCannotBeDecodedError,
    EmptyResponseError,
)
_BUSY = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
    # No service of Weaviate's is at this port.
    grpc.StatusCode.UNIMPLEMENTED,
}
_UNKNOWN = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
# Said of a collection that is not there: it has gone, or this server has not loaded it yet.
_NO_COLLECTION = re.compile(
    r"could not find class|class .* not found|not found in schema|could not check if tenant exists"
    r"|(cannot|could not) find index for class|non-existing index",
    re.IGNORECASE,
)
# Said when nothing was ever written for a client.
_NO_TENANT = re.compile(r"tenant (not found|.* not found|.*does not exist)", re.IGNORECASE)
_DIMENSIONS = re.compile(r"vector length|vector dimension|dimensions? mismatch", re.IGNORECASE)


@contextmanager
def of_another_program() -> Iterator[None]:
    """Raise `errors.Away` where the driver stumbles over an answer: it reads them without a look at their form."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise errors.Away("weaviate", f"what answers is not Weaviate: {error!r}"[:300]) from error


def refuse_caller(error: BaseException) -> None:
    """Raise `errors.Away` when Weaviate does not know the caller: what was sent is right, and is sent again.

    A key that is being rotated must not fail the documents that meet it.
    """
    known = isinstance(error, UnexpectedStatusCodeError) and error.status_code in (401, 403)
    calls = [one for one in _causes(error) if isinstance(one, grpc.aio.AioRpcError)]
    if known or any(one.code() in _UNKNOWN or "unauthorized" in (one.details() or "") for one in calls):
        reason = "it refuses the API key, or wants one: set JERVIS_KB_WEAVIATE_API_KEY (chart: weaviate.existingSecret)"
        raise errors.Away("weaviate", reason) from error


def is_operational(error: BaseException) -> bool:
    """Busy, away, or a collection or tenant that was lost and is made again by the next call.

    weaviate-client keeps only the text of a gRPC error; the error itself is found along the chain of causes.
    """
    if isinstance(error, UnexpectedStatusCodeError):
        # Of what this package sends, Weaviate knows every address: who answers 404 is another program, or has lost the
        # collection or the object. 408 and 429 say that it is busy, and a redirect is a proxy's.
        return error.status_code >= 500 or error.status_code < 400 or error.status_code in (404, 405, 408, 429)
    for cause in _causes(error):
        if isinstance(cause, WeaviateRetryError):
            return True
        if isinstance(cause, grpc.aio.AioRpcError) and cause.code() in _BUSY:
            return True
    return no_collection(error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and, from it, what it was raised from."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def no_collection(error: BaseException) -> bool:
    """Whether the collection asked for has gone, or is not loaded yet."""
    return bool(_NO_COLLECTION.search(str(error)))


def no_tenant(error: BaseException) -> bool:
    """Whether the client asked for has no tenant."""
    return bool(_NO_TENANT.search(str(error)))


def refuse_dimensions(message: str, embed_model: str) -> None:
    """Raise `errors.Unconfigured` when the message speaks of vectors of another length than those stored."""
    if _DIMENSIONS.search(message):
        raise errors.Unconfigured(
            f"model {embed_model!r} gives vectors of another dimension than those stored: {message}",
            field="embedModel",
            remedy="Give the other embedding model another name, so that it has an index of its own.",
        )
