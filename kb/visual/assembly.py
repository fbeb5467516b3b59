"""Pages, put together for `kb.service.serving` and `kb.service.assembly` from a process's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx

from kb import metrics, mongo, settings
from kb.content import store as content
from kb.erasure import closed
from kb.files import pages as drawing
from kb.graph import store as graph
from kb.upkeep import check
from kb.vectors import store as vectors
from kb.visual import book, choice, embedder, index, keeper, local, making, pages, search, served
from kb.visual.weaviate import schema, store


@dataclass(frozen=True)
class Ground:
    """What reading and writing of pages stand on."""

    book: book.Book
    index: index.Index
    choices: choice.Registry
    embedder: embedder.Port | None
    limits: making.Limits
    bounds: search.Bounds


@dataclass(frozen=True)
class Writing:
    """What a process that writes has of them."""

    pages: pages.Pages
    maker: making.Maker
    keeper: Callable[[check.Working], keeper.Keeper]


def ground(
    config: settings.Settings, database: mongo.Database, http: httpx.AsyncClient, clock: Callable[[], datetime]
) -> Ground:
    """Connections are made on first use."""
    made = store.Store(
        str(config.weaviate_url),
        config.weaviate_grpc_port,
        config.visual_model,
        index=config.index,
        api_key=config.weaviate_api_key.get_secret_value(),
        folded=config.fold_diacritics,
        layout=schema.Layout(config.visual_encoding, config.weaviate_ef, config.weaviate_replicas),
    )
    return Ground(
        book.Book(database, clock),
        made,
        choice.Mongo(database, clock),
        _embedder(config, http),
        making.Limits(config.visual_pages, config.pdf_page_chars),
        search.Bounds(),
    )


def reading(
    on: Ground, kept: content.Store, graph_store: graph.Store, passages: vectors.Store, meters: metrics.Metrics
) -> search.Search:
    """The search of a process that reads."""
    return search.Search(on.book, on.index, kept, graph_store, passages, on.embedder, meters, on.bounds)


def writing(
    on: Ground,
    kept: content.Store,
    graph_store: graph.Store,
    shut: closed.Closed,
    limits: drawing.Limits,
    meters: metrics.Metrics,
    clock: Callable[[], datetime],
) -> Writing:
    """What makes pages and keeps them."""
    # Not the one of uploads, which draws one file at a time: a long file must not keep an upload waiting.
    renderer = drawing.Renderer(limits)
    maker = making.Maker(on.book, on.index, kept, on.choices, renderer, on.embedder, shut, meters, clock, on.limits)
    mine = pages.Pages(on.book, on.index, kept, on.choices, graph_store, clock, maker.wake)

    def keeping(working: check.Working) -> keeper.Keeper:
        return keeper.Keeper(
            on.book, on.index, kept, on.choices, graph_store, mine, maker, working, meters, clock, on.limits
        )

    return Writing(mine, maker, keeping)


def _embedder(config: settings.Settings, http: httpx.AsyncClient) -> embedder.Port | None:
    if config.visual_weights:
        return local.Local(config.visual_model, Path(config.visual_weights), config.visual_family)
    if not config.visual_url:
        return None
    patches = embedder.Patches(config.visual_patch_pixels, most=config.visual_patches, first=config.visual_first_patch)
    return served.Served(
        config.visual_url,
        config.visual_model,
        http,
        token_file=config.visual_token_file,
        said=config.visual_prompt,
        before=config.visual_query_prefix,
        patches=patches,
        pixels=config.visual_pixels,
    )
