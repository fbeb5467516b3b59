"""Pages of passages: which one is meant by words or a quotation, and those of text PDFs in answers on real stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crds import scope
from crds.priority import Priority
from kb import api, errors, metrics, paging
from kb.agent import answering, environment, graph_tool, retrieving, tree
from kb.agent import page_numbers as passages
from kb.queue import job
from kb.retrieve import search
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import memory, scopes
from tests.kb.agent import rig
from tests.kb.agent.rig import WRITE
from tests.kb.files import making as files
from tests.kb.visual import conftest as visual
from tests.kb.visual import place as places

TEXT = (
    "Das Büro in Brünn.\n\nDas Überdruckventil öffnet\nbei neun bar.\n\n"
    "压力阀在九巴时打开。 Čerpadla\u00a0běží celý rok."
)
STARTS = tuple((TEXT.index(word), page) for word, page in (("Das B", 4), ("Das Ü", 5), ("压", 7)))


@pytest.mark.parametrize(
    ("question", "page"),
    [
        ("Bei wie viel bar öffnet das Überdruckventil?", 5),
        ("压力阀", 7),
        ("Kdy běžela čerpadla?", 7),
        ("Brünn", 4),
        ("nothing of it", 4),
        ("the of", 4),
    ],
)
def test_the_page_with_most_of_a_question(question: str, page: int) -> None:
    assert passages.best(TEXT, STARTS, question) == page


@pytest.mark.parametrize(
    ("quotation", "page"),
    [
        ("das überdruckventil öffnet bei neun bar", 5),
        ("Brünn. Das Überdruckventil", 4),
        ("bar. 压力阀在九巴时打开", 5),
        ("压力阀在九巴时打开", 7),
        ("Čerpadla běží celý rok.", 7),
        ("it is not there", None),
    ],
)
def test_the_page_on_which_a_quotation_begins(quotation: str, page: int | None) -> None:
    assert passages.of_quotation(TEXT, STARTS, quotation) == page


def test_what_is_on_no_page_has_no_number() -> None:
    attached = paging.of([*STARTS, (TEXT.index("Čerpadla"), 0)])
    assert passages.best(TEXT, attached, "čerpadla běží") is None
    assert passages.of_quotation(TEXT, attached, "Čerpadla běží celý rok") is None
    assert passages.of_quotation(TEXT, ((30, 2),), "Das Büro in Brünn") is None
    assert (passages.best(TEXT, (), "Brünn"), passages.of_quotation(TEXT, (), "Das Büro in Brünn")) == (None, None)


URN = "file::plant"
QUESTION = "At how many bar does the pressure valve open?"
FILLER = [f"This line number {n} says nothing about any of it and fills the page with words." for n in range(12)]
PAGES = (
    places.lines("The lease of the office ends in May", *FILLER),
    places.lines("Nothing here", *FILLER),
    places.lines("The pressure valve opens at nine bar", *FILLER),
)
PLANT = files.pages(*PAGES)
FIND = rig.decided("fast_vector_search", "It may be in the manual", query="pressure valve opens")
Ask = Callable[..., Awaitable[list[api.Citation]]]

pages_index, place = visual.pages_index, visual.place


@pytest.fixture
def ask(place: places.Place, router: router_client.Client, meters: metrics.Metrics, fake: process.Fake) -> Ask:
    """The citations of an answer, after one search."""

    async def made(answer: str, *, viewer: scope.Scope = scopes.SHOP, looks: bool = True) -> list[api.Citation]:
        fake.set_script({rig.DECIDE: [FIND, WRITE], rig.ANSWER: [answer]})
        tools: list[tree.Tool] = [
            retrieving.FastVectorSearchTool(place.kb.finder(search.Breadth())),
            answering.TextResponseTool(rig.voiced(router)),
        ]
        pages = place.search if looks else None
        agent = rig.agent(tools, router, meters, pages=pages)
        found = await rig.events(agent, rig.asked(QUESTION, viewer))
        assert found[-1].outcome == "answered", found[-1]
        return found[-1].citations or []

    return made


async def searched(place: places.Place, query: str) -> environment.Result:
    tool = retrieving.FastVectorSearchTool(place.kb.finder(search.Breadth()))
    [found] = [one async for one in tool(rig.asked(query), {"query": query}) if isinstance(one, environment.Result)]
    return found


@pytest.mark.services
async def test_a_passage_of_a_text_pdf_names_its_page(place: places.Place) -> None:
    await place.client.learning.file(scopes.SHOP, PLANT, filename="Pump manual", source_urn=URN)
    for query, page in (("pressure valve opens at nine bar", 3), ("lease of the office", 1)):
        found = await searched(place, query)
        assert [one["page"] for one in found.objects] == [page], "the chunk has all three pages"
        assert found.message == f"Found 1 text chunks matching '{query}'. Top result from Pump manual, page {page}."
    shown = environment.Environment()
    shown.add("fast_vector_search", found)
    assert "[1] | Pump manual | file::plant | 1-3" in shown.to_llm_context()


@pytest.mark.services
async def test_a_quotation_of_words_that_line_ends_have_cut_has_its_page_and_rectangles(
    place: places.Place, ask: Ask
) -> None:
    await place.choose(scopes.ACME, "All")
    first = places.lines("The lease of the office ends in No-", "vember of each year", *FILLER)
    second = places.lines("The pressure valve of the non-", "return pump opens auto-", "matically at nine bar", *FILLER)
    raw = files.pages(first, second)
    await place.client.learning.file(scopes.SHOP, raw, filename="plant.pdf", source_urn=URN)
    await place.make()
    [cited] = await ask('It says "valve of the non-return pump opens automatically at nine bar" [1].')
    assert (cited.page, len(cited.rectangles or [])) == (2, 3)


@pytest.mark.services
async def test_a_citation_has_the_page_and_the_rectangles_of_what_it_quotes(place: places.Place, ask: Ask) -> None:
    await place.choose(scopes.ACME, "All")
    await place.client.learning.file(scopes.SHOP, PLANT, filename="plant.pdf", source_urn=URN)
    await place.make()
    [cited] = await ask('"The pressure valve opens at nine bar" [1].')
    assert (cited.page, cited.quotes) == (3, ["The pressure valve opens at nine bar"])
    [rectangle] = cited.rectangles
    assert rectangle.text == "The pressure valve opens at nine bar"
    # The line stands 72 points from the left and the top of a page of 612 x 792 points.
    assert (round(rectangle.left, 2), round(rectangle.bottom, 1)) == (0.12, 0.1)
    assert cited.place is not None
    assert cited.place.top < rectangle.top < rectangle.bottom < cited.place.bottom
    page = (await place.book.get([cited.page_id]))[0]
    assert (page.number, cited.image) == (3, page.image)
    assert await place.client.pages.image(scopes.SHOP, cited.page_id)

    [cited] = await ask('"The lease of the office ends in May" [1].')
    assert (cited.page, [one.text for one in cited.rectangles]) == (1, ["The lease of the office ends in May"])
    [cited] = await ask("The valve opens at nine bar [1].")
    assert (cited.page, cited.quotes, cited.rectangles) == (3, [], []), "the page that has most of what was asked for"


@pytest.mark.services
async def test_without_kept_pages_there_is_the_number_alone(place: places.Place, ask: Ask) -> None:
    await place.client.learning.file(scopes.SHOP, PLANT, filename="plant.pdf", source_urn=URN)
    said = '"The pressure valve opens at nine bar" [1].'
    for looks in (True, False):
        [cited] = await ask(said, looks=looks)
        assert (cited.page, cited.page_id, cited.rectangles, cited.image) == (3, "", [], None)


@pytest.mark.services
async def test_who_sees_no_page_gets_its_number_alone(place: places.Place, ask: Ask) -> None:
    await place.choose(scopes.ACME, "All")
    await place.client.learning.file(scopes.SHOP, PLANT, filename="plant.pdf", source_urn=URN)
    await place.make()
    [cited] = await ask('"The pressure valve opens at nine bar" [1].')
    assert cited.page_id
    # The text of the next version is found; its page is not drawn yet, and that of the one before shows another text.
    newer = files.pages(places.lines("A new cover"), places.lines("The pressure valve opens at nine bar", *FILLER))
    await place.client.learning.file(scopes.SHOP, newer, filename="plant.pdf", source_urn=URN)
    [cited] = await ask('"The pressure valve opens at nine bar" [1].')
    assert (cited.page, cited.page_id, cited.rectangles) == (2, "", [])


@pytest.mark.services
async def test_a_passage_that_stands_elsewhere_since_it_was_found_has_no_image(place: places.Place) -> None:
    async def stored(raw: bytes) -> str:
        reply = await place.client.learning.file(scopes.SHOP, raw, filename="plant.pdf", source_urn=URN)
        await place.make()
        return reply.chunk_ids[0]

    async def located() -> list[bool]:
        found = await place.search.locate(scopes.SHOP, cited, {chunk_id: evidence.paged})
        return [bool(one.page_id) for one in found]

    await place.choose(scopes.ACME, "All")
    chunk_id = await stored(PLANT)
    shown = environment.Environment()
    shown.add("fast_vector_search", await searched(place, "pressure valve opens"))
    evidence, quoted = shown.evidence[1], "The pressure valve opens at nine bar"
    page = evidence.page_of([quoted])
    cited = [
        api.Citation(ref=1, source_urn=URN, chunk_id=chunk_id, page=page, quotes=quotes) for quotes in ([quoted], [])
    ]
    assert (page, await located()) == (3, [True, True])
    # The same text, and so the same passage, one page later.
    assert await stored(files.pages("", *PAGES)) == chunk_id
    assert await located() == [False, False]
    assert await stored(files.pages(*PAGES)) == chunk_id
    assert await located() == [True, True]
    assert await stored(files.pages(*PAGES, places.lines("One more page"))) != chunk_id
    assert await located() == [False, False]


@pytest.mark.services
async def test_an_attachment_and_another_language(place: places.Place) -> None:
    said = "Das Überdruckventil öffnet bei neun bar"
    escaped = "".join(one if one.isascii() else f"\\{ord(one):03o}" for one in said)
    raw = files.pages(
        places.lines("Ein Deckblatt"),
        "",
        f"BT /F1 12 Tf 72 720 Td ({escaped}) Tj ET",
        font="/Encoding /WinAnsiEncoding",
    )
    kept = await place.content.save(scopes.SHOP, raw, "application/pdf")
    draft = api.AttachmentDraft(scope=scopes.SHOP, attached_to="email::<m1@acme.com>", name="a.pdf", content_ref=kept)
    await place.client.learning.attachment(draft)
    found = await searched(place, "Wann öffnet das Überdruckventil?")
    assert [one["page"] for one in found.objects] == [3], "a page without text counts"
    assert said in found.objects[0]["text"]


@pytest.mark.services
async def test_a_sentence_that_proves_a_relationship_names_its_page(
    place: places.Place, router: router_client.Client, meters: metrics.Metrics, fake: process.Fake
) -> None:
    said = "jira:JERV-123|AFFECTS|file:UserService.kt"
    raw = files.pages(places.lines("A cover", *FILLER), places.lines(said, *FILLER), places.lines("The end", *FILLER))
    await place.choose(scopes.ACME, "All")
    await place.client.learning.file(scopes.SHOP, raw, filename="plant.pdf", source_urn=URN)
    await place.client.learning.file(scopes.SHOP, files.docx(said.replace("123", "124")), filename="a.docx")
    await place.make()
    tool = graph_tool.GraphExploreTool(place.kb.graph, place.kb.vectors, place.kb.aliases)
    for node, page in (("jira:JERV-123", 2), ("jira:JERV-124", None)):
        [found] = [one async for one in tool(rig.asked("?"), {"node": node}) if isinstance(one, environment.Result)]
        assert {one.get("page") for one in found.objects if "AFFECTS" in one["text"]} == {page}

    explore = rig.decided("graph_explore", "It names an issue", node="jira:JERV-123")
    fake.set_script({rig.DECIDE: [explore, WRITE], rig.ANSWER: [f'It says "{said}" [1].']})
    agent = rig.agent([tool, answering.TextResponseTool(rig.voiced(router))], router, meters, pages=place.search)
    ended = (await rig.events(agent, rig.asked("What does JERV-123 affect?")))[-1]
    assert ended.citations is not None
    [cited] = ended.citations
    assert (cited.page, cited.quotes, [one.text for one in cited.rectangles]) == (2, [said], [said])


@pytest.mark.services
async def test_relationships_are_given_where_their_pages_are_away(place: places.Place) -> None:
    class Away(memory.Vectors):
        async def chunks(self, *given: Any, **more: Any) -> Any:
            raise errors.Away("weaviate", "it does not answer")

    await place.client.learning.file(scopes.SHOP, files.docx("jira:JERV-123|AFFECTS|file:UserService.kt"))
    tool = graph_tool.GraphExploreTool(place.kb.graph, Away(), place.kb.aliases)
    status, *found = await rig.given(tool, rig.asked("?"), node="jira:JERV-123")
    assert isinstance(status, tree.Status)
    assert status.message.startswith("The pages of these sentences are not known: ")
    assert rig.result(found)


@pytest.mark.services
async def test_what_has_no_pages_has_no_page(place: places.Place) -> None:
    for raw, name in (
        (files.docx("The pressure valve opens at nine bar"), "a.docx"),
        (b"A cover\n\f\nThe pressure valve opens at nine bar", "a.txt"),
    ):
        await place.client.learning.file(scopes.SHOP, raw, filename=name)
    found = await searched(place, "pressure valve opens at nine bar")
    assert len(found.objects) == 2
    assert not any("page" in one or "pageStarts" in one for one in found.objects)
    assert "page" not in found.message


@pytest.mark.services
async def test_pages_stay_with_the_chunks_when_models_have_read_them(place: places.Place) -> None:
    reply = await place.client.learning.file(scopes.SHOP, PLANT, filename="plant.pdf", source_urn=URN)
    [chunk_id] = reply.chunk_ids
    before = (await place.kb.vectors.chunks(scopes.SHOP, [chunk_id]))[chunk_id]
    assert [page for _, page in before.pages()] == [1, 2, 3]
    assert before.said() == {}
    assert not any("jervisPages" in one for one in before.labels())
    assert await place.kb.workers.step()
    # Without its request, from what is stored.
    what = (scopes.SHOP, URN, "file", job.Action.REBUILD_GRAPH, Priority.P3, "")
    await place.kb.queue.put(reply.id, *what)
    assert await place.kb.workers.step()
    after = (await place.kb.vectors.chunks(scopes.SHOP, [chunk_id]))[chunk_id]
    assert after.revision(scopes.SHOP) != before.revision(scopes.SHOP), "it was written anew"
    assert after.pages() == before.pages()
