"""The services of a release that a command calls itself: how their URL and token are given, and the client of each.

Both are flags and variables under the same names in every command.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from typer import Option

from cli import archive
from cli.session import Session
from crds.errors import JervisError

if TYPE_CHECKING:
    import httpx

    from kb import client as kb_client

_WRITING = "app.kubernetes.io/part-of=jervis,app.kubernetes.io/component=kb-write"

KbToken = Annotated[
    str, Option("--token", envvar="JERVIS_KB_TOKEN", help="Bearer token for the knowledge base, if it requires one.")
]


@asynccontextmanager
async def http(url: str, seconds: float) -> AsyncIterator[httpx.AsyncClient]:
    """For calls to the service at `url`, which may wait for long; `seconds` bounds what gives no time of its own."""
    # Imported late: --help and small submissions need no HTTP client.
    import httpx

    from router import client

    try:
        transport = client.few(url)
    except (httpx.InvalidURL, ValueError):
        transport = client.few()  # the call names the fault
    async with httpx.AsyncClient(transport=transport, timeout=seconds) as opened:
        yield opened


@asynccontextmanager
async def knowledge(url: str, token: str, seconds: float, *, attempts: int = 3) -> AsyncIterator[kb_client.Client]:
    """The knowledge base at `url`; `token` "" is for one that asks for none. `seconds` bounds each call but those that
    run a model: they wait as long as the router lets their priority wait."""
    import stamina

    from kb import client

    # A command says itself what became of it; the retries' own log would go to standard output.
    stamina.instrumentation.set_on_retry_hooks(())
    async with http(url, seconds) as opened:
        yield client.Client(url, opened, token, patient=True, attempts=attempts)


def way(session: Session) -> str:
    """How to reach the knowledge base of the release that processes the namespace: a remedy, in a sentence."""
    try:
        where = archive.release(session.kube)
        found = session.kube.services(where, _WRITING)
    except JervisError:
        # This is part of another error's message; who may not look for the Service gets the general advice.
        found = []
    if not found:
        return "Give the URL of the knowledge base (the release's Service for kb-write) with --kb or JERVIS_KB_URL."
    name, port = found[0]["metadata"]["name"], found[0]["spec"]["ports"][0]["port"]
    forward = f"kubectl port-forward -n {where} svc/{name} {port}"
    return f"Reach the knowledge base with: {forward}, and give --kb http://127.0.0.1:{port}"
