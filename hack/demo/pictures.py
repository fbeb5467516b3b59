"""`python -m hack.demo.pictures`: draw the pages of the running demonstration into docs/pictures, for the README.

Run it soon after `make demo`: the router's page shows the last fifteen minutes. Needs Chromium (`make programs`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

from hack.cluster import errors as cluster_errors
from hack.cluster import layout, progress
from hack.demo import errors, forward, inputs, kubectl, settings
from tests import browser

FOLDER = layout.CHECKOUT / "docs" / "pictures"
MOST_BYTES = 150_000
_WIDTH = 1200
_MOST_HEIGHT = 1600
_LIGHT = [{"name": "prefers-color-scheme", "value": "light"}]


async def drawn(cluster: kubectl.Kubectl, wanted: settings.Settings) -> dict[str, bytes]:
    """PNG by the name of its file."""
    token = cluster.run("create", "token", "jervis-operator", "--audience=jervis-router").strip()
    with forward.opened(cluster, "jervis-router", 11430) as url:
        async with _opened(f"{url}/router/") as tab:
            await tab.until("!document.getElementById('login').hidden")
            await tab.evaluate(f"document.getElementById('token').value = '{token}'")
            await tab.evaluate("document.getElementById('login').requestSubmit()")
            await tab.until("document.querySelectorAll('[data-backend]').length > 0")
            await tab.until("document.body.dataset.samples !== undefined")
            router = await _shot(tab)
    question = inputs.question(wanted.checkout).content
    # Mails alone: commits of the checkout differ from one to the next.
    scope = {"clientId": settings.CLIENT, "projectId": settings.PROJECT, "kinds": "email"}
    asked = urlencode({**scope, "query": question})
    with forward.opened(cluster, "jervis-kb-read", 8080) as url:
        async with _opened(f"{url}/kb/#{asked}") as tab:
            await tab.until("document.querySelectorAll('#items button').length > 0")
            await tab.evaluate("document.querySelector('#items button').click()")
            await tab.until("document.querySelectorAll('#nodes [data-node]').length > 0")
            await tab.evaluate("document.querySelector('#nodes [data-node]').click()")
            await tab.until("document.querySelectorAll('#graph .node').length > 1")
            knowledge = await _shot(tab)
    return {"router.png": router, "knowledge-base.png": knowledge}


@contextlib.asynccontextmanager
async def _opened(url: str) -> AsyncIterator[browser.Tab]:
    with tempfile.TemporaryDirectory() as profile:
        async with browser.opened(Path(profile), url) as tab:
            await tab.call("Emulation.setEmulatedMedia", features=_LIGHT)
            yield tab


async def _shot(tab: browser.Tab) -> bytes:
    """The page at two thirds of its size, as wide as a README and not much higher."""
    sizes = {"width": _WIDTH, "height": 400, "deviceScaleFactor": 0.67, "mobile": False}
    await tab.call("Emulation.setScrollbarsHidden", hidden=True)
    await tab.call("Emulation.setDeviceMetricsOverride", **sizes)
    height = min(_MOST_HEIGHT, int(await tab.evaluate("document.documentElement.scrollHeight")))
    await tab.call("Emulation.setDeviceMetricsOverride", **(sizes | {"height": height}))
    await tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return base64.b64decode((await tab.call("Page.captureScreenshot", format="png"))["data"])


def main() -> int:
    """Exit status: 0 both pictures are there, 1 not (one line on stderr says why)."""
    wanted = settings.read(os.environ)
    try:
        cluster = kubectl.Kubectl(kubectl.find(progress.Progress()), wanted.kubeconfig, wanted.namespace)
        pictures = asyncio.run(drawn(cluster, wanted))
    except (errors.Failure, cluster_errors.Failure) as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        (FOLDER / name).write_bytes(picture)
        print(f"{FOLDER / name}: {len(picture)} bytes")
        if len(picture) > MOST_BYTES:
            print(f"error: {name} has more than {MOST_BYTES} bytes", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
