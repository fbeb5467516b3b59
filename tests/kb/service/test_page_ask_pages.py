"""Images of pages on the page at /kb/ask, in a real browser: what the agent's own tools gave, drawn with its places."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pypdfium2
import pytest

from crds import access as accesses
from crds import scope
from kb import api, client
from kb.agent import page_tools
from kb.visual.weaviate import store
from tests import browser
from tests.fakes import glyphs, pooling
from tests.fakes.ollama import process
from tests.kb import calls, conftest, scopes, world
from tests.kb.agent import rig
from tests.kb.agent.rig import WRITE
from tests.kb.agent.test_page_tools import LOOK, SCAN, SEARCH, SEEN
from tests.kb.files import making as files
from tests.kb.service import callers, program
from tests.kb.service.test_page_ask import ask, ended, named, shown, text
from tests.kb.visual import place as places

pytestmark = pytest.mark.services
JANA, ALL = "jana-token", "all-token"
TEXT = files.pages(places.lines("The lease of the office"), places.lines("The pressure valve opens at nine bar"))
RECTANGLES = (
    "[...document.querySelectorAll('.page rect{}')].map(one => "
    "['x', 'y', 'width', 'height', 'opacity'].map(side => Number(one.getAttribute(side))))"
)
ASKED = "performance.getEntriesByType('resource').map(one => one.name).filter(one => one.includes('/api/v1/{}'))"


async def send(kb: program.Program, raw: bytes, urn: str, filename: str) -> None:
    """A file with pages that are made."""
    assert (await kb.client.learning.file(scopes.SHOP, raw, filename=filename, source_urn=urn)).page_images
    await kb.until_drawn(urn)


def token(text: str, **more: Any) -> dict[str, Any]:
    return {"name": text, "sha256": callers.digest(text), "scopes": [{"clientId": "acme"}], **more}


@pytest.fixture
async def service(run: program.Running, settings: dict[str, str], tmp_path: Path) -> AsyncIterator[program.Program]:
    """With a model of pages that says how it cuts them, a vision model, tokens, and pages of everything."""
    book = callers.write(tmp_path, token(ALL, write=True), token(JANA, principals=["user:jana"]))
    url, port, _ = conftest.stores()
    index = store.Store(url, port, "served", index=settings["JERVIS_KB_INDEX"])
    async with (
        pooling.serving() as model,
        run(
            JERVIS_KB_DECISION_MODEL=rig.MODEL,
            JERVIS_KB_VISION_MODEL=rig.MODEL,
            JERVIS_KB_TOKENS_FILE=str(book),
            JERVIS_KB_PDF_PAGES="0",
            JERVIS_KB_VISUAL_URL=model.url,
            JERVIS_KB_VISUAL_MODEL="served",
            JERVIS_KB_VISUAL_PIXELS="0",
            # It cuts a page of 8.5 by 11 inches as the model does: into as many as there may be.
            JERVIS_KB_VISUAL_PATCH_PIXELS="28",
            JERVIS_KB_VISUAL_PATCHES=str(glyphs.ROWS * glyphs.COLUMNS + 1),
            JERVIS_KB_VISUAL_FIRST_PATCH="0",
        ) as running,
    ):
        running.client = client.Client(running.url, running.http, ALL)
        await calls.choose_pages(running.client, api.PageChoiceDraft(scope=scopes.ACME, pages="All", by="jana"))
        yield running
    await index.destroy()
    await index.close()


async def answered(
    tab: browser.Tab, fake: process.Fake, said: str, *, tools: Sequence[dict[str, Any]] = (SEARCH, LOOK)
) -> None:
    """A question that these tools and then the answer are chosen for."""
    fake.set_script({rig.DECIDE: [*tools, WRITE], page_tools.INTERPRET: [SEEN] * 2, rig.ANSWER: [said]})
    await ask(tab, "What opens at nine bar?")
    await tab.until(ended("answered"))


async def signed_in(tab: browser.Tab, text: str) -> None:
    await tab.evaluate(f"document.getElementById('token').value = '{text}'; 0")


async def opened(tab: browser.Tab, selector: str) -> None:
    """What a button opens, with an image of its page."""
    await tab.evaluate("document.getElementById('pictures').replaceChildren()")
    await tab.evaluate(f"document.querySelector('{selector}').click()")
    image = "document.querySelector('#pictures img')?.naturalWidth > 0"
    unread = "document.getElementById('unread').textContent"
    await tab.until(f"{image} || {unread} !== ''")
    assert await tab.evaluate(unread) == ""


async def search(service: program.Program, query: str = "pressure valve") -> api.PageHit:
    asked = api.PageSearch(scope=scope.Scope(client_id="acme", project_id="shop"), query=query)
    return (await service.client.pages.search(asked)).pages[0]


async def images(tab: browser.Tab) -> list[str]:
    return [name for role, name in await named(tab) if role == "image" and name]


async def test_the_places_of_words_are_marked_on_the_page(
    tmp_path: Path, service: program.Program, fake: process.Fake
) -> None:
    await send(service, TEXT, "file::valve", "valve.pdf")
    hit = await search(service)
    assert (hit.page_number, [one.text for one in hit.rectangles]) == (2, ["pressure valve"])
    async with shown(tmp_path, service.url) as tab:
        await signed_in(tab, ALL)
        await answered(tab, fake, "It opens at nine bar [1]; a drawing shows it [3].")
        await opened(tab, "[data-payload=colqwen_pages] button")
        boxes = await tab.evaluate(RECTANGLES.format(""))
        assert [(one[0], one[1]) for one in boxes] == [(one.left, one.top) for one in hit.rectangles]
        over = "document.querySelector('.page svg').getBoundingClientRect()"
        under = "document.querySelector('.page img').getBoundingClientRect()"
        assert await tab.evaluate(f"Math.abs({over}.height - {under}.height) < 1")
        assert await text(tab, "figcaption") == "Page 2, marked: pressure valve"
        [name] = [one for one in await images(tab) if "marked" in one]
        assert name.startswith("Page 2 of valve.pdf, marked: pressure valve, ")
        assert name.endswith(" % from the top")
        assert "The pressure valve opens at nine bar" in await text(tab, "#text")

        # What the vision model said of the page has the same places.
        await opened(tab, "[data-payload=interpretations] button")
        assert await text(tab, "#text") == SEEN
        assert await tab.evaluate(RECTANGLES.format("")) == boxes

        # The citation of a passage of the text says where its quotation is.
        found = rig.decided("fast_vector_search", query="pressure valve")
        await answered(tab, fake, 'It says "The pressure valve opens" [1].', tools=[found])
        await opened(tab, "article:nth-of-type(1) .cite")
        assert await text(tab, "blockquote") == "The pressure valve opens"
        assert await text(tab, "#text mark") == "The pressure valve opens"
        assert await text(tab, "figcaption") == "Page 2, marked: The pressure valve opens"
        looked_for = f"{ASKED.format('search/pages')}.filter(one => one.endsWith('/search/pages')).length"
        assert await tab.evaluate(looked_for) == 0

        # Where nothing is quoted, the place of the passage on its page is looked for.
        await answered(tab, fake, "It opens at nine bar [1].", tools=[found])
        await opened(tab, "article:nth-of-type(1) .cite")
        assert (await text(tab, "figcaption")).startswith("Page 2, marked: ")
        assert await tab.evaluate(looked_for) == 1
        assert await tab.evaluate(ASKED.format("content/")) == []


async def test_the_patches_and_the_place_of_what_was_found_by_its_looks_are_drawn(
    tmp_path: Path, service: program.Program, fake: process.Fake
) -> None:
    await send(service, SCAN, "file::plant", "plant.pdf")
    hit = await search(service)
    assert (hit.page_number, hit.rectangles) == (1, [])
    assert hit.place is not None
    assert hit.patches is not None
    assert (hit.patches.rows, hit.patches.columns) == (glyphs.ROWS, glyphs.COLUMNS)
    scores: dict[tuple[int, int], float] = {}
    for token in hit.patches.tokens:
        for one in token.patches:
            if one.score > 0:
                scores[one.row, one.column] = max(one.score, scores.get((one.row, one.column), 0))
    best = max(scores.values())
    drawn = {
        (round(column / glyphs.COLUMNS, 6), round(row / glyphs.ROWS, 6)): round(score / best, 3)
        for (row, column), score in scores.items()
    }
    async with shown(tmp_path, service.url) as tab:
        await signed_in(tab, ALL)
        await answered(tab, fake, "The page shows a turbine [1]; the valve V-7 opens at 9 bar [3].")
        sides = [round(100 * side) for side in (hit.place.left, hit.place.right, hit.place.top, hit.place.bottom)]
        there = "what looks like the question, {} to {} % from the left, {} to {} % from the top".format(*sides)
        for button in ('.cite[data-ref="1"]', '.cite[data-ref="3"]', '.cited [data-ref="1"]'):
            await opened(tab, button)
            patches = await tab.evaluate(RECTANGLES.format(".patch"))
            assert {(round(one[0], 6), round(one[1], 6)): one[4] for one in patches} == drawn
            assert all(one[2:4] == pytest.approx([1 / glyphs.COLUMNS, 1 / glyphs.ROWS]) for one in patches)
            [frame] = await tab.evaluate(RECTANGLES.format(".place"))
            right, bottom = hit.place.right - hit.place.left, hit.place.bottom - hit.place.top
            assert frame[:4] == pytest.approx([hit.place.left, hit.place.top, right, bottom])
            assert await text(tab, "figcaption") == f"Page 1, marked: {there}"
            assert f"Page 1 of plant.pdf, marked: {there}" in await images(tab)
            assert await text(tab, "figure summary") == f"Patch map, {glyphs.ROWS} rows and {glyphs.COLUMNS} columns"
            [row, *_] = await tab.evaluate("[...document.querySelectorAll('.patches li')].map(one => one.textContent)")
            first = hit.patches.tokens[0].patches[0]
            # The served model does not say its tokens.
            assert row == f"Token 1: {first.score:.2f} at row {first.row + 1}, column {first.column + 1}"

        # The piece of the image stands beside each citation.
        cut_out = "[...document.querySelectorAll('.cited li img')]"
        await tab.until(f"{cut_out}.filter(one => one.naturalWidth > 0).length === 2")
        crops = f"{cut_out}.map(one => [one.alt, one.naturalWidth, one.naturalHeight])"
        whole = "[document.querySelector('.page img').naturalWidth, document.querySelector('.page img').naturalHeight]"
        width, height = await tab.evaluate(whole)
        for alt, wide, high in await tab.evaluate(crops):
            assert alt == f"Page 1 of plant.pdf, cut out: {there}"
            assert wide == pytest.approx((hit.place.right - hit.place.left) * width, abs=2)
            assert high == pytest.approx((hit.place.bottom - hit.place.top) * height, abs=2)
        assert await tab.evaluate("document.querySelectorAll('svg.crop').length") == 0
        assert await tab.evaluate(ASKED.format("content/")) == []


async def test_who_is_named_by_its_token_sees_the_images_of_pages(
    tmp_path: Path, service: program.Program, fake: process.Fake
) -> None:
    kb, mail, name = service.client, "email::<m1@acme.com>", "plant.pdf"
    request = world.request("The plant is attached.", urn=mail, attachments=[name])
    await kb.ingest(request.model_copy(update={"access": accesses.restricted(["user:jana"])}))
    kept = await kb.store(scopes.SHOP, SCAN)
    draft = api.AttachmentDraft(scope=scopes.SHOP, attached_to=mail, name=name, content_ref=kept, title=name)
    assert (await kb.learning.attachment(draft)).page_images
    await service.until_drawn(api.attachment_urn(mail, name))
    async with shown(tmp_path, service.url) as tab:
        await signed_in(tab, JANA)
        await answered(tab, fake, "The page shows a turbine [1].", tools=[SEARCH])
        await opened(tab, ".cite")
        assert await tab.evaluate(RECTANGLES.format(".place")) != []
        await tab.until("document.querySelector('.cited li img')?.naturalWidth > 0")


async def test_an_image_that_the_service_cannot_cut_is_cut_by_the_page(
    tmp_path: Path, service: program.Program, fake: process.Fake
) -> None:
    photo = io.BytesIO()
    pypdfium2.PdfDocument(SCAN)[0].render(scale=1).to_pil().save(photo, "JPEG")
    sent = await service.client.learning.image(scopes.SHOP, photo.getvalue(), filename="plant.jpg")
    assert sent.page_images
    await service.until_drawn(sent.source_urn)
    hit = await search(service)
    assert hit.place is not None
    async with shown(tmp_path, service.url) as tab:
        await signed_in(tab, ALL)
        await answered(tab, fake, "The page shows a turbine [1].", tools=[SEARCH])
        await tab.until("document.querySelectorAll('.cited li svg.crop image').length === 1")
        box = await tab.evaluate("document.querySelector('svg.crop').getAttribute('viewBox').split(' ').map(Number)")
        place = hit.place
        shares = [place.left, place.top, place.right - place.left, place.bottom - place.top]
        assert box == pytest.approx([share * side for share, side in zip(shares, (612, 792) * 2, strict=True)])
        [alt] = [one for one in await images(tab) if "cut out" in one]
        assert alt.startswith(f"Page 1 of {hit.title}, cut out: what looks like the question, ")
        assert await tab.evaluate("document.querySelectorAll('.cited img').length") == 0
