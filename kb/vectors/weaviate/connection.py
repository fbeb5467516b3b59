"""The connection, the collections' names, and questions to the tenants in which a viewer's data can lie."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import structlog
import weaviate
from weaviate.classes.init import Auth
from weaviate.classes.query import Filter
from weaviate.collections.classes.filters import FilterReturn
from weaviate.config import AdditionalConfig, Proxies, Timeout
from weaviate.connect import ConnectionParams
from weaviate.exceptions import WeaviateBaseError

from crds import scope
from kb import errors, identity, selection, visibility
from kb.vectors import record
from kb.vectors.weaviate import faults, filters, schema, scores

log = structlog.get_logger(__name__)
READ_SECONDS = 10.0
WRITE_SECONDS = 60.0
IDS = 500
"""Ids that one question names at most."""
_TENANTS = 1000


class Connection:
    """What reading and writing stand on: one client, connected on first use."""

    def __init__(
        self,
        url: str,
        grpc_port: int,
        embed_model: str,
        *,
        index: str = "",
        api_key: str = "",
        folded: bool = True,
        beside: str = "",
        layout: schema.Layout = schema.Layout(),  # noqa: B008 -- frozen
    ) -> None:
        self._model = embed_model
        self._index = schema.Index(embed_model, folded, layout)
        self._prefix = f"Jervis{identity.digest(index)[:8].upper()}" if index else "Jervis"
        self._chunks_name, self._sentences_name = self._names(embed_model)
        self._beside = self._names(beside) if beside else ()
        self._client = weaviate.WeaviateAsyncClient(
            ConnectionParams.from_url(url, grpc_port),
            auth_client_secret=Auth.api_key(api_key) if api_key else None,
            additional_config=AdditionalConfig(
                timeout=Timeout(init=5, query=READ_SECONDS, insert=WRITE_SECONDS),
                # The driver reads SSL_CERT_FILE together with the variables of proxies, or neither.
                trust_env=url.startswith("https:"),
                proxies=Proxies(),
            ),
            # The checks ask a package index for newer versions.
            skip_init_checks=True,
        )
        self._opening: asyncio.Task[None] | None = None
        self._complete = False
        self._tenants: dict[tuple[str, str, bool], Any] = {}

    def _names(self, embed_model: str) -> tuple[str, str]:
        """The collections of chunks and of sentences of a model's index."""
        suffix = f"V{schema.LAYOUT}M{identity.digest(embed_model)[:8]}"
        return f"{self._prefix}Chunk{suffix}", f"{self._prefix}Sentence{suffix}"

    async def ready(self) -> None:
        async with self._session(READ_SECONDS):
            if not await self._client.is_ready():
                raise errors.Away("weaviate", "it says that it is not ready")

    async def close(self) -> None:
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
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
            faults.refuse_caller(error)
            if faults.is_operational(error):
                raise errors.Away("weaviate", str(error)[:300], retry_after=2) from error
            faults.refuse_dimensions(str(error), self._model)
            raise

    async def _open(self) -> None:
        if self._complete:
            return
        if self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._prepare())
        # To bring many objects up to date takes longer than a question may: it goes on when the question is given up.
        await asyncio.shield(self._opening)

    async def _prepare(self) -> None:
        self._tenants.clear()
        try:
            with faults.of_another_program():
                await self._client.connect()
        except BaseException:
            # The driver would open another connection beside this one the next time.
            await self._client.close()
            raise
        await self._warn()
        for name, properties in ((self._chunks_name, schema.CHUNK), (self._sentences_name, schema.SENTENCE)):
            await schema.ensure(self._client, name, properties, self._index)
        self._complete = True

    async def _warn(self) -> None:
        """Log an index that is about to begin empty beside that of another model, whose documents it does not find."""
        with faults.of_another_program():
            there = await self._client.collections.list_all()
        others = [one for name, one in there.items() if name.startswith(f"{self._prefix}Chunk")]
        if others and self._chunks_name not in there and not self._beside:
            log.warning(
                "the index of this embedding model is empty, and that of another one is not read",
                model=self._model,
                others=[(one.description or "").partition(schema.EMBEDDINGS)[2] for one in others],
                remedy="Name the model before in JERVIS_KB_EMBED_MODEL_BEFORE, and its index is copied.",
            )

    def _tenant(self, name: str, client_id: str, history: bool = False) -> Any:
        """The driver's client of a tenant; made anew for each call it takes longer than the call itself.

        Its own checks of every argument are left out: all that goes in is made by this package.
        """
        known = self._tenants.get((name, client_id, history))
        if known is None:
            if len(self._tenants) >= _TENANTS:
                self._tenants.clear()
            collection = self._client.collections.use(name, skip_argument_validation=True)
            own = record.tenant(client_id, history=history)
            known = self._tenants[name, client_id, history] = collection.with_tenant(own)
        return known

    async def _in(
        self, name: str, client_id: str, ask: Callable[[Any], Awaitable[Any]], *, history: bool = False
    ) -> list[Any]:
        """What `ask` finds in the tenant of a client; nothing, where nothing was ever written for it."""
        try:
            found = await ask(self._tenant(name, client_id, history))
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
        *,
        history: bool = False,
    ) -> list[Any]:
        """What `ask` finds in each tenant in which the viewer's data can lie, filtered by `kb.visibility.sees`.

        Those of replaced versions are among them with `history`, and where a moment is chosen.
        """

        def within(client: str, past: bool, where: FilterReturn | None) -> Awaitable[list[Any]]:
            return self._in(name, client, lambda tenant: ask(tenant, where), history=past)

        return await _everywhere(viewer, within, chosen, ids, history=history, chunks=name == self._chunks_name)

    async def _scored(
        self,
        name: str,
        viewer: scope.Scope,
        search: scores.Search,
        chosen: selection.Selection = selection.ALL,
        ids: Sequence[str] = (),
        *,
        limit: int,
        history: bool = False,
    ) -> list[scores.Row]:
        """The same of a search that wants nothing but ids and scores."""

        async def within(client: str, past: bool, where: FilterReturn | None) -> list[scores.Row]:
            own = record.tenant(client, history=past)
            try:
                return await scores.find(self._client, name, own, search, where, limit=limit)
            except WeaviateBaseError as error:
                if faults.no_tenant(error):
                    return []
                raise

        return await _everywhere(viewer, within, chosen, ids, history=history, chunks=name == self._chunks_name)


async def _everywhere(
    viewer: scope.Scope,
    within: Callable[[str, bool, FilterReturn | None], Awaitable[list[Any]]],
    chosen: selection.Selection,
    ids: Sequence[str],
    *,
    history: bool,
    chunks: bool,
) -> list[Any]:
    """What `within` finds in each tenant in which the viewer's data can lie.

    Where ids are asked for, the global tenant is asked for those alone that the viewer's own does not have: most
    questions are about what is there.
    """
    times = (False, True) if history or chosen.as_of is not None else (False,)
    found: list[Any] = []
    places = [(client, past) for client in visibility.clients(viewer) for past in times]
    rounds = [[one for one in places if one[0] == client] for client in (viewer.client_id, "")] if ids else [places]
    left = list(ids)
    for asked in rounds if viewer.client_id else [places]:
        if ids and not left:
            break
        wanted = [_filter(viewer, client, chosen, left, history=past, chunks=chunks) for client, past in asked]
        answers = (within(client, past, where) for (client, past), where in zip(asked, wanted, strict=True))
        rows = [row for some in await asyncio.gather(*answers) for row in some]
        found += rows
        if ids:
            known = {str(row.uuid) for row in rows}
            left = [one for one in left if one not in known]
    return found


def _filter(
    viewer: scope.Scope,
    client: str,
    chosen: selection.Selection,
    ids: Sequence[str],
    *,
    history: bool,
    chunks: bool,
) -> FilterReturn | None:
    """`chunks`: they alone have labels. A sentence is asked for by the id that the graph has shown."""
    own = [*([filters.sees(viewer)] if client else []), *(filters.may(viewer) if chunks else [])]
    wanted = [*own, *filters.admits(chosen, history=history)]
    if ids:
        wanted.append(filters.among(ids))
    return Filter.all_of(wanted) if wanted else None


def batches(items: Sequence[Any], size: int) -> Iterator[Any]:
    """The items in order, at most `size` at a time."""
    return (items[start : start + size] for start in range(0, len(items), size))
