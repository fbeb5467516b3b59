"""Pages as they are seen: which documents get them, and the search that answers with them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from contracts.api import message
from crds import scope
from crds.values import ContentRef
from kb.api.words import Name

PageWhich = Literal["None", "Seen", "All"]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=True)]


class PageChoiceDraft(message.Request):
    """Which PDFs and images of exactly this scope get pages that are stored and found as images.

    `Seen`: images, and pages of PDFs that text alone does not tell (scans, drawings, figures). `All`: every page.
    `None` takes those away that there are. `sources`: only of documents with these source URNs, or beginnings of them
    that end with `*`; empty: of all. It holds for what is sent from now on.
    """

    scope: scope.Scope
    pages: PageWhich
    sources: list[Pattern] = Field(default_factory=list, max_length=100)
    by: Name


class PageChoice(message.Reply):
    """What was decided for `scope`, by whom and when."""

    scope: scope.Scope
    pages: PageWhich
    sources: list[str]
    by: str
    at: AwareDatetime


class PageChoices(message.Reply):
    """The choices that hold in a scope, the most specific first: it counts alone. None: there are no pages."""

    choices: list[PageChoice]


class PageSearch(message.Request):
    """A question in words. `sources` narrows to documents as a choice does.

    `ways`: `Auto` looks at words first, and at images of pages that text alone does not tell; at all images only where
    no page has enough of the question's words. `Words` and `Images` look at these alone. `crop`: with the piece of each
    image where the evidence is.
    """

    scope: scope.Scope
    query: str = Field(min_length=1, max_length=8000)
    top_k: int = Field(default=3, ge=1, le=20)
    sources: list[Pattern] | None = Field(default=None, max_length=100)
    ways: Literal["Auto", "Words", "Images"] = "Auto"
    crop: bool = True


class Rectangle(message.Reply):
    """A place on a page, in shares of its width and height from the upper left corner; `text` is what stands there,
    where the page has text of its own."""

    left: float
    top: float
    right: float
    bottom: float
    text: str = ""


class PatchMatch(message.Reply):
    """A patch of the page that is like a token of the question; `score` is the cosine."""

    row: int
    column: int
    score: float


class TokenPatches(message.Reply):
    """The best patches of one of the question's tokens, the best first; `token` is its text where the model says it."""

    index: int
    token: str
    patches: list[PatchMatch]


class PatchMap(message.Reply):
    """Which patches of the page, which is cut into `rows` x `columns` of them, match which tokens of the question."""

    rows: int
    columns: int
    tokens: list[TokenPatches]


class Crop(message.Reply):
    """The piece of the page's image where the evidence is: a PNG in base64, "" of images that were not drawn here."""

    place: Rectangle
    image: str


class PageHit(message.Reply):
    """A page. `foundBy` says by which way; `words` is the share of the question's words that it has, `similarity` the
    mean over the question's tokens of the best cosine with a patch (MaxSim), each where it was looked at.

    `image` is its image as stored content; `width` and `height` are the page's in points, or an image's in pixels.
    `text` is what stands around the evidence, `rectangles` are the places of the question's words, `patches` those of
    what looks like them; `place` is the region with most of it. `pageId` names the page for
    `/search/pages/{pageId}/image`, which gives its image, or a place of it.
    """

    page_id: str
    page_number: int
    document_id: str
    source_urn: str
    title: str
    scope: scope.Scope
    score: float
    found_by: Literal["Words", "Images", "Both"]
    words: float | None
    similarity: float | None
    image: ContentRef
    width: float
    height: float
    text: str
    rectangles: list[Rectangle]
    patches: PatchMap | None
    place: Rectangle | None
    crop: Crop | None


class PageReply(message.Reply):
    """The best pages, the best first. `model` made the vectors, "" for none; `problems` say what was not looked at."""

    pages: list[PageHit]
    model: str
    looked_at_images: Literal["None", "Seen", "All"]
    problems: list[str]


class DocumentPages(message.Reply):
    """How far the pages of a document are: `state` is Waiting, Done or Failed; `done` of `count` pages were looked at.

    `model` made their vectors, "" for none. `problems`: pages that are missing and why, or what it waits for.
    """

    source_urn: str
    state: Literal["Waiting", "Done", "Failed"]
    model: str
    count: int
    done: int
    problems: list[str]
