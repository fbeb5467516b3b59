"""The evidence pack of a round: numbered items, bounded in size, stored as one artifact.

Order: the task's own document, the user's messages and answers, then the results of the knowledge base, best first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter
from pydantic.alias_generators import to_camel

from crds import provisions
from kb import api

# Maximum share of the budget for the task's own document.
_DOCUMENT_PART = 0.5
_FREE = provisions.Provisions()


class Item(BaseModel):
    """One item of evidence. The answer cites `id`, from 1; `origin` is Task, User, RAG or Graph."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    id: int
    source: str
    title: str = ""
    content: str
    origin: str
    confidence: float = 1.0
    chunk_id: str | None = None


_ITEMS = TypeAdapter(tuple[Item, ...])


def build(
    own: Sequence[Item],
    found: Iterable[api.EvidenceItem],
    own_source: str | None,
    context_chars: int,
    held: provisions.Provisions = _FREE,
) -> tuple[Item, ...]:
    """Number the items and cut them to `context_chars` of text in total.

    `own` are the task's document and the user's messages and answers (their ids are ignored). Of `found`, chunks of the
    document itself (`own_source`), repeated chunks and evidence that `held` forbids are left out.
    """
    items: list[Item] = []
    left = context_chars

    def add(item: Item, most: int) -> None:
        nonlocal left
        content = item.content.strip()[: max(0, min(most, left))]
        if content:
            left -= len(content)
            items.append(item.model_copy(update={"id": len(items) + 1, "content": content}))

    for item in own:
        add(item, int(context_chars * _DOCUMENT_PART))
    seen: set[str] = set()
    for hit in found:
        place = hit.provenance
        if not held.shows(place.source_urn, place.kind):
            continue
        if hit.content in seen or (own_source is not None and place.source_urn == own_source):
            continue
        seen.add(hit.content)
        add(
            Item(
                id=0,
                source=place.source_urn,
                title=place.title,
                content=hit.content,
                origin=hit.source,
                confidence=hit.confidence,
                chunk_id=place.chunk_id,
            ),
            left,
        )
    return tuple(items)


def extend(
    items: Sequence[Item],
    found: Iterable[api.EvidenceItem],
    own_source: str | None,
    context_chars: int,
    held: provisions.Provisions = _FREE,
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
