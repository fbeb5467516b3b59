"""Pages as parts of documents: made of files that are chosen, found with their evidence, gone with their document."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from crds import scope
from kb import api, client, errors, visibility
from kb.files import pages as drawing
from tests.kb import calls, scopes, world
from tests.kb import clock as clocks
from tests.kb.files import making as files
from tests.kb.visual import place as places

pytestmark = pytest.mark.services

LEASE = [
    "The lease of the office in Brno ends with the year.",
    "The rent is paid on the first day of every month.",
    "Repairs of the heating are paid by the owner of the house.",
]
PUMP = [
    "The pump P-17 was replaced after the winter.",
    "Its pressure valve opens at nine bar and has to be tested twice a year.",
    "Spare parts are stored in the cellar of the plant.",
]
TWO = files.pages(places.lines(*LEASE), places.lines(*PUMP))
SCAN = places.lines("Invoice of the Globex company", "Turbine blades and gaskets", "Payment within fourteen days")
URN = "file::lease"


async def send(place: places.Place, raw: bytes, urn: str = URN, owner: scope.Scope = scopes.SHOP) -> bool:
    reply = await place.client.learning.file(owner, raw, filename="lease.pdf", source_urn=urn)
    return reply.page_images


async def sent(place: places.Place) -> None:
    """The shop's documents have pages, and one of two pages waits for them."""
    await place.choose(scopes.SHOP)
    assert await send(place, TWO)


async def drawn(place: places.Place) -> None:
    """The same with its pages made."""
    await sent(place)
    assert await place.make() == 1


async def ask(place: places.Place, query: str, **more: object) -> api.PageReply:
    asked = {"scope": scopes.SHOP, "query": query} | more
    return await place.client.pages.search(api.PageSearch.model_validate(asked))


async def test_without_a_choice_there_are_no_pages(place: places.Place) -> None:
    assert await send(place, TWO) is False
    assert await place.make() == 0
    assert await place.stored() == (0, 0, 0, 0)
    assert (await ask(place, "pressure valve")).pages == []
    await place.choose(scopes.BLOG)
    assert await calls.page_choices(place.client, scopes.SHOP) == []
    assert await send(place, TWO) is False


async def test_a_page_is_found_by_its_words_with_their_places(place: places.Place) -> None:
    await place.choose(scopes.ACME)
    assert await send(place, TWO) is True
    waiting = await place.client.pages.state(scopes.SHOP, URN)
    assert (waiting.state, waiting.done) == ("Waiting", 0)
    assert (await ask(place, "pressure valve")).pages == []
    assert await place.make() == 1
    assert await place.stored() == (1, 2, 2, 1)
    state = await place.client.pages.state(scopes.SHOP, URN)
    assert (state.state, state.count, state.done, state.model, state.problems) == ("Done", 2, 2, "glyphs-128", [])
    reply = await ask(place, "When is the pressure valve of the pump tested?")
    first = reply.pages[0]
    assert (first.page_number, first.source_urn, first.scope) == (2, URN, scopes.SHOP)
    assert first.found_by == "Words"
    assert first.words == pytest.approx(23 / 27, abs=1e-3), "all but: when"
    assert reply.looked_at_images == "Seen"
    assert [one.text for one in first.rectangles] == ["pump", "pressure valve", "tested"]
    pump = first.rectangles[0]
    # 12 points of Helvetica at 72, 720 on a page of 612 x 792.
    assert pump.left == pytest.approx((72 + 22) / 612, abs=0.02)
    assert pump.bottom == pytest.approx((792 - 720 + 3) / 792, abs=0.01)
    assert "Its pressure valve opens at nine bar" in first.text
    assert (first.width, first.height) == (612, 792)
    assert (await place.client.fetch(scopes.SHOP, first.image.key)).startswith(b"\x89PNG")
    assert first.crop is not None
    cut = base64.b64decode(first.crop.image)
    width, height = (int.from_bytes(cut[at : at + 4], "big") for at in (16, 20))
    assert 0 < height < 1650 / 3
    assert 300 < width <= 1275
    assert (await ask(place, "pressure valve", crop=False)).pages[0].crop is None


async def test_a_scan_is_found_by_what_it_looks_like(place: places.Place) -> None:
    await place.choose(scopes.SHOP)
    assert await send(place, places.scans(SCAN, words=places.lines(*LEASE)), "file::scan")
    assert await send(place, TWO)
    assert await place.make() == 2
    reply = await ask(place, "Turbine blades gaskets")
    assert reply.looked_at_images == "All"
    first = reply.pages[0]
    assert (first.source_urn, first.page_number, first.found_by, first.words) == ("file::scan", 1, "Images", None)
    assert first.similarity is not None
    assert first.similarity > 0.6
    assert first.rectangles == []
    assert first.patches is not None
    assert [one.token for one in first.patches.tokens] == ["Turbine", "blades", "gaskets"]
    # The second line: 92 points below the top of 792.
    rows = [one.patches[0].row / first.patches.rows for one in first.patches.tokens]
    assert all(abs(row - 90 / 792) < 0.03 for row in rows)
    columns = [one.patches[0].column for one in first.patches.tokens]
    assert columns == sorted(set(columns))
    assert first.crop is not None
    assert first.crop.place.top < 90 / 792 < first.crop.place.bottom


async def test_a_page_that_words_tell_comes_before_all_images(place: places.Place) -> None:
    await place.choose(scopes.SHOP)
    await send(place, places.scans(*([SCAN] * 6), words=places.lines("A cover")), "file::scan")
    await send(place, TWO)
    await place.make()
    # Five of its six longer words are on the page.
    reply = await ask(place, "Somewhere pressure valve opens tested pump", topK=3)
    assert reply.looked_at_images == "Seen"
    first = reply.pages[0]
    assert (first.source_urn, first.page_number) == (URN, 2)
    assert first.words is not None
    assert 0.5 < first.words < 1
    assert [one.found_by for one in reply.pages].count("Images") >= 1


async def test_seen_takes_the_pages_that_text_does_not_tell(place: places.Place) -> None:
    await place.choose(scopes.SHOP, "Seen")
    assert await send(place, places.scans(SCAN, words=places.lines(*LEASE)))
    assert await place.make() == 1
    assert await place.stored() == (1, 1, 1, 1)
    assert [one.page_number for one in (await ask(place, "Turbine blades")).pages] == [1]


async def test_an_image_is_a_page(place: places.Place) -> None:
    await place.choose(scopes.SHOP, "Seen")
    shot = (await _drawn(places.scan(SCAN)))[0]
    reply = await place.client.learning.image(scopes.SHOP, shot, filename="shot.png")
    assert reply.page_images
    assert await place.make() == 1
    first = (await ask(place, "Payment fourteen days", ways="Images")).pages[0]
    assert (first.source_urn, first.page_number) == (reply.source_urn, 1)
    assert await place.client.fetch(scopes.SHOP, first.image.key) == shot


async def test_a_new_version_hides_the_pages_before_it_and_then_replaces_them(place: places.Place) -> None:
    await drawn(place)
    newer = files.pages(places.lines(*LEASE[:2], "The new rent is nine hundred crowns."))
    assert await send(place, newer)
    assert (await ask(place, "pressure valve")).pages == []
    assert await place.make() == 1
    assert await place.stored() == (1, 1, 1, 1)
    assert [one.page_number for one in (await ask(place, "nine hundred crowns")).pages] == [1]
    # The same file again makes nothing anew.
    before = place.glyphs.pages
    assert await send(place, newer)
    assert await place.make() == 0
    assert place.glyphs.pages == before


async def test_a_version_without_a_file_takes_the_pages_away(place: places.Place) -> None:
    await drawn(place)
    await place.kb.ingest(world.request("The lease has ended.", urn=URN, kind="file"))
    assert (await ask(place, "pressure valve")).pages == []
    assert await place.keeper.sweep() == (1, 0)
    assert await place.stored() == (0, 0, 0, 0)
    assert await place.keeper.sweep() == (0, 0)


async def test_a_deletion_takes_the_pages_along(place: places.Place) -> None:
    await sent(place)
    await send(place, TWO, "file::other")
    assert await place.make() == 2
    await place.client.forget(scopes.SHOP, URN)
    assert await place.stored() == (1, 2, 2, 1)
    with pytest.raises(client.Rejected) as refused:
        await place.client.pages.state(scopes.SHOP, URN)
    assert refused.value.code == "not_found"
    assert {one.source_urn for one in (await ask(place, "pressure valve")).pages} == {"file::other"}


async def test_what_is_deleted_while_its_pages_are_made_leaves_none(place: places.Place) -> None:
    await sent(place)
    real = place.glyphs.embed_pages

    async def embed(images: Any) -> Any:
        made = await real(images)
        await place.client.forget(scopes.SHOP, URN)
        return made

    place.glyphs.embed_pages = embed  # type: ignore[method-assign]
    assert await place.make() == 1
    assert await place.stored() == (0, 0, 0, 0)


@pytest.mark.parametrize("where", [scopes.ACME, scopes.SHOP, scopes.RETAIL], ids=str)
async def test_an_erasure_takes_all_that_its_scope_covers(place: places.Place, where: scope.Scope) -> None:
    owners = [scopes.ACME, scopes.SHOP, scopes.RETAIL, scopes.OTHER]
    for owner in owners:
        await place.choose(owner)
        await send(place, TWO, owner=owner)
    assert await place.make() == 4
    covered = [owner for owner in owners if where.covers(owner)]
    assert await place.pages.erase(where) == 2 * len(covered)
    assert await place.content.erase(where) == 3 * len(covered), "two images, and the file for an hour"
    left = 3 - len(covered)
    assert await place.stored() == (left, 2 * left, 2 * left, left)
    assert await place.stored("other") == (1, 2, 2, 1)
    assert await place.pages.erase(where) == 0


async def test_a_scope_that_is_being_erased_gets_no_pages(place: places.Place, clock: clocks.Clock) -> None:
    await sent(place)
    place.kb.shut.replace([scopes.ACME])
    assert await place.maker.step()
    assert (await place.stored())[1:3] == (0, 0)
    place.kb.shut.replace([])
    assert await place.make() == 0
    clock.advance(seconds=11)
    assert await place.make() == 1
    assert (await place.stored())[1:3] == (2, 2)


async def test_pages_follow_their_project_into_its_group(place: places.Place) -> None:
    await drawn(place)
    moved = scopes.make("acme", "shop", "wholesale")
    await place.kb.graph.regroup(moved)
    await place.content.regroup(moved)
    assert await place.pages.regroup(moved) == 2 + 1 + 2
    bulk = scopes.make("acme", "bulk", "wholesale")
    found = (await ask(place, "pressure valve", scope=bulk)).pages
    assert (found[0].page_number, found[0].scope) == (2, moved)
    assert await place.client.fetch(bulk, found[0].image.key)
    assert (await ask(place, "pressure valve", scope=scopes.TILL)).pages == []


async def test_who_may_not_see_the_document_sees_no_page_of_it(place: places.Place) -> None:
    await drawn(place)
    seen = {"scope": scope.Viewer(**scopes.SHOP.model_dump(), principals=("user:jana",))}
    question = api.PageSearch.model_validate({"scope": scopes.SHOP, "query": "pressure valve"})
    asked = question.model_copy(update=seen)
    assert (await place.search.find(question)).pages != []
    assert (await place.search.find(asked)).pages == []


async def test_the_table_of_scopes(place: places.Place) -> None:
    await place.choose(scopes.GLOBAL)
    owners = [scopes.GLOBAL, scopes.ACME, scopes.SHOP, scopes.BLOG, scopes.OTHER]
    for owner in owners:
        await send(place, TWO, owner=owner)
    await place.make()
    for viewer in owners:
        found = (await ask(place, "pressure valve", scope=viewer, topK=20)).pages
        wanted = {owner for owner in owners if visibility.sees(viewer, owner)}
        assert {one.scope for one in found if one.page_number == 2} == wanted


async def test_without_the_model_words_are_enough(place: places.Place, clock: clocks.Clock) -> None:
    await sent(place)
    place.glyphs.away = errors.Away("visual", "it is off")
    assert await place.make() == 1
    state = await place.client.pages.state(scopes.SHOP, URN)
    assert (state.state, state.problems) == ("Waiting", ["visual is away: it is off"])
    early = (await ask(place, "pressure valve")).pages[0]
    assert (early.page_number, early.found_by) == (2, "Words"), "before there are vectors"
    place.glyphs.away = None
    clock.advance(seconds=11)
    assert await place.make() == 1
    assert (await place.client.pages.state(scopes.SHOP, URN)).problems == []
    place.glyphs.away = errors.Away("visual", "it is off")
    reply = await ask(place, "pressure valve")
    assert reply.pages[0].page_number == 2
    assert reply.problems == ["images of pages were not looked at: visual is away: it is off"]
    with pytest.raises(client.Unavailable, match="it is off"):
        await ask(place, "pressure valve", ways="Images")


async def test_a_question_that_the_model_does_not_take_is_answered_by_words(place: places.Place) -> None:
    await drawn(place)
    place.glyphs.away = errors.Invalid("it is too long for the model", field="query")
    reply = await ask(place, "pressure valve")
    assert (reply.pages[0].page_number, reply.looked_at_images) == (2, "None")
    assert reply.problems == ["images of pages were not looked at: it is too long for the model"]
    with pytest.raises(client.Rejected, match="too long"):
        await ask(place, "pressure valve", ways="Images")


async def test_what_breaks_off_at_any_write_is_gone_on_from(place: places.Place, clock: clocks.Clock) -> None:
    await place.choose(scopes.SHOP)
    long = files.pages(*(places.lines(f"Chapter {number} of the manual", *PUMP) for number in range(1, 12)))
    await send(place, long)
    # In the order of the calls of one making; each fails once, at its second call where it has one.
    calls = [(place.content, "save", 2), (place.book, "alive", 2), (place.book, "put", 2)]
    calls += [(place.glyphs, "embed_pages", 1), (place.index, "put", 2), (place.book, "progress", 1)]
    calls += [(place.book, "finish", 1)]
    failed: list[str] = []
    for holder, name, nth in calls:
        real = getattr(holder, name)
        called = 0

        async def fail(*args: object, real: Any = real, name: str = name, nth: int = nth, **more: object) -> object:
            nonlocal called
            called += 1
            if called >= nth:
                failed.append(name)
                raise errors.Away("test", f"before {name}")
            return await real(*args, **more)

        setattr(holder, name, fail)
        assert await place.maker.step(), name
        setattr(holder, name, real)
        clock.advance(seconds=700)
    assert list(dict.fromkeys(failed)) == ["save", "alive", "put", "embed_pages", "progress", "finish"]
    assert failed.count("put") == 2
    assert await place.make() == 1
    assert await place.stored() == (1, 11, 11, 1)
    state = await place.client.pages.state(scopes.SHOP, URN)
    assert (state.state, state.done) == ("Done", 11)
    assert len((await ask(place, "manual pressure valve", topK=20)).pages) == 11


async def test_what_a_store_lost_comes_back_and_strays_go(place: places.Place, clock: clocks.Clock) -> None:
    await drawn(place)
    known, _ = await place.index.audit("acme")
    await place.index.discard("acme", [known[0].page_id])
    assert await place.keeper.sweep() == (0, 1)
    assert len((await place.index.audit("acme"))[0]) == 2
    assert (await ask(place, "pressure valve")).pages[0].page_number == 2
    # Rows that a crash in the middle of a deletion would leave.
    assert await place.book.find(known[0].document_id) is not None
    await place.book._works.delete_many({})
    clock.advance(seconds=3700)
    dropped, repaired = await place.keeper.sweep()
    assert (dropped, repaired) == (0, 2 + 3)
    assert await place.stored() == (0, 0, 0, 0)


async def test_another_model_embeds_the_kept_images_anew(place: places.Place) -> None:
    await drawn(place)
    place.glyphs._name = "glyphs-2"
    assert await place.keeper.sweep() == (0, 0)
    before = place.glyphs.pages
    assert await place.make() == 1
    assert place.glyphs.pages == before + 2
    assert (await place.client.pages.state(scopes.SHOP, URN)).model == "glyphs-2"
    assert await place.stored() == (1, 2, 2, 1)


async def test_a_choice_that_is_taken_back_takes_the_pages_away(place: places.Place) -> None:
    await place.choose(scopes.ACME)
    await send(place, TWO)
    await place.make()
    await place.choose(scopes.SHOP, "None")
    assert [one.pages for one in await calls.page_choices(place.client, scopes.SHOP)] == ["None", "All"]
    assert await place.keeper.sweep() == (1, 0)
    assert await place.stored() == (0, 0, 0, 0)


async def test_a_file_that_cannot_be_drawn_says_so(place: places.Place, clock: clocks.Clock) -> None:
    await sent(place)
    work = await place.book.claim()
    assert work is not None
    assert work.file is not None
    broken = await place.content.save(scopes.SHOP, b"%PDF-1.4 nothing", "x", part_of=work.source.document_id)
    await place.book._works.update_many({}, {"$set": {"file": broken.model_dump(mode="json"), "nextAt": clock()}})
    assert await place.make() == 1
    state = await place.client.pages.state(scopes.SHOP, URN)
    assert state.state == "Failed"
    assert "cannot be opened" in state.problems[0]
    assert await place.stored() == (1, 0, 0, 1), "the file stays"
    # Once a day it is tried again, with the file that is kept.
    assert await place.keeper.sweep() == (0, 0)
    assert await place.make() == 0
    clock.advance(seconds=90_000)
    await place.book._works.update_many({}, {"$set": {"file": work.file.model_dump(mode="json")}})
    await place.keeper.sweep()
    assert await place.make() == 1
    state = await place.client.pages.state(scopes.SHOP, URN)
    assert (state.state, state.done, state.problems) == ("Done", 2, [])


async def _drawn(raw: bytes) -> list[bytes]:
    return [one.image for one in (await drawing.Renderer(drawing.Limits()).lay(raw, 1, 4)).pages]
