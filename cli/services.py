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
    from kb import client as kb_client

_WRITING = "app.kubernetes.io/part-of=jervis,app.kubernetes.io/component=kb-write"

KbToken = Annotated[
    str, Option("--token", envvar="JERVIS_KB_TOKEN", help="Bearer token for the knowledge base, if it requires one.")
]


@asynccontextmanager
async def knowledge(url: str, token: str, seconds: float) -> AsyncIterator[kb_client.Client]:
    """The knowledge base at `url`; `token` "" is for one that asks for none, `seconds` bounds each call."""
    # Imported late: --help and small submissions need no HTTP client.
    import httpx

    from kb import client

    async with httpx.AsyncClient(timeout=seconds) as http:
        yield client.Client(url, http, token)


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
