"""The connection, the collections' names, and questions to the tenants in which a viewer's data can lie."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import weaviate
from weaviate.classes.query import Filter
from weaviate.collections.classes.filters import FilterReturn
from weaviate.config import AdditionalConfig, Timeout
from weaviate.connect import ConnectionParams
from weaviate.exceptions import WeaviateBaseError

from crds import scope
from kb import errors, identity, selection, visibility
from kb.vectors import record
from kb.vectors.weaviate import faults, filters, schema

READ_SECONDS = 10.0
WRITE_SECONDS = 60.0
IDS = 500
"""Ids that one question names at most."""
_TENANTS = 1000


class Connection:
    """What reading and writing stand on: one client, connected on first use."""

    def __init__(self, url: str, grpc_port: int, embed_model: str, *, index: str = "") -> None:
        self._model = embed_model
        self._prefix = f"Jervis{identity.digest(index)[:8].upper()}" if index else "Jervis"
        suffix = f"V{schema.LAYOUT}M{identity.digest(embed_model)[:8]}"
        self._chunks_name = f"{self._prefix}Chunk{suffix}"
        self._sentences_name = f"{self._prefix}Sentence{suffix}"
        self._client = weaviate.WeaviateAsyncClient(
            ConnectionParams.from_url(url, grpc_port),
            additional_config=AdditionalConfig(timeout=Timeout(init=5, query=READ_SECONDS, insert=WRITE_SECONDS)),
            # The checks ask a package index for newer versions.
            skip_init_checks=True,
        )
        self._opening = asyncio.Lock()
        self._complete = False
        self._tenants: dict[tuple[str, str], Any] = {}

    async def ready(self) -> None:
        async with self._session(READ_SECONDS):
            if not await self._client.is_ready():
                raise errors.Away("weaviate", "it says that it is not ready")

    async def close(self) -> None:
        await self._client.close()

    @asynccontextmanager
    async def _session(self, seconds: float) -> AsyncIterator[None]:
        """Connected, with both collections there, for at most `seconds`; errors carry our names."""
        try:
            async with asyncio.timeout(seconds):
                await self._open()
                yield
        except (TimeoutError, httpx.HTTPError, *faults.AWAY) as error:
            self._complete = False
            raise errors.Away("weaviate", f"{type(error).__name__}: {error}"[:300]) from error
        except WeaviateBaseError as error:
            self._complete = False
            if faults.is_operational(error):
                raise errors.Away("weaviate", str(error)[:300], retry_after=2) from error
            faults.refuse_dimensions(str(error), self._model)
            raise

    async def _open(self) -> None:
        if self._complete:
            return
        async with self._opening:
            if self._complete:
                return
            self._tenants.clear()
            await self._client.connect()
            for name, properties in ((self._chunks_name, schema.CHUNK), (self._sentences_name, schema.SENTENCE)):
                await schema.ensure(self._client, name, properties, self._model)
            self._complete = True

    def _tenant(self, name: str, client_id: str) -> Any:
        """The driver's door to a tenant; made anew for each call it takes longer than the call itself.

        Its own checks of every argument are left out: all that goes in is made by this package.
        """
        known = self._tenants.get((name, client_id))
        if known is None:
            if len(self._tenants) >= _TENANTS:
                self._tenants.clear()
            collection = self._client.collections.use(name, skip_argument_validation=True)
            known = self._tenants[name, client_id] = collection.with_tenant(record.tenant(client_id))
        return known

    async def _in(self, name: str, client_id: str, ask: Callable[[Any], Awaitable[Any]]) -> list[Any]:
        """What `ask` finds in the tenant of a client; nothing, where nothing was ever written for it."""
        try:
            found = await ask(self._tenant(name, client_id))
        except WeaviateBaseError as error:
            if faults.no_tenant(error):
                return []
            raise
        return list(getattr(found, "objects", found))

    async def _seen(
        self,
        name: str,
        viewer: scope.Scope,
        ask: Callable[[Any, FilterReturn | None], Awaitable[Any]],
        chosen: selection.Selection = selection.ALL,
        ids: Sequence[str] = (),
    ) -> list[Any]:
        """What `ask` finds in each tenant in which the viewer's data can lie, filtered by `kb.visibility.sees`."""

        def within(client: str) -> Awaitable[list[Any]]:
            wanted = [*([filters.sees(viewer)] if client else []), *filters.admits(chosen)]
            if ids:
                wanted.append(filters.among(ids))
            where = Filter.all_of(wanted) if wanted else None
            return self._in(name, client, lambda tenant: ask(tenant, where))

        found = await asyncio.gather(*(within(client) for client in visibility.clients(viewer)))
        return [row for rows in found for row in rows]


def batches(items: Sequence[Any], size: int) -> Iterator[Any]:
    """The items in order, at most `size` at a time."""
    return (items[start : start + size] for start in range(0, len(items), size))
