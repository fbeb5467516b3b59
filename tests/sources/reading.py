"""What a poll and a list of a source have, read to their ends; and the sources of mailboxes, Jira and Confluence."""

from __future__ import annotations

import ssl
import time
from typing import Any

from clients import tls_trust
from crds import connection
from sources.core import limits, port
from sources.providers.atlassian import sites as atlassian
from sources.providers.confluence import reading as confluence
from sources.providers.jira import reading as jira
from sources.providers.mail import folder_state, imap, imap_session
from tests.sources import dovecot
from tests.sources.atlassian_server import Server
from tests.sources.jira_server import Jira

TLS = ssl.create_default_context()


async def read(
    source: port.Source, cursor: port.Cursor | None = None
) -> tuple[list[port.Item], list[port.Failure], port.Cursor]:
    """A whole poll from the cursor on."""
    items, failures, last = list[port.Item](), list[port.Failure](), cursor or {}
    async for batch in source.batches(last):
        items += batch.items
        failures += batch.failures
        last = batch.cursor
    return items, failures, last


async def listed(source: port.Source) -> list[str]:
    """A whole list: its last page, and no other one, says that it is the last."""
    pages = [page async for page in source.ids()]
    ends = [page.last for page in pages]
    assert ends == [False] * (len(pages) - 1) + [True], ends
    return [place for page in pages for place in page.places]


def mailbox(
    url: str,
    user: str,
    *,
    password: str = dovecot.PASSWORD,
    tls: ssl.SSLContext | None = None,
    plain: bool = True,
    lists: folder_state.Lists | None = None,
    **chosen: Any,
) -> imap.Mailbox:
    """By IMAP; `chosen` is the filter."""
    login = imap_session.Login(url, user, password, tls or tls_trust.context(), plain)
    bucket = limits.Bucket(6000, 1000)
    return imap.Mailbox(login, connection.Filter(**chosen), bucket, monotonic=time.monotonic, lists=lists)


def site(server: Server, chosen: dict[str, Any] | None = None, **sizes: int) -> Any:
    """A Jira or a Confluence, whichever the server is; `chosen` is the filter."""
    kind, module = ("Jira", jira) if isinstance(server, Jira) else ("Confluence", confluence)
    spec = connection.Spec.model_validate(
        {"type": kind, "clientId": "acme", "url": server.url, "secretRef": {"name": "s"}, "filter": chosen or {}}
    )
    opens = module.opened(atlassian.opened(True, TLS, lambda: 0.0, lambda: server.now), **sizes)
    return opens(spec, {"username": "a@b.c", "token": "t"}, limits.Bucket(6000, 100000))


async def changes(
    server: Server, cursor: port.Cursor | None = None, chosen: dict[str, Any] | None = None, **sizes: int
) -> tuple[list[port.Item], list[port.Failure], port.Cursor]:
    """A whole poll of a site."""
    return await read(site(server, chosen, **sizes), cursor)


async def places(server: Server, chosen: dict[str, Any] | None = None, **sizes: int) -> tuple[set[str], Any]:
    """The list of a site, and its last page."""
    pages = [page async for page in site(server, chosen, **sizes).ids()]
    return {place for page in pages for place in page.places}, pages[-1] if pages else None
