"""The index of pages on a real Weaviate: what it finds, for whom, and what goes when a document goes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest
import structlog
from aiohttp import web

from crds import scope
from kb import errors, identity, visibility
from kb.visual import index as port
from kb.visual import maxsim
from kb.visual.weaviate import schema, store
from tests import httpserver, ports
from tests.kb import forwarder, scopes
from tests.kb.visual.conftest import Opened, indexed, numbers, source, vectors

pytestmark = pytest.mark.services


async def test_pages_come_in_the_order_of_maxsim(index: port.Index) -> None:
    await index.ready()
    mine = source(scopes.SHOP)
    await index.put([indexed(mine, number) for number in range(1, 13)])
    question = vectors(99, 4)
    exact = sorted(((maxsim.score(question, vectors(number)), number) for number in range(1, 13)), reverse=True)
    hits = await index.by_vectors(scopes.SHOP, question, limit=5)
    assert numbers(hits, mine) == [number for _, number in exact[:5]]
    np.testing.assert_allclose([hit.score for hit in hits], [score for score, _ in exact[:5]], atol=1e-4)
    assert {(hit.document_id, hit.owner) for hit in hits} == {(mine.document_id, scopes.SHOP)}
    assert await index.by_vectors(scopes.SHOP, question[:0], limit=5) == []


async def test_words_find_the_text_of_a_page_and_flags_and_sources_narrow(index: port.Index) -> None:
    mine, other = source(scopes.SHOP), source(scopes.SHOP, "scan::b")
    await index.put(
        [
            indexed(mine, 1, "The pump P-17 was replaced in Brno.", seen_only=False),
            indexed(mine, 2, "Invoices of the office", seen_only=False),
            indexed(other, 1, "", seen_only=True),
        ]
    )
    assert numbers(await index.by_words(scopes.SHOP, "pumps in brno", limit=5), mine) == [1]
    assert await index.by_words(scopes.SHOP, "the of", limit=5) == []
    [scan] = await index.by_vectors(scopes.SHOP, vectors(1), limit=5, seen_only=True)
    assert scan.document_id == other.document_id
    assert len(await index.by_vectors(scopes.SHOP, vectors(1), limit=5, sources=["scan::*"])) == 1
    assert len(await index.by_vectors(scopes.SHOP, vectors(1), limit=5, sources=["file::a"])) == 2
    assert await index.by_vectors(scopes.SHOP, vectors(1), limit=5, sources=[]) == []


async def test_the_table_of_scopes(index: port.Index) -> None:
    owners = [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL]
    await index.put([indexed(source(owner), 1, "invoice") for owner in owners])
    for viewer in owners:
        wanted = {owner for owner in owners if visibility.sees(viewer, owner)}
        assert {hit.owner for hit in await index.by_vectors(viewer, vectors(1), limit=20)} == wanted
        assert {hit.owner for hit in await index.by_words(viewer, "invoices", limit=20)} == wanted


async def test_a_document_s_pages_go_without_those_of_its_present_version(index: port.Index) -> None:
    old, new = source(scopes.SHOP), source(scopes.SHOP, revision="r2")
    beside = source(scopes.SHOP, "file::b")
    await index.put([indexed(old, 1), indexed(old, 2), indexed(new, 1), indexed(beside, 1)])
    assert await index.drop(scopes.SHOP, old.document_id, keep=new.id) == 2
    left, after = await index.audit("acme")
    assert after is None
    assert {one.work_id for one in left} == {new.id, beside.id}
    assert await index.drop(scopes.SHOP, old.document_id) == 1
    await index.discard("acme", [beside.page_id(1)])
    assert await index.audit("acme") == ([], None)


async def test_an_audit_goes_page_by_page(index: port.Index) -> None:
    mine = source(scopes.SHOP)
    await index.put([indexed(mine, number) for number in range(1, 6)])
    first, after = await index.audit("acme", limit=3)
    rest, end = await index.audit("acme", after=after, limit=3)
    assert (len(first), len(rest), end) == (3, 2, None)
    assert {one.page_id for one in (*first, *rest)} == {mine.page_id(number) for number in range(1, 6)}


@pytest.mark.parametrize("where", [scopes.ACME, scopes.SHOP, scopes.RETAIL, scopes.GLOBAL], ids=str)
async def test_an_erasure_takes_what_its_scope_covers(index: port.Index, where: scope.Scope) -> None:
    owners = [scopes.GLOBAL, scopes.ACME, scopes.OTHER, scopes.SHOP, scopes.TILL, scopes.BLOG, scopes.RETAIL]
    await index.put([indexed(source(owner), 1) for owner in owners])
    gone = [owner for owner in owners if where.covers(owner)]
    assert await index.erase(where) == len(gone)
    assert await index.erase(where) == 0
    left: set[scope.Scope] = set()
    for viewer in owners:
        left |= {hit.owner for hit in await index.by_vectors(viewer, vectors(1), limit=20)}
    assert left == set(owners) - set(gone)


async def test_a_project_s_pages_follow_it_into_its_group(index: port.Index) -> None:
    await index.put([indexed(source(scopes.SHOP), number) for number in (1, 2)])
    moved = scopes.make("acme", "shop", "wholesale")
    assert await index.regroup(moved) == 2
    assert await index.regroup(moved) == 0
    seen = await index.by_vectors(scopes.make("acme", "bulk", "wholesale"), vectors(1), limit=5)
    assert [hit.owner for hit in seen] == [moved, moved]
    assert seen[0].score == pytest.approx(6, abs=1e-4), "the vectors stayed"
    assert await index.by_vectors(scopes.TILL, vectors(1), limit=5) == []


async def test_a_page_without_vectors_is_found_by_its_words(index: port.Index) -> None:
    one = source(scopes.SHOP)
    bare = indexed(one, 1, "invoice")
    await index.put([type(bare)(bare.id, one, 1, "invoice", False, vectors(1)[:0])])
    assert numbers(await index.by_words(scopes.SHOP, "invoice", limit=5), one) == [1]
    assert await index.by_vectors(scopes.SHOP, vectors(1), limit=5) == []


async def test_what_cannot_be_changed_is_said(opened: Opened) -> None:
    made, plain = opened(layout=schema.Layout(encoding="muvera")), opened()
    await made.put([indexed(source(scopes.SHOP), 1)])
    with pytest.raises(errors.Unconfigured, match="visualEncoding=muvera"):
        await plain.ready()
    short = source(scopes.SHOP, "file::b")
    wrong = indexed(short, 1)
    with pytest.raises(errors.Unconfigured, match="another dimension"):
        await made.put([type(wrong)(wrong.id, short, 1, "", True, vectors(1)[:, :4])])


@pytest.mark.parametrize(("encoding", "cutoff"), [("", 4_000), ("muvera", 40_000)])
async def test_many_pages_are_searched_by_the_graph(
    weaviate_index: str, schemas: httpx.AsyncClient, opened: Opened, encoding: Any, cutoff: int
) -> None:
    """All of them one by one takes 45 us a page; a collection that is there is changed."""
    layout = schema.Layout(encoding=encoding)
    await opened(layout=layout).put([indexed(source(scopes.SHOP), 1)])
    bounds = await bounded(schemas, weaviate_index, cutoff=7)
    assert bounds["flatSearchCutoff"] == cutoff
    again = opened(layout=layout)
    await again.ready()
    assert (await described(schemas, weaviate_index))["vectorConfig"][schema.VECTOR]["vectorIndexConfig"] == bounds
    assert numbers(await again.by_vectors(scopes.SHOP, vectors(1), limit=5), source(scopes.SHOP)) == [1]


@pytest.fixture
async def schemas(weaviate_server: tuple[str, int]) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{weaviate_server[0]}/v1/schema", timeout=60) as http:
        yield http


async def described(schemas: httpx.AsyncClient, weaviate_index: str) -> dict[str, Any]:
    """The collection of pages as Weaviate has it."""
    begins = f"Jervis{identity.digest(weaviate_index)[:8].upper()}Page"
    [name] = [one["class"] for one in (await schemas.get("")).json()["classes"] if one["class"].startswith(begins)]
    collection: dict[str, Any] = (await schemas.get(f"/{name}")).json()
    return collection


async def bounded(schemas: httpx.AsyncClient, weaviate_index: str, *, cutoff: int) -> dict[str, Any]:
    """Change the cutoff of the collection; how its vectors were kept before."""
    collection = await described(schemas, weaviate_index)
    bounds = collection["vectorConfig"][schema.VECTOR]["vectorIndexConfig"]
    before = dict(bounds)
    bounds["flatSearchCutoff"] = cutoff
    (await schemas.put(f"/{collection['class']}", json=collection)).raise_for_status()
    return before


BUSY = 'updating db: TYPE_UPDATE_CLASS: vector index configs update: shard "acme": store is read-only due to: '
BUSY += "UpdateVectorIndexConfigs: [page]"
"""What Weaviate says with 422 while it takes the same change of another process."""


class Racing:
    """Weaviate as a process sees it whose change of a collection meets that of another process. The other one has made
    it by then (`done`), or has not."""

    def __init__(self, http: httpx.AsyncClient, *, done: bool) -> None:
        self.refused = 0
        self._http = http
        self._done = done

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        change = request.method == "PUT" and request.path.startswith("/v1/schema/Jervis")
        if not change or self._done:
            kind = {"Content-Type": request.headers.get("Content-Type", "application/json")}
            got = await self._http.request(request.method, request.path_qs, content=body, headers=kind)
        if change:
            self.refused += 1
            return web.json_response({"error": [{"message": BUSY}]}, status=422)
        return web.Response(status=got.status_code, body=got.content, content_type="application/json")


@asynccontextmanager
async def racing(
    weaviate_server: tuple[str, int], index_: str, *, done: bool
) -> AsyncIterator[tuple[Racing, store.Store]]:
    """A store behind such a Weaviate."""
    url, target = weaviate_server
    grpc = forwarder.Forwarder(httpx.URL(url).host, target, ports.free())
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        race = Racing(http, done=done)
        async with httpserver.serving(race.answer) as relayed:
            await grpc.up()
            made = store.Store(relayed, grpc.port, index_, index=index_)
            try:
                yield race, made
            finally:
                await made.close()
                await grpc.down()


@pytest.mark.parametrize("done", [True, False], ids=["the-other-was-faster", "it-stays"])
async def test_a_change_that_weaviate_refuses_costs_no_question(
    weaviate_server: tuple[str, int], weaviate_index: str, schemas: httpx.AsyncClient, opened: Opened, done: bool
) -> None:
    """Several processes that start at once change the same collection; the cutoff costs speed alone."""
    mine = source(scopes.SHOP)
    await opened().put([indexed(mine, 1, "invoice")])
    await bounded(schemas, weaviate_index, cutoff=7)
    async with racing(weaviate_server, weaviate_index, done=done) as (race, late):
        with structlog.testing.capture_logs() as logged:
            assert numbers(await late.by_vectors(scopes.SHOP, vectors(1), limit=5), mine) == [1]
        await late.put([indexed(source(scopes.SHOP, "file::b"), 1, "receipt")])
        assert numbers(await late.by_words(scopes.SHOP, "invoice", limit=5), mine) == [1]
    assert race.refused == 1
    assert [(one["log_level"], one["there"], one["wanted"]) for one in logged] == (
        [] if done else [("warning", 7, 4_000)]
    )
