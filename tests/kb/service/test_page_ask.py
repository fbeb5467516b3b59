"""The page at /kb/ask in a real browser, against the service as a process: tree, answer, evidence, stop, resume."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from kb import api
from tests import browser, ports, waiting
from tests.fakes.ollama import process
from tests.kb import calls, forwarder, scopes, world
from tests.kb.agent import rig
from tests.kb.agent.rig import MANUAL, SAID, SEARCH, STALL, WRITE
from tests.kb.files import making as files
from tests.kb.service import program
from tests.kb.service.test_page import _WIDER
from tests.kb.visual import place as places

pytestmark = pytest.mark.services
URN = "link::https://docs.example.com/pump"
TITLE = '<img src=x onerror="document.title=1"> Pump manual'
HOSTILE = "<script>document.title='stolen'</script><b>Bold</b>"
_WIDER = _WIDER.replace("dl, dt, dd", "article, h2, ul, .answer, .text")


@asynccontextmanager
async def shown(directory: Path, url: str, **more: str) -> AsyncIterator[browser.Tab]:
    """The page with its scope in the address."""
    asked = urlencode({"clientId": "acme", "projectId": "shop", **more})
    async with browser.opened(directory, f"{url}/kb/ask#{asked}") as tab:
        yield tab


async def press(tab: browser.Tab, key: str, modifiers: int = 0) -> None:
    """A key as the keyboard sends it."""
    text = {"Enter": "\r"}.get(key, "")
    code = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32}[key]
    down: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
    await tab.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **down, text=text)
    await tab.call("Input.dispatchKeyEvent", type="keyUp", **down)


async def ask(tab: browser.Tab, question: str) -> None:
    await tab.evaluate("document.getElementById('query').focus()")
    await tab.evaluate("document.getElementById('query').value = ''")
    await tab.call("Input.insertText", text=question)
    await press(tab, "Enter")


async def text(tab: browser.Tab, selector: str) -> str:
    return str(await tab.evaluate(f"document.querySelector('{selector}').textContent"))


async def named(tab: browser.Tab) -> list[tuple[str, str]]:
    """(role, name) of everything that the browser gives to a screen reader, in the order of the page."""
    nodes = (await tab.call("Accessibility.getFullAXTree"))["nodes"]
    return [(one["role"]["value"], one.get("name", {}).get("value", "").strip()) for one in nodes if not one["ignored"]]


def ended(outcome: str, nth: int = 1) -> str:
    return f"document.querySelector('article:nth-of-type({nth})')?.dataset.outcome === '{outcome}'"


async def count(fake: process.Fake, **match: str) -> bool:
    return bool(await asyncio.to_thread(lambda: fake.count(**match)))


@pytest.fixture
async def service(run: program.Running) -> AsyncIterator[program.Program]:
    async with run(JERVIS_KB_DECISION_MODEL=rig.MODEL) as running:
        manual = world.request(f"{MANUAL} {HOSTILE}", urn=URN, kind="manual", title=TITLE)
        await running.client.ingest(manual)
        yield running


@pytest.fixture
def url(service: program.Program) -> str:
    return service.url


@pytest.fixture
async def way(url: str) -> AsyncIterator[forwarder.Forwarder]:
    """A way to the service that can be cut."""
    opened = forwarder.Forwarder("127.0.0.1", int(url.rsplit(":", 1)[1]), ports.free())
    await opened.up()
    yield opened
    await opened.down()


async def test_from_a_question_to_its_evidence_by_keyboard_alone(tmp_path: Path, url: str, fake: process.Fake) -> None:
    fake.forget()
    said = f'{HOSTILE} is 230 volts [1]. "Change the filter every single week" [1]. See [7].'
    fake.set_script({rig.DECIDE: [SEARCH, WRITE], rig.ANSWER: [said]})
    async with shown(tmp_path, url, query="What is the voltage?") as tab:
        # A question in the address waits for the person.
        assert await tab.evaluate("document.querySelectorAll('article').length") == 0
        await tab.evaluate("document.getElementById('query').focus()")
        await press(tab, "Enter")
        await tab.until(ended("answered"))
        assert [one["priority"] for one in fake.requests(tag=rig.DECIDE)] == ["1", "1"]

        tree = "[...document.querySelectorAll('.tree > li')].map(one => one.firstChild.textContent)"
        assert await tab.evaluate(tree) == ["Looking at the question...", "fast_vector_search", "text_response"]
        step = await text(tab, ".tree [data-tool=fast_vector_search]")
        assert step.startswith("fast_vector_search: User asked factual questionSearching text chunks...Found ")
        assert await text(tab, '.tree [data-payload=chunks] [data-ref="1"]') == f"[1] {TITLE}"

        # What documents and models wrote is text. A mark that names no passage is taken out by the service.
        assert (await text(tab, ".answer")).strip() == f"{HOSTILE} is 230 volts [1]. See ."
        assert await tab.evaluate("document.querySelectorAll('main img, article b b, article script').length") == 0
        assert await tab.evaluate("document.title") == "Questions to the knowledge base"
        left = await text(tab, ".left li")
        assert left == 'Absent: no passage has this quotation. "Change the filter every single week" [1].'
        assert await text(tab, ".cited") == f"[1] {TITLE}{URN}"
        assert await tab.evaluate(_WIDER) == []

        # The button of the citation is behind the field, the buttons and the steps in the order of the tab key.
        assert await tab.evaluate("document.activeElement.id") == "query"
        stops = []
        while (await tab.evaluate("document.activeElement.className")) != "cite":
            await press(tab, "Tab")
            stops.append(await tab.evaluate("document.activeElement.id || document.activeElement.textContent"))
        assert stops == ["send", "Steps", f"[1] {TITLE}", "[1]"]
        await press(tab, "Enter")
        assert await tab.evaluate("document.activeElement.id") == "evidenceTitle"
        assert await text(tab, "#evidenceTitle") == f"[1] {TITLE}"
        assert (await text(tab, "#where")).startswith(f"{URN} · manual")
        assert "Switch it off before the filter is changed." in await text(tab, "#text")
        links = await tab.evaluate("[...document.querySelectorAll('#links a')].map(one => one.href)")
        assert links[0].startswith(f"{url}/kb/#clientId=acme&projectId=shop&chunk=")
        assert links[1:] == ["https://docs.example.com/pump"]
        assert await tab.evaluate(_WIDER) == []
        await press(tab, "Escape")
        assert await tab.evaluate("document.getElementById('evidence').hidden")
        assert await tab.evaluate("document.activeElement.className") == "cite"

        # The link leads to the passage on the other page, which leads back with the same scope.
        await tab.evaluate(f"location.href = '{links[0]}'")
        await tab.until("document.getElementById('opened')?.dataset.chunk !== undefined")
        back = await tab.evaluate("document.querySelector('nav a').href")
        assert back.startswith(f"{url}/kb/ask#clientId=acme&projectId=shop")


async def test_a_screen_reader_finds_every_part_by_its_name(tmp_path: Path, url: str, fake: process.Fake) -> None:
    fake.set_script({rig.DECIDE: [SEARCH, WRITE], rig.ANSWER: [f"{SAID[:-1]}, 【1†L2】."]})
    async with shown(tmp_path, url) as tab:
        await ask(tab, "What is the voltage?")
        await tab.until(ended("answered"))
        assert (await text(tab, ".answer")).strip() == "The operating voltage is 230 volts [1], [1]."
        await tab.evaluate("document.querySelector('.cite').click()")
        await tab.until("!document.getElementById('evidence').hidden")
        found = await named(tab)
        for role in ("textbox", "button", "link", "dialog", "article", "heading", "region", "navigation"):
            assert "" not in [name for one, name in found if one == role], role
        fields = [name for role, name in found if role == "textbox"]
        question = "Question (Enter asks, Shift and Enter begin a line)"
        assert fields == ["Client", "Project", "Group", "Token", "Conversation", question]
        assert ("article", "What is the voltage?") in found
        assert ("dialog", f"[1] {TITLE}") in found
        assert found.count(("button", f"Evidence 1: {TITLE}")) == 2
        assert ("list", "Steps") in found
        assert {"status", "alert", "group"} <= {role for role, _ in found}
        # The answer is read once, when it is whole.
        live = "['aria-live', 'aria-busy'].map(one => document.querySelector('.answer').getAttribute(one))"
        assert await tab.evaluate(live) == ["polite", "false"]
        nested = "document.querySelectorAll('ul.tree > li > ul > li > ul > li').length"
        assert await tab.evaluate(nested) >= 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_texts_have_enough_contrast(tmp_path: Path, url: str, fake: process.Fake, scheme: str) -> None:
    fake.set_script({rig.DECIDE: [SEARCH, WRITE], rig.ANSWER: [SAID]})
    async with shown(tmp_path, url) as tab:
        await tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        await ask(tab, "What is the voltage?")
        await tab.until(ended("answered"))
        colours = (
            "[...document.querySelectorAll('label, h2, .soft, .cite, a, summary, #send, .answer')].map(one => {"
            " let under = one; while (under && getComputedStyle(under).backgroundColor === 'rgba(0, 0, 0, 0)')"
            " under = under.parentElement;"
            " return [getComputedStyle(one).color, getComputedStyle(under || document.body).backgroundColor] })"
        )
        pairs = {tuple(one) for one in await tab.evaluate(colours)}
        assert len(pairs) >= 4
        assert {pair: contrast(*pair) for pair in pairs if contrast(*pair) < 4.5} == {}


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG 2.2 computes it (relative luminance, contrast ratio)."""

    def luminance(colour: str) -> float:
        shares = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in shares)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


async def test_stop_ends_the_call_of_the_model_and_the_next_question_is_answered(
    tmp_path: Path, url: str, fake: process.Fake
) -> None:
    fake.set_script({rig.DECIDE: [STALL]})
    async with shown(tmp_path, url) as tab:
        await ask(tab, "What is the voltage?")
        await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="running"))
        await ask(tab, "And the current?")
        assert await text(tab, "#state") == "A question is being answered. Stop it first."
        await tab.evaluate("document.getElementById('stop').focus()")
        await press(tab, "Enter")
        assert await tab.evaluate(ended("cancelled"))
        assert await tab.evaluate("document.activeElement.id") == "query"
        # A lost connection alone would let it work on for a minute.
        await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="cancelled"))
        assert await text(tab, "#problem") == ""

        fake.set_script({rig.DECIDE: [SEARCH, WRITE], rig.ANSWER: [SAID]})
        await press(tab, "Enter")
        await tab.until(ended("answered"))
        assert await text(tab, "article:nth-of-type(1) h2") == "And the current?"
        # To leave the page ends a question as well.
        fake.set_script({rig.DECIDE: [STALL]})
        await ask(tab, "And the power?")
        await waiting.eventually(lambda: count(fake, tag=rig.DECIDE, outcome="running"))
        await tab.call("Page.navigate", url="about:blank")

        async def idle() -> bool:
            return not await count(fake, tag=rig.DECIDE, outcome="running")

        await waiting.eventually(idle)


async def test_an_answer_goes_on_after_the_connection_was_lost(
    tmp_path: Path, way: forwarder.Forwarder, fake: process.Fake
) -> None:
    # The simulator is that of other files too, and what is opened stays open.
    gate = f"lost-{uuid.uuid4()}"
    fake.set_script({rig.DECIDE: [SEARCH, {"fault": {"stall": {"gate": gate}}}]})
    async with shown(tmp_path, f"http://127.0.0.1:{way.port}") as tab:
        await ask(tab, "What is the voltage?")
        await tab.until("document.querySelectorAll('.tree [data-payload=chunks]').length === 1")
        await way.down()
        await tab.until("document.getElementById('state').textContent.startsWith('The connection was lost.')")
        fake.set_script({rig.DECIDE: [WRITE], rig.ANSWER: [SAID]})
        fake.open_gate(gate)
        await way.up()
        await tab.until(ended("answered"))
        # Nothing is drawn twice, and nothing is missing.
        assert await text(tab, ".answer") == SAID
        tree = "[...document.querySelectorAll('.tree > li')].map(one => one.firstChild.textContent)"
        assert await tab.evaluate(tree) == ["Looking at the question...", "fast_vector_search", "text_response"]
        assert await tab.evaluate("document.querySelectorAll('.cited li').length") == 1


async def test_connections_over_which_nothing_comes_end(
    tmp_path: Path, way: forwarder.Forwarder, fake: process.Fake
) -> None:
    fake.set_script({rig.DECIDE: [SEARCH, STALL]})
    async with shown(tmp_path, f"http://127.0.0.1:{way.port}") as tab:
        await ask(tab, "What is the voltage?")
        await tab.until("document.querySelectorAll('.tree [data-payload=chunks]').length === 1")
        # As a proxy does that answers and gives nothing.
        await tab.evaluate("globalThis.pauses = []; 0")
        await tab.evaluate("request = async () => { pauses.push(current.pause); return new Response('') }; 0")
        await way.down()
        await tab.until("pauses.length >= 3")
        # Each waits longer than the one before, also after an answer that is empty.
        assert await tab.evaluate("pauses.slice(0, 3)") == [1000, 2000, 4000]
        await tab.evaluate("current.heard -= 61000; 0")
        await tab.until(ended("failed"))
        assert await text(tab, "#problem") == "Nothing came for 60 seconds. Ask again."
        # What cannot be opened says so beside the evidence, and takes no other message away.
        await tab.evaluate("request = async () => { throw new Error('It is away.') }; 0")
        await tab.evaluate("document.querySelector('.tree [data-payload=chunks] button').click()")
        await tab.until("document.getElementById('unread').textContent === 'It is away.'")
        assert await text(tab, "#problem") == "Nothing came for 60 seconds. Ask again."


async def test_what_fails_is_shown_with_what_helps(tmp_path: Path, url: str, fake: process.Fake) -> None:
    impossible = rig.decided("text_response", "Cannot complete: no manual says it") | {"impossible": True}
    nothing = rig.decided("graph_explore", "Look around", node="user:unknown")
    fake.set_script({rig.DECIDE: [nothing, impossible, impossible]})
    async with shown(tmp_path, url) as tab:
        await ask(tab, "Who is it?")
        await tab.until(ended("impossible"))
        end = await text(tab, ".end")
        assert end.startswith("This cannot be answered from the knowledge base. ")
        assert "Searched: graph_explore (1 call), fast_vector_search (1 call)" in end
        assert await text(tab, ".model") == "The model says: Cannot complete: no manual says it"
        errors = await tab.evaluate("[...document.querySelectorAll('.tree .bad')].map(one => one.textContent)")
        assert errors[0].startswith("Error: No relationships of 'user:unknown' are known. Try another spelling")
        await tab.evaluate("document.getElementById('conversation').value = 'a b'")
        await ask(tab, "Who is it?")
        await tab.until(ended("failed"))
        assert "conversation" in await text(tab, "#problem")


async def test_the_page_of_a_passage_is_shown_with_the_places_on_it(
    tmp_path: Path, service: program.Program, fake: process.Fake
) -> None:
    """Its citation names the page, and where on it the quotation stands."""
    kb = service.client
    raw = files.pages(places.lines("The lease of the office"), places.lines("The pressure valve opens at nine bar"))
    await calls.choose_pages(kb, api.PageChoiceDraft(scope=scopes.ACME, pages="All", by="jana"))
    await kb.learning.file(scopes.SHOP, raw, filename="valve.pdf", source_urn="file::valve")
    await service.until_drawn("file::valve")
    search = rig.decided("fast_vector_search", query="pressure valve")
    fake.set_script({rig.DECIDE: [search, WRITE], rig.ANSWER: ['It says "The pressure valve opens" [1].']})
    async with shown(tmp_path, service.url) as tab:
        await ask(tab, "When does the pressure valve open?")
        await tab.until(ended("answered"))
        await tab.evaluate("document.querySelector('.cite').click()")
        await tab.until("document.querySelector('#pictures img')?.naturalWidth > 0")
        await tab.until("document.querySelectorAll('.page rect').length > 0")
        assert "Page 2" in await text(tab, "figcaption")
        assert await text(tab, "blockquote") == "The pressure valve opens"
        assert await text(tab, "#text mark") == "The pressure valve opens"


async def test_what_is_quoted_of_no_page_is_shown_without_one(
    tmp_path: Path, service: program.Program, fake: process.Fake
) -> None:
    """A bookmark has words of a page, and is no text of it."""
    kb, chapter = service.client, "When the pressure valve opens safely"
    lines = (places.lines("The lease of the office"), places.lines("The pressure valve opens at nine bar"))
    await calls.choose_pages(kb, api.PageChoiceDraft(scope=scopes.ACME, pages="All", by="jana"))
    raw = files.pages(*lines, bookmark=chapter)
    await kb.learning.file(scopes.SHOP, raw, filename="valve.pdf", source_urn="file::valve")
    await service.until_drawn("file::valve")
    search = rig.decided("fast_vector_search", query="nine bar")
    fake.set_script({rig.DECIDE: [search, WRITE], rig.ANSWER: [f'It is the chapter "{chapter}" [1].']})
    async with shown(tmp_path, service.url) as tab:
        await ask(tab, "When does it open?")
        await tab.until(ended("answered"))
        assert "page 2" in await text(tab, ".tree"), "the search has named the page of its words"
        for selector in (".cite", ".tree [data-ref]"):
            await tab.evaluate(f"document.querySelector('{selector}').click()")
            await tab.until(f"document.querySelector('#text mark')?.textContent === '{chapter}'")
            assert "page" not in await text(tab, "#where")
        await tab.evaluate("new Promise(done => setTimeout(done, 500))")
        asked = "performance.getEntriesByType('resource').filter(one => one.name.includes('/search/pages')).length"
        assert await tab.evaluate(asked) == 0
