"""The pages at /kb/ and /kb/ask: static documents that ask the read endpoints, as the person who looks at them may.

Their scripts and styles are files of `kb.service.page` that are put into them, so that their policy can name what may
run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable
from importlib import resources

from aiohttp import web

_PAGES = {"/kb/": "index.html", "/kb/ask": "ask.html"}
_SOURCE = re.compile(rb'<script src="([a-z]+\.js)"></script>|<link rel="stylesheet" href="([a-z]+\.css)">')
_INLINE = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


def add_to(application: web.Application) -> None:
    """Serve the pages; `/kb` leads to the first."""
    for path, name in _PAGES.items():
        application.router.add_get(path, _showing(name))

    async def lead(request: web.Request) -> web.Response:
        return web.Response(status=308, headers={"Location": "kb/"})

    application.router.add_get("/kb", lead)


def _showing(name: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    folder = resources.files("kb.service.page")

    def whole(found: re.Match[bytes]) -> bytes:
        tag, part = (b"script", found[1]) if found[1] else (b"style", found[2])
        return b"<%s>%s</%s>" % (tag, folder.joinpath(part.decode()).read_bytes(), tag)

    text = _SOURCE.sub(whole, folder.joinpath(name).read_bytes())
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy(text),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }

    async def show(request: web.Request) -> web.Response:
        return web.Response(body=text, headers=headers)

    return show


def policy(page: bytes) -> str:
    """What the page may do: run exactly its own script, ask its own server, and nothing else."""
    digests: dict[bytes, list[str]] = {b"script": [], b"style": []}
    for kind, body in _INLINE.findall(page):
        digests[kind].append(f"'sha256-{base64.b64encode(hashlib.sha256(body).digest()).decode()}'")
    script, style = " ".join(digests[b"script"]), " ".join(digests[b"style"])
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
