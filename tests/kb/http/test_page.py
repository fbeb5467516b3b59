"""The page at /kb/ in a real browser: search, open a chunk, walk its neighbourhood, see the proof."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kb import metrics
from tests import browser
from tests.kb import world
from tests.kb.http import serving

_TITLE = f"<b>Hostile</b> {'x' * 300}"
_WIDER = (
    "[...document.querySelectorAll('main, main > div, section, li, dl, dt, dd')]"
    ".filter(one => one.scrollWidth > one.clientWidth).map(one => one.outerHTML)"
)
"""What is wider than the column that it stands in."""
_HOSTILE = "<img src=x onerror=\"document.title='stolen'\"> Petr Svoboda wrote Gateway.kt."


async def test_from_a_question_to_its_proof(tmp_path: Path, kb: world.ObservedState, meters: metrics.Metrics) -> None:
    asked = urlencode({"clientId": "acme", "projectId": "shop", "groupId": "retail", "query": "login bug"})
    reply = await kb.ingest(world.request())
    since = {"properties": {"since": 2026}}
    for day, name in ((2, "jana"), (5, "petr")):
        given: dict[str, Any] = {
            "nodes": [{"key": "jira::JERV-9", "type": "jira", "properties": {"status": "Open", "labels": ["a"]}}],
            "relationships": [{"source": "jira::JERV-9", "type": "assigned_to", "target": f"user:{name}", **since}],
        }
        observed = datetime(2026, 3, day, tzinfo=UTC)
        await kb.ingest(world.request("Ticket.", urn=f"u:{day}", kind="jira", observed_at=observed, **given))
    await kb.ingest(world.request(_HOSTILE, urn="u:hostile", title=_TITLE))
    async with (
        serving.over(kb, meters) as (_, http),
        browser.opened(tmp_path, f"{http.base_url}/kb/#{asked}".replace("//kb", "/kb")) as tab,
    ):
        # The question in the address is asked at once; texts of sources are shown as text, never as markup.
        await tab.until("document.querySelectorAll('#items li').length === 4")
        titles = "[...document.querySelectorAll('#items button')].map(one => one.textContent)"
        assert set(await tab.evaluate(titles)) == {"Login bug", _TITLE}
        assert await tab.evaluate("document.title") == "Jervis knowledge base"
        assert await tab.evaluate("document.querySelectorAll('main img, main b').length") == 0
        assert await tab.evaluate(_WIDER) == []

        await tab.evaluate(f"document.querySelector('[data-chunk=\"{reply.chunk_ids[0]}\"] button').click()")
        await tab.until(f"document.getElementById('opened').dataset.chunk === '{reply.chunk_ids[0]}'")
        assert "UserService.kt" in await tab.evaluate("document.getElementById('text').textContent")
        assert await tab.evaluate("document.querySelectorAll('#text mark').length") >= 1

        await tab.evaluate("document.querySelector('#nodes [data-node=\"jira::JERV-123\"]').click()")
        await tab.until("document.getElementById('drawn').dataset.node === 'jira::JERV-123'")
        assert await tab.evaluate("document.querySelectorAll('#graph .node').length") >= 3
        assert await tab.evaluate("document.querySelectorAll('#graph .centre').length") == 1

        edge = "document.querySelector('#graph [data-edge=\"jira::JERV-123|affects|file:userservice.kt\"]')"
        await tab.evaluate(f"{edge}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
        await tab.until("document.querySelectorAll('#sentences li').length === 1")
        proof = await tab.evaluate("document.getElementById('sentences').textContent")
        assert "jira:JERV-123|AFFECTS|file:UserService.kt" in proof

        # Properties, how sure a relationship is, and what took its place.
        await tab.evaluate("walk('jira::JERV-9')")
        await tab.until("document.getElementById('drawn').dataset.node === 'jira::JERV-9'")
        assert await tab.evaluate("document.getElementById('properties').textContent") == 'labels["a"]statusOpen'
        old = "document.querySelector('#graph [data-edge=\"jira::JERV-9|assigned_to|user:jana\"]')"
        title = await tab.evaluate(f"{old}.querySelector('title').textContent")
        assert title == "jira::JERV-9 assigned_to user:jana · confidence 0.90 · since 2026-03-05 it is user:petr"
        assert await tab.evaluate(f"{old}.classList.contains('retired')")
        await tab.evaluate(f"{old}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
        await tab.until("document.getElementById('edge').textContent.includes('JERV-9')")
        sure = await tab.evaluate("document.getElementById('sure').textContent")
        assert sure == "confidence 0.90 · since 2026-03-05 it is user:petr"
        assert await tab.evaluate("document.getElementById('given').textContent") == "since2026"
        assert await tab.evaluate(_WIDER) == []

        # What goes wrong is said, with what helps, and the page stays usable.
        await tab.evaluate("document.getElementById('clientId').value = 'not a name'; search()")
        await tab.until("document.getElementById('problem').textContent !== ''")
        assert "clientId" in await tab.evaluate("document.getElementById('problem').textContent")
