"""Pages while something goes wrong: outages, two makers, newer versions, moves, other models, and pages that break."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from crds import scope
from kb import errors, mongo
from kb.files import pages as drawing
from kb.visual import book, embedder, keeper, making, search
from tests import waiting
from tests.fakes import glyphs
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.files import making as files
from tests.kb.visual import place as places
from tests.kb.visual.test_documents import LEASE, PUMP, TWO, URN, ask, drawn, send, sent

pytestmark = pytest.mark.services

LONG = files.pages(*(places.lines(f"Chapter {number} of the manual", *PUMP) for number in range(1, 12)))
OFF = errors.Away("visual", "it is off", retry_after=5)
MOVED = scopes.make("acme", "shop", "wholesale")

Another = Callable[..., making.Maker]


@pytest.fixture
def another(place: places.Place, database: mongo.Database, clock: clocks.Clock) -> Another:
    """A maker of another process."""

    def make(
        embedding: embedder.Port | None = None,
        limits: making.Limits = making.Limits(),  # noqa: B008 -- frozen
        drawn: drawing.Limits = drawing.Limits(),  # noqa: B008 -- frozen
    ) -> making.Maker:
        stores = book.Book(database, clock), place.index, place.content, place.choices
        return making.Maker(*stores, drawing.Renderer(drawn), embedding, place.kb.shut, place.meters, clock, limits)

    return make


def interrupted(holder: object, name: str, meanwhile: Callable[..., Awaitable[None]]) -> list[tuple[Any, ...]]:
    """Let `meanwhile` come before each call of that method, with its arguments; the arguments of all calls."""
    real, calls = getattr(holder, name), list[tuple[Any, ...]]()

    async def call(*args: Any, **more: Any) -> Any:
        calls.append(args)
        await meanwhile(*args, **more)
        return await real(*args, **more)

    setattr(holder, name, call)
    return calls


async def models(place: places.Place) -> list[str]:
    """The model of each page's vectors, in order of the pages; "" for one without."""
    ids = [one.page_id for one in await place.book.page_ids("acme")]
    return [page.model if len(page.vectors) else "" for page in await place.book.get(ids)]


async def test_an_outage_fails_no_document_and_pauses_grow(place: places.Place, clock: clocks.Clock) -> None:
    await sent(place)
    place.glyphs.away = OFF
    pauses = []
    for _ in range(60):
        assert await place.make() == 1
        [work] = await place.book.listed("acme")
        assert (work.state, work.claim, work.attempts) == ("Waiting", "", 0)
        assert work.next_at is not None
        pauses.append((work.next_at - clock()).total_seconds())
        clock.advance(seconds=301)
    assert pauses == [5, 10, 20, 40, 80, 160, *([300] * 54)]
    assert (await ask(place, "pressure valve", ways="Words")).pages[0].page_number == 2
    place.glyphs.away = None
    assert await place.make() == 1
    assert await models(place) == ["glyphs-128"] * 2


async def test_what_ends_its_process_again_and_again_fails_and_keeps_its_file(
    place: places.Place, clock: clocks.Clock
) -> None:
    await sent(place)
    for _ in range(50):
        assert await place.book.claim() is not None
        clock.advance(seconds=601)
    assert await place.make() == 1
    [work] = await place.book.listed("acme")
    assert (work.state, work.file is not None) == ("Failed", True)
    assert "50 times" in work.problems[0]
    assert await place.make() == 0
    # Who sends the file again has it tried again.
    assert await send(place, TWO)
    assert await place.make() == 1
    assert await models(place) == ["glyphs-128"] * 2


async def test_the_file_of_a_newer_version_survives_the_end_of_the_one_before(place: places.Place) -> None:
    await sent(place)
    newer = files.pages(places.lines(*LEASE[:2]))
    kept = []
    real = place.book.finish

    async def finish(*args: Any) -> bool:
        kept.append(await place.pages.keep(scopes.SHOP, URN, newer, "application/pdf"))
        done = await real(*args)
        await send(place, newer)
        return done

    place.book.finish = finish  # type: ignore[method-assign, assignment]
    assert await place.maker.step()
    place.book.finish = real  # type: ignore[method-assign]
    assert await place.content.load(scopes.SHOP, kept[0].key) == newer
    assert await place.make() == 1
    assert await place.stored() == (1, 1, 1, 1)


async def test_a_maker_that_lost_its_claim_leaves_the_pages_of_the_other(
    place: places.Place, clock: clocks.Clock, another: Another
) -> None:
    await sent(place)
    other = another(glyphs.Glyphs())

    async def take_over(*_: Any, **known: Any) -> None:
        if len(calls) == 3:
            clock.advance(seconds=601)
            assert await other.step()

    calls = interrupted(place.book, "progress", take_over)
    assert await place.maker.step()
    assert len(calls) == 3, "words, all drawn, vectors; then it stops"
    assert await place.stored() == (1, 2, 2, 1)
    assert (await place.client.pages.state(scopes.SHOP, URN)).state == "Done"
    assert await place.keeper.sweep() == (0, 0)
    assert [one.page_number for one in (await ask(place, "pressure valve", ways="Images")).pages] == [2, 1]


async def test_slow_embedding_keeps_its_claim(place: places.Place, clock: clocks.Clock, another: Another) -> None:
    await sent(place)
    slow, seen = glyphs.Glyphs(), []

    async def signed() -> bool:
        [work] = await place.book.listed("acme")
        return bool(work.next_at == clock() + timedelta(minutes=10))

    async def wait(images: Any) -> None:
        clock.advance(seconds=400)
        await waiting.eventually(signed, "a sign of life")
        seen.append(await place.book.claim())

    interrupted(slow, "embed_pages", wait)
    assert await another(slow, making.Limits(sign=0.01)).step()
    assert seen == [None], "a sign of life came, and no other maker gets it"
    assert (await place.client.pages.state(scopes.SHOP, URN)).state == "Done"


@pytest.mark.parametrize("ways", ["Words", "Images"])
async def test_what_is_hidden_takes_no_place_of_what_is_shown(place: places.Place, ways: str) -> None:
    await place.choose(scopes.SHOP)
    for at in range(3):
        await send(place, files.pages(places.lines("pressure valve")), f"file::{at}")
    await send(place, TWO)
    assert await place.make() == 4
    for at in range(3):
        await place.kb.ingest(world.request("Nothing.", urn=f"file::{at}", kind="file"))
    place.search._bounds = search.Bounds(candidates=1)
    assert [one.source_urn for one in (await ask(place, "pressure valve", ways=ways, topK=1)).pages] == [URN]


async def test_a_deletion_where_there_are_no_pages_asks_no_index(place: places.Place) -> None:
    await send(place, TWO)
    calls = interrupted(place.index, "drop", away)
    await place.client.forget(scopes.SHOP, URN)
    assert calls == []
    await sent(place)
    await place.book.claim()
    with pytest.raises(errors.Away):
        await place.pages.drop(scopes.SHOP, (await place.book.listed("acme"))[0].source.document_id)
    assert len(calls) == 1


async def away(*_: Any, **more: Any) -> None:
    raise errors.Away("weaviate", "test")


async def test_a_deletion_that_broke_off_is_gone_on_with(place: places.Place) -> None:
    await drawn(place)
    [work] = await place.book.listed("acme")
    real = place.index.drop

    interrupted(place.index, "drop", away)
    with pytest.raises(errors.Away):
        await place.pages.drop(scopes.SHOP, work.source.document_id)
    place.index.drop = real  # type: ignore[method-assign]
    assert await place.pages.drop(scopes.SHOP, work.source.document_id) == 2
    assert await place.stored() == (0, 0, 0, 0)


async def test_parts_are_found_by_an_index_and_collections_are_listed_once(place: places.Place) -> None:
    await drawn(place)
    await place.content.drop_parts("none")
    assert "metadata.partOf_1" in await place.content._files.index_information()
    listed = interrupted(place.index._client.collections, "list_all", away)
    for _ in range(3):
        await place.index.drop(scopes.SHOP, "none")
    assert listed == [], "the first version's end has listed them"


async def test_a_project_that_moves_while_its_pages_are_made_takes_them_along(place: places.Place) -> None:
    await sent(place)

    async def move(*_: Any) -> None:
        if len(calls) == 1:
            await place.kb.graph.regroup(MOVED)
            await place.content.regroup(MOVED)
            await place.pages.regroup(MOVED)

    calls = interrupted(place.index, "put", move)
    assert await place.make() == 1
    assert await owners(place) == ({MOVED}, {MOVED}, {"wholesale"})
    assert await place.keeper.sweep() == (0, 0)


async def test_the_keeper_gives_pages_the_owner_of_their_document(place: places.Place) -> None:
    await drawn(place)
    await place.kb.graph.regroup(MOVED)
    await mongo.regroup(place.book._works, MOVED, {})
    assert await owners(place) == ({scopes.SHOP}, {scopes.SHOP}, {scopes.SHOP.group_id})
    assert await place.keeper.sweep() == (0, 2 + 2)
    assert await owners(place) == ({MOVED}, {MOVED}, {"wholesale"})
    assert await place.keeper.sweep() == (0, 0)


async def owners(place: places.Place) -> tuple[set[scope.Scope], set[scope.Scope], set[str]]:
    """Of pages, of what the index has, and the groups of parts."""
    indexed, _ = await place.index.audit("acme")
    groups = {row["metadata"]["groupId"] async for row in place.content._files.find({})}
    return {one.owner for one in await place.book.page_ids("acme")}, {one.owner for one in indexed}, groups


async def test_parts_that_a_crash_leaves_go(place: places.Place, clock: clocks.Clock) -> None:
    await drawn(place)
    ghost = scopes.make("ghost", "", "")
    await place.content.save(ghost, b"page", "image/png", part_of="gone")
    assert await place.keeper.sweep() == (0, 0)
    assert await place.content._files.count_documents({}) == 4
    clock.advance(seconds=3700)
    assert await place.keeper.sweep() == (0, 2), "the file that is drawn, and what no document has"
    assert await place.content._files.count_documents({}) == 2
    assert (await place.stored())[3] == 1


async def test_vectors_of_two_models_never_meet(place: places.Place, clock: clocks.Clock, another: Another) -> None:
    await place.choose(scopes.SHOP)
    await send(place, LONG)
    first = glyphs.Glyphs("glyphs-1")

    async def turn_off(images: Any) -> None:
        if first.pages >= 8:
            raise OFF

    interrupted(first, "embed_pages", turn_off)
    assert await another(first).step()
    assert await models(place) == [*["glyphs-1"] * 8, *[""] * 3]
    clock.advance(seconds=60)
    hits = await place.index.by_words(scopes.SHOP, "manual", limit=20)
    question = (await first.embed_query("pressure")).vectors
    assert (await place.search.exact(scopes.SHOP, question, hits))[0] == {}, "as many numbers, of another model"
    assert await place.make() == 1
    assert await models(place) == ["glyphs-128"] * 11
    assert len((await place.search.exact(scopes.SHOP, question, hits))[0]) == 11


async def test_a_process_without_a_model_keeps_the_vectors(
    place: places.Place, clock: clocks.Clock, another: Another
) -> None:
    await drawn(place)
    bare = another()
    await place.index.discard("acme", [one.page_id for one in await place.book.page_ids("acme")])
    keeping = keeper.Keeper(
        place.book, place.index, place.content, place.choices, place.kb.graph, place.pages, bare, world.idle,
        place.meters, clock,
    )  # fmt: skip
    assert await keeping.sweep() == (0, 2), "what its index lacks comes from what is kept"
    assert not await bare.step()
    assert await models(place) == ["glyphs-128"] * 2
    assert (await ask(place, "pressure valve", ways="Words")).pages[0].page_number == 2


async def test_a_page_that_cannot_be_drawn_costs_itself_alone(place: places.Place, another: Another) -> None:
    await place.choose(scopes.SHOP)
    noise = random.Random(1).randbytes(300 * 300).hex()
    broken = f"q 612 0 0 792 0 0 cm BI /W 300 /H 300 /CS /G /BPC 8 /F /AHx ID {noise}> EI Q"
    texts = [places.lines(f"Chapter {number}", *PUMP) for number in range(1, 5)]
    await send(place, files.pages(texts[0], broken.encode(), *texts[1:]))
    assert await another(glyphs.Glyphs(), drawn=drawing.Limits(bytes=60_000)).step()
    state = await place.client.pages.state(scopes.SHOP, URN)
    assert (state.state, state.count, state.done) == ("Done", 5, 5)
    assert state.problems == ["page 2 could not be drawn: the images of its pages have more than 60000 bytes"]
    assert sorted(one.page_number for one in (await ask(place, "chapter pressure valve", topK=9)).pages) == [1, 3, 4, 5]


async def test_a_drawing_that_comes_too_late_is_tried_again(
    place: places.Place, clock: clocks.Clock, another: Another
) -> None:
    await sent(place)
    assert await another(drawn=drawing.Limits(wall=0.0)).step()
    state = await place.client.pages.state(scopes.SHOP, URN)
    assert (state.state, state.problems) == ("Waiting", ["drawing is away: page 1 was not drawn in time"])
    clock.advance(seconds=11)
    assert await place.make() == 1
    assert (await place.client.pages.state(scopes.SHOP, URN)).problems == []


async def test_a_page_that_breaks_the_model_keeps_no_other_from_it(place: places.Place, clock: clocks.Clock) -> None:
    await place.choose(scopes.SHOP)
    await send(place, LONG)
    real, asked = place.glyphs.embed_pages, []
    [third] = [one.image for one in (await drawing.Renderer(drawing.Limits()).lay(LONG, 3, 1)).pages]

    async def embed(images: Any) -> Any:
        asked.append(len(images))
        if third in images:
            raise OFF
        return await real(images)

    place.glyphs.embed_pages = embed  # type: ignore[method-assign]
    assert await place.make() == 1
    assert asked == [8, *[1] * 8, 3]
    assert await models(place) == [*["glyphs-128"] * 2, "", *["glyphs-128"] * 8]
    assert (await place.client.pages.state(scopes.SHOP, URN)).state == "Waiting"
    place.glyphs.embed_pages = real  # type: ignore[method-assign]
    clock.advance(seconds=301)
    assert await place.make() == 1
    assert await models(place) == ["glyphs-128"] * 11
    assert (await place.client.pages.state(scopes.SHOP, URN)).state == "Done"
