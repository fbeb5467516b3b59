"""The page at /router/ in a real browser: what it shows is what the router knows, and it stays up to date."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests import browser
from tests.router import process, wire

_GIB = 1 << 30


async def test_backends_queue_and_explanation_are_shown_and_stay_live(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with wire.backend(wire.gated(gate)) as backend:
        backend.ps = [{"name": "m:latest", "model": "m:latest", "size": 3 * _GIB, "size_vram": 2 * _GIB}]
        specs = [process.spec("gpu-0", backend.url, vram="8Gi", numParallel=1)]
        async with (
            process.running(tmp_path, specs) as router,
            browser.opened(tmp_path, router.url + "/router/") as page,
        ):
            await page.until("document.querySelector('[data-backend=gpu-0]') !== null")
            card = await page.evaluate("document.querySelector('[data-backend=gpu-0]').textContent")
            assert "healthy" in card
            assert "VRAM 2.0 GiB of 8.0 GiB" in card
            assert "m:latest (2.0 GiB, partly on the CPU)" in card
            assert await page.evaluate("document.getElementById('total').textContent") == "empty"

            # Names come from clients: they are shown as text, never as markup.
            asks = [
                asyncio.create_task(router.post("/api/chat", {"model": "m"}, [("X-Ollama-Priority", p)]))
                for p in ("0", "3", "3")
            ]
            await router.until(lambda s: s["queue"]["waiting"] == 2)
            await page.until("document.getElementById('waiters').tBodies[0].rows.length === 2")
            assert await page.evaluate("document.getElementById('total').textContent.startsWith('2 waiting')")
            counts = await page.evaluate("[...document.getElementById('counts').cells].map(c => c.textContent)")
            assert counts[-1] == "2"
            await page.until("document.querySelector('[data-backend=gpu-0]').textContent.includes('m:latest at P0')")
            gate.set()
            await asyncio.gather(*asks)
            await page.until("document.getElementById('total').textContent === 'empty'")

            await page.evaluate("document.getElementById('model').value = '<b>m</b>'")
            await page.evaluate("document.getElementById('ask').requestSubmit()")
            await page.until("document.getElementById('answer').textContent.includes('does not have the model')")
            await page.evaluate("document.getElementById('model').value = 'm'")
            await page.evaluate("document.getElementById('ask').requestSubmit()")
            await page.until("document.getElementById('answer').textContent.includes('Dispatch to gpu-0')")
            assert await page.evaluate("document.querySelectorAll('#answer b').length") == 0


async def test_the_last_minutes_are_plotted(tmp_path: Path) -> None:
    counted = wire.answering(wire.plain(b'{"done": true, "eval_count": 5000}'))
    async with (
        process.before(tmp_path, counted, name="gpu-0") as (router, _),
        browser.opened(tmp_path, router.url + "/router/") as page,
    ):
        await page.until("document.body.dataset.samples !== undefined")
        for priority in ("0", "3"):
            await router.post("/api/chat", {"model": "m"}, [("X-Ollama-Priority", priority)])
        await page.until("document.querySelectorAll('#waits line.P0, #waits line.P3').length === 2")
        assert await page.evaluate("document.getElementById('waits-top').textContent.match(/P0 .*P3 /) !== null")
        await page.until("Number(document.getElementById('tokens-top').textContent.match(/[0-9]+/)) > 100")
        label = await page.evaluate("document.getElementById('tokens').getAttribute('aria-label')")
        assert "tokens a second" in label
        assert await page.evaluate("document.getElementById('swaps-top').textContent") == "0 in all"
        past = (await router.get("/router/history")).json()
        assert past["everySeconds"] == 5.0
        counts = [(level, waits["count"]) for one in past["samples"] for level, waits in one["waits"].items()]
        assert sorted(counts) == [("P0", 1), ("P3", 1)]


async def test_with_tokens_the_page_asks_for_one(tmp_path: Path) -> None:
    tokens = process.tokens(tmp_path, {"name": "me", "token": "my-token-0123456789"})
    async with (
        process.before(tmp_path, wire.closing(), name="gpu-0", tokens_file=tokens) as (router, _),
        browser.opened(tmp_path, router.url + "/router") as page,
    ):
        await page.until("document.getElementById('state').textContent === 'a token is needed'")
        await page.evaluate("document.getElementById('token').value = 'my-token-0123456789'")
        await page.evaluate("document.getElementById('login').requestSubmit()")
        await page.until("document.querySelector('[data-backend=gpu-0]') !== null")


async def test_events_without_a_browser(tmp_path: Path) -> None:
    async with process.before(tmp_path, wire.closing()) as (router, _), wire.connected(router.port) as (reader, writer):
        writer.write(wire.request("GET", "/router/events"))
        head = await wire.read_head(reader)
        assert head.header("Content-Type") == "text/event-stream"
        event = (await reader.readuntil(b"\n\n")).decode()
        assert event.startswith('event: status\ndata: {"backends":[{"name":"raw"')
        router.terminate()  # a watcher does not hold up the end
        await reader.read()
        assert await router.ended() == 0
