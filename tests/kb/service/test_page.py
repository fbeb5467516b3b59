"""The page at /kb/ in a real browser: from a question to its proof, and the neighbourhood of a declaration."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from codegraph import api
from contracts import repository_keys
from kb import client, metrics
from tests import browser
from tests.kb import scopes, world
from tests.kb.ingest import trees
from tests.kb.service import serving

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


site = trees.site

PRICE = "def rounded(x):\n    return round(x)\n\n\ndef total(xs):\n    return rounded(sum(xs)) + rounded(1)\n"
SHOP = "from app.price import total\n\n\nclass Order:\n    def due(self):\n        return total([])\n"
HOSTILE = "from app.shop import Order\n\n\ndef main():\n    return Order().due()\n"
FILES = {
    "app/__init__.py": "",
    "app/price.py": PRICE,
    "app/shop.py": SHOP,
    f"app/{'x' * 120}<b>.py": HOSTILE,
}


def key(container: str, name: str) -> str:
    return repository_keys.method(container, name, "main", "shop")


TOTAL, ROUNDED, DUE = key("app.price", "total"), key("app.price", "rounded"), key("app.shop.Order", "due")
_KEYS = "[...document.querySelectorAll('{0}')].map(one => one.dataset.key)"


def names(selector: str) -> str:
    return _KEYS.format(selector)


def shows(symbol: str) -> str:
    return f"document.getElementById('code').dataset.symbol === '{symbol}'"


@pytest.mark.services
async def test_from_a_symbol_to_its_neighbours(tmp_path: Path, site: tuple[client.Client, str]) -> None:
    typed, url = site
    await typed.code.structure(trees.tree(FILES))
    asked = urlencode({"clientId": "acme", "projectId": "shop", "symbol": "total"})
    async with browser.opened(tmp_path, f"{url.rstrip('/')}/kb/#{asked}") as tab:
        await tab.until(shows(TOTAL))
        assert set(await tab.evaluate(names("#codeGraph .node"))) == {DUE, TOTAL, ROUNDED}
        assert await tab.evaluate(names("#codeGraph .centre")) == [TOTAL]
        # The list says what the drawing shows.
        assert await tab.evaluate(names("#codeList [data-side=caller] li")) == [DUE]
        assert await tab.evaluate(names("#codeList [data-side=callee] li")) == [ROUNDED]
        said = await tab.evaluate("document.querySelector('#codeList [data-side=symbol] li').textContent")
        assert said == "app.price.totalfunction · app/price.py:5 · the startcalls app.price.rounded (line 6)"
        files = "[...document.querySelectorAll('#codeGraph .file')].map(one => one.dataset.file)"
        assert await tab.evaluate(files) == ["app/shop.py", "app/price.py", "app/price.py"]
        calls = "[...document.querySelectorAll('#codeGraph .call')].map(one => one.dataset.call)"
        assert sorted(await tab.evaluate(calls)) == sorted([f"{DUE}|{TOTAL}", f"{TOTAL}|{ROUNDED}"])
        reach = await tab.evaluate("document.getElementById('codeReach').textContent")
        assert reach.startswith("3 declarations, 2 connections; none is left out. acme/shop main at aaaaaaaaaaaa, ")
        assert await tab.evaluate("document.activeElement.id") == "codeSymbol"

        # By keyboard: one stop of the tab key, arrows move, Enter goes on.
        stops = "document.querySelectorAll('#codeGraph [tabindex=\"0\"]').length"
        assert await tab.evaluate(stops) == 1
        press = (
            "(document.activeElement.closest('#codeGraph') ? document.activeElement"
            " : document.querySelector('#codeGraph [tabindex=\"0\"]'))"
            ".dispatchEvent(new KeyboardEvent('keydown', {{key: '{0}', bubbles: true, cancelable: true}}))"
        )
        await tab.evaluate(press.format("ArrowLeft"))
        assert await tab.evaluate("document.activeElement.dataset.key") == DUE
        assert await tab.evaluate(stops) == 1
        label = await tab.evaluate("document.activeElement.getAttribute('aria-label')")
        assert label == "method app.shop.Order.due, caller, 1 step away, app/shop.py line 5"
        await tab.evaluate(press.format("Enter"))
        await tab.until(shows(DUE))

        # By mouse, in two steps; names of files are text.
        await tab.evaluate("document.getElementById('steps').value = '2'")
        total = f"document.querySelector('#codeGraph [data-key=\"{TOTAL}\"]')"
        await tab.evaluate(f"{total}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
        await tab.until(f"{shows(TOTAL)} && document.querySelectorAll('#codeGraph .node').length === 4")
        assert "2 steps away" in await tab.evaluate("document.getElementById('codeList').textContent")
        assert await tab.evaluate("document.querySelectorAll('main b').length") == 0
        assert await tab.evaluate(_WIDER) == []
        await tab.evaluate("document.querySelector('#codeList [data-side=callee] button').click()")
        await tab.until(shows(ROUNDED))

        await tab.evaluate("neighbourhood('none_such')")
        await tab.until("document.getElementById('problem').textContent !== ''")
        assert "none_such" in await tab.evaluate("document.getElementById('problem').textContent")


@pytest.mark.services
async def test_what_has_no_place_is_counted(tmp_path: Path, site: tuple[client.Client, str]) -> None:
    typed, url = site
    many = "".join(f"def f{number}():\n    return hub()\n\n\n" for number in range(320))
    await typed.code.structure(trees.tree({"app/many.py": f"def hub():\n    return 1\n\n\n{many}"}))
    asked = api.CodeNeighbourhood(scope=scopes.SHOP, symbol="hub", limit=300, steps=2)
    found = await typed.code.neighbourhood(asked)
    assert (len(found.neighbours), len(found.calls), found.left_out) == (301, 300, 20)
    few = await typed.code.neighbourhood(asked.model_copy(update={"symbol": "f7"}))
    assert [(one.side, one.steps) for one in few.neighbours] == [("symbol", 0), ("callee", 1)]
    hash_ = urlencode({"clientId": "acme", "projectId": "shop", "symbol": "hub"})
    async with browser.opened(tmp_path, f"{url.rstrip('/')}/kb/#{hash_}") as tab:
        await tab.until("document.querySelectorAll('#codeGraph .node').length === 201")
        reach = await tab.evaluate("document.getElementById('codeReach').textContent")
        assert reach.startswith("201 declarations, 200 connections; 120 declarations more are left out. ")


@pytest.mark.services
async def test_a_class_has_the_calls_of_its_methods(site: tuple[client.Client, str]) -> None:
    typed, _ = site
    await typed.code.structure(trees.tree(FILES))
    found = await typed.code.neighbourhood(api.CodeNeighbourhood(scope=scopes.SHOP, symbol="Order"))
    assert {(one.place.name, one.side) for one in found.neighbours} == {
        ("Order", "symbol"), ("main", "caller"), ("total", "callee"),
    }  # fmt: skip
    own = found.symbol.key
    assert {(one.caller, one.callee) for one in found.calls if own in (one.caller, one.callee)} == {
        (found.neighbours[1].place.key, own), (own, TOTAL),
    }  # fmt: skip
