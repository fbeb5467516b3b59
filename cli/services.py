"""The services of a release that a command calls itself: how their URL and token are given, and the client of each.

Both are flags and variables under the same names in every command.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from typer import Option

if TYPE_CHECKING:
    from kb import client as kb_client

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
