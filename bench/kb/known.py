"""What is known about a user, beside a corpus: entries of all six categories, for the prefetch of each conversation.

They belong to a project of the corpus's client: its viewer sees both, and who asks the corpus does not find them.
"""

from __future__ import annotations

from bench.kb import corpus
from crds import scope
from kb import api

OWNER = scope.Scope(client_id=corpus.OWNER.client_id, project_id="user")
PER_CATEGORY = 10


def requests() -> dict[str, api.IngestRequest]:
    """Documents as `/store` makes them, by id: `PER_CATEGORY` of each category."""
    found = {}
    for category in api.Category:
        for number in range(PER_CATEGORY):
            name = f"{category.value} {number}"
            found[name] = api.IngestRequest(
                scope=OWNER,
                source_urn=f"{corpus.PREFIX}known:{category.value}:{number}",
                kind=category.kind,
                title=f"Known {name}",
                content=f"The user said about {name} that it stays as it was agreed upon in week {number + 1}.",
            )
    return found
