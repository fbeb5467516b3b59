"""The pages of a site."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from crds import scope
from kb import wire


class Crawl(wire.Request):
    """Pages of one site, breadth first from `url`. `depth` 0 is that page alone."""

    scope: scope.Scope
    url: Annotated[str, StringConstraints(min_length=8, max_length=2000, pattern=r"^https?://")]
    depth: int = Field(default=1, ge=0, le=5)
    max_pages: int = Field(default=20, ge=1, le=500)
    kind: wire.Kind = "web_page"


class Page(wire.Reply):
    """A page that was looked at; `reason` says why it was not taken, "" when it was."""

    url: str
    source_urn: str | None = None
    chunks: int = 0
    reason: str = ""


class CrawlReply(wire.Reply):
    """`truncated` when a limit ended the crawl before it ran out of links."""

    pages: list[Page]
    taken: int
    truncated: bool
