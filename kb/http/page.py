"""The page at /kb/: one static document that asks the read endpoints, as the person who looks at it may.

Its scripts are files of `kb.page` that are put into it when it is served, so that its policy can name them.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources

from aiohttp import web

_PATH = "/kb/"
_SOURCE = re.compile(rb'<script src="([a-z]+\.js)"></script>')
_INLINE = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


def add_to(application: web.Application) -> None:
    """Serve the page; `/kb` leads to it."""
    folder = resources.files("kb.page")
    text = _SOURCE.sub(
        lambda found: b"<script>%s</script>" % folder.joinpath(found[1].decode()).read_bytes(),
        folder.joinpath("index.html").read_bytes(),
    )
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy(text),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }

    async def show(request: web.Request) -> web.Response:
        return web.Response(body=text, headers=headers)

    async def lead(request: web.Request) -> web.Response:
        return web.Response(status=308, headers={"Location": "kb/"})

    application.router.add_get(_PATH, show)
    application.router.add_get(_PATH.rstrip("/"), lead)


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
