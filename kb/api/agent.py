"""Questions that the decision agent answers, and the events of its answer, one JSON object on a line each.

The names of the events and their fields are those of seed 004 "Streaming Output Format".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from contracts.api import message
from crds import scope
from crds.values import ContentRef
from kb.api import pages

ConversationId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
THOUGHTS = "Thoughts"
"""Verdict of all that was given of an answer so far."""
EventType = Literal["decision", "status", "result", "token", "error", "complete"]


class AgenticSearch(message.Request):
    """A question in words.

    `conversation` names what was said before and gets this question and its answer; it is chosen by the caller and
    belongs to the scope. `repository` narrows code to one. `maxIterations` and `maxTokens` lower the service's own
    bounds: rounds, and tokens after which it answers.
    `resumeSeconds`: for so long the agent works on after the caller has hung up, so that the stream can be resumed;
    with 0 everything is cancelled at once.
    """

    scope: scope.Scope
    query: str = Field(min_length=1, max_length=8000)
    conversation: ConversationId | None = None
    repository: str = Field(default="", max_length=511)
    max_iterations: int | None = Field(default=None, ge=1, le=50)
    max_tokens: int | None = Field(default=None, ge=1)
    resume_seconds: float = Field(default=0.0, ge=0, le=300)


class Citation(message.Reply):
    """A passage that the answer names by [`ref`]; `quotes` are the texts of it that the answer has verbatim.

    `page`: of a passage of a PDF with text the page on which the first of `quotes` begins that stands on one, and
    without `quotes` the one that the search meant; of a page that was found its number. `pageId` and `image`: this page
    as a whole, of a passage where pages are kept and the caller sees this one. `rectangles`: places on it of what is
    quoted, of a page that was found those of the question's words; `place`: the region with most of the evidence, by
    whose sides `/search/pages/{pageId}/image` gives that piece of the image. `patches`: of a page that was found, what
    looks like the question's words.
    `interpreted`: the passage is not the document's own text, but what a vision model said of the page.
    """

    ref: int
    source_urn: str
    title: str = ""
    chunk_id: str = ""
    page: int | None = None
    quotes: list[str] = Field(default_factory=list)
    interpreted: bool = False
    page_id: str = ""
    image: ContentRef | None = None
    place: pages.Rectangle | None = None
    rectangles: list[pages.Rectangle] = Field(default_factory=list)
    patches: pages.PatchMap | None = None


class AgentEvent(message.Reply):
    """A line of the answer. `id` counts from 1 within a stream.

    decision    `tool`, `reasoning`; `calls` of the model and `tokens` so far
    status      `message`; the first one names the `stream`. Of a part of the answer that is not given it has the part
                as `content`, and `verdict`: Misattributed, Stitched, Absent. With `verdict` Thoughts all tokens so far
                were what the model thought, and no part of the answer
    result      `tool`, `objects`, `metadata`, `name`, `payloadType`
    token       `content`, a piece of the answer
    error       `message`, `recoverable`, `suggestion`
    complete    `outcome`: answered, impossible, failed or cancelled; `reason`, why there is no answer, and `reasoning`,
                the model's own sentence on that; `citations`; `calls`, `tokens`, `model`
    """

    id: int = 0
    type: EventType
    stream: str | None = None
    message: str | None = None
    tool: str | None = None
    reasoning: str | None = None
    objects: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None
    name: str | None = None
    payload_type: str | None = None
    content: str | None = None
    verdict: str | None = None
    recoverable: bool | None = None
    suggestion: str | None = None
    outcome: Literal["answered", "impossible", "failed", "cancelled"] | None = None
    reason: str | None = None
    citations: list[Citation] | None = None
    calls: int | None = None
    tokens: int | None = None
    model: str | None = None
