"""The pages of a site."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from contracts.api import message
from crds import scope


class Crawl(message.Request):
    """Pages of one site, breadth first from `url`. `depth` 0 is that page alone.

    `gone`: pages that the site answers with 404 or 410 and that the scope has of this `kind` are deleted, or kept.
    With Remove and a `depth`, known pages of the site that no link leads to any more are asked too.
    """

    scope: scope.Scope
    url: Annotated[str, StringConstraints(min_length=8, max_length=2000, pattern=r"^https?://")]
    depth: int = Field(default=1, ge=0, le=5)
    max_pages: int = Field(default=20, ge=1, le=500)
    kind: message.Kind = "web_page"
    gone: Literal["Remove", "Keep"] = "Remove"


class Page(message.Reply):
    """A page that was looked at; `reason` says why it was not taken, "" when it was. `removed`: it was known, and is no
    longer."""

    url: str
    source_urn: str | None = None
    chunks: int = 0
    reason: str = ""
    removed: bool = False


class CrawlReply(message.Reply):
    """`truncated` when a limit ended the crawl before it ran out of links; `stopped` says why it broke off, "" if not:
    the pages that are listed were taken all the same, and the crawl is to be repeated."""

    pages: list[Page]
    taken: int
    truncated: bool
    removed: int = 0
    stopped: str = ""
