"""The evidence pack of a round: numbered items, bounded in size, stored as one artifact. Pure.

Order: the task's own document, the user's messages and answers, then the results of the knowledge base, best first.
What of the task's own texts has no room is left out by importance, and a line in its place says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter
from pydantic.alias_generators import to_camel

from contracts.rules import enforce_lines
from crds import access as accesses
from kb import api
from orchestrator_job.model import excerpt

TASK, ORDER, USER = "Task", "Order", "User"
"""Origins of the task's own texts: a document, what a question leaves out of a user's order, what the user added."""
OWN = frozenset((TASK, ORDER, USER))
_FREE = enforce_lines.Provisions()


class Item(BaseModel):
    """One item of evidence. The answer cites `id`, from 1; `origin` is Task, Order, User, RAG or Graph. `access` is who
    may read it at its source, where that is known."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    id: int
    source: str
    title: str = ""
    content: str
    origin: str
    confidence: float = 1.0
    chunk_id: str | None = None
    access: accesses.Access | None = None


_ITEMS = TypeAdapter(tuple[Item, ...])


@dataclass(frozen=True, slots=True)
class Fitted:
    """`gone`: each of the task's own items with how many of its characters are left out."""

    items: tuple[Item, ...]
    gone: tuple[tuple[Item, int], ...]


def build(
    own: Sequence[Item],
    found: Iterable[api.EvidenceItem],
    own_source: str | None,
    context_chars: int,
    held: enforce_lines.Provisions = _FREE,
) -> tuple[Item, ...]:
    """The items of `fit`."""
    return fit(own, found, own_source, context_chars, held).items


def fit(
    own: Sequence[Item],
    found: Iterable[api.EvidenceItem],
    own_source: str | None,
    context_chars: int,
    held: enforce_lines.Provisions = _FREE,
    about: str = "",
) -> Fitted:
    """Number the items and cut them to `context_chars` of text in total.

    `own` are the task's document and the user's messages and answers (their ids are ignored): they have half of the
    room, and what others leave. Of a document the beginning stays, of an order the passages about `about`, of the
    user's additions beginning and end, the latest first. Of `found`, chunks of the document itself (`own_source`),
    repeated chunks and evidence that `held` forbids are left out.
    """
    hits = _new(found, own_source, held)
    half = context_chars // 2
    room = context_chars - min(half, sum(len(hit.content.strip()) for hit in hits))
    shown = _own(own, max(0, room), about)
    items: list[Item] = []
    left = context_chars

    def add(item: Item, content: str) -> None:
        nonlocal left
        content = content.strip()[: max(0, left)]
        if content:
            left -= len(content)
            items.append(item.model_copy(update={"id": len(items) + 1, "content": content}))

    for item, part in zip(own, shown, strict=True):
        add(item, part.text)
    for hit in hits:
        place = hit.provenance
        item = Item(
            id=0,
            source=place.source_urn,
            title=f"{place.title}, {place.paged}" if place.title and place.paged else place.title,
            content=hit.content,
            origin=hit.source,
            confidence=hit.confidence,
            chunk_id=place.chunk_id,
            access=place.access,
        )
        add(item, hit.content)
    return Fitted(tuple(items), tuple((item, part.left_out) for item, part in zip(own, shown, strict=True)))


def shortened(items: Sequence[Item], most: int) -> list[Item]:
    """The items, the most important one first, with beginnings and ends of their texts in `most` bytes; those for which
    there is no room are left out."""
    given = excerpt.shares([excerpt.size(item.content) for item in items], max(0, most))
    return [
        item.model_copy(update={"content": excerpt.cut(item.content, share).text})
        for item, share in zip(items, given, strict=True)
        if share
    ]


def _new(
    found: Iterable[api.EvidenceItem], own_source: str | None, held: enforce_lines.Provisions
) -> list[api.EvidenceItem]:
    """What of `found` may be shown, each text once."""
    hits: dict[str, api.EvidenceItem] = {}
    for hit in found:
        place = hit.provenance
        if held.shows(place.source_urn, place.kind) and (own_source is None or place.source_urn != own_source):
            hits.setdefault(hit.content, hit)
    return list(hits.values())


def _own(own: Sequence[Item], room: int, about: str) -> list[excerpt.Cut]:
    """What is shown of the task's own texts within `room` characters: half for the document, the rest for what the
    user added, and what one of them leaves for the other."""
    contents = [item.content.strip() for item in own]
    added = [place for place, item in enumerate(own) if item.origin == USER]
    needed = sum(len(contents[place]) for place in added)
    cuts = [excerpt.Cut("", len(content)) for content in contents]
    for place, item in enumerate(own):
        if item.origin != USER:
            most = max(room // 2, room - needed)
            cuts[place] = _document(item, contents[place], most, about)
            room -= len(cuts[place].text)
    added.reverse()
    given = excerpt.shares([len(contents[place]) for place in added], room)
    for place, share in zip(added, given, strict=True):
        if share:
            cuts[place] = excerpt.cut(contents[place], share, len)
    return cuts


def _document(item: Item, content: str, most: int, about: str) -> excerpt.Cut:
    if len(content) <= most:
        return excerpt.Cut(content)
    if item.origin == ORDER:
        return excerpt.passages(content, about, most, len)
    more = f"[The rest of {len(content)} characters is left out; it is in {item.source}.]"
    shown = content[: max(0, most - len(more) - 1)]
    return excerpt.Cut(f"{shown}\n{more}" if shown else "", len(content) - len(shown))


def extend(
    items: Sequence[Item],
    found: Iterable[api.EvidenceItem],
    own_source: str | None,
    context_chars: int,
    held: enforce_lines.Provisions = _FREE,
) -> tuple[Item, ...]:
    """`items` and, numbered on, what of `found` is new; all together within `context_chars` of text."""
    known = {item.chunk_id for item in items if item.chunk_id} | {item.content for item in items}
    new = [hit for hit in found if hit.provenance.chunk_id not in known and hit.content.strip() not in known]
    more = build((), new, own_source, context_chars - sum(len(item.content) for item in items), held)
    return (*items, *(item.model_copy(update={"id": len(items) + item.id}) for item in more))


def dump(items: Sequence[Item]) -> JsonValue:
    """The pack as JSON."""
    stored: JsonValue = _ITEMS.dump_python(tuple(items), mode="json", by_alias=True)
    return stored


def load(value: JsonValue) -> tuple[Item, ...]:
    """The pack from the JSON of `dump`."""
    return _ITEMS.validate_python(value)
