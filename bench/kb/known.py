"""What is known about a user, beside a corpus: entries of all six categories, for the prefetch of each conversation."""

from __future__ import annotations

from bench.kb import corpus
from kb import wire, writing

PER_CATEGORY = 10


def requests() -> dict[str, wire.IngestRequest]:
    """Documents as `/store` makes them, by id: `PER_CATEGORY` of each category, of the scope that is asked."""
    found = {}
    for category in writing.Category:
        for number in range(PER_CATEGORY):
            name = f"{category.value} {number}"
            found[name] = wire.IngestRequest(
                scope=corpus.OWNER,
                source_urn=f"{corpus.PREFIX}known:{category.value}:{number}",
                kind=category.kind,
                title=f"Known {name}",
                content=f"The user said about {name} that it stays as it was agreed upon in week {number + 1}.",
            )
    return found
