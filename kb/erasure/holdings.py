"""What a scope owns beside documents: rules, aliases, memories in MongoDB, and what is kept of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from contracts import mongo_collections
from crds import scope
from kb import mongo
from kb.agent import store as agent
from kb.aliases import mongo as aliases
from kb.code import book as code
from kb.code import joern_queries
from kb.erasure import closed, tasks
from kb.extract import entity_types
from kb.ingest import observers
from kb.links import patterns
from kb.memory import procedures, session
from kb.rules import mongo as rules
from kb.visual import choice

Filter = Callable[[scope.Scope], dict[str, Any] | None]


class Holding(Protocol):
    """One kind of thing that scopes own."""

    async def erase(self, where: scope.Scope) -> int:
        """Delete what the erasure of `where` takes; how much that was. Raises `kb.errors.Away`. Safe to repeat."""
        ...


class Collection:
    """The documents of a collection that `chosen` filters; None means that such a scope owns none."""

    def __init__(self, database: mongo.Database, name: str, chosen: Filter = closed.query) -> None:
        self._rows = database[name]
        self._chosen = chosen

    async def erase(self, where: scope.Scope) -> int:
        wanted = self._chosen(where)
        if wanted is None:
            return 0
        with mongo.translated():
            gone = await self._rows.delete_many(wanted)
        return int(gone.deleted_count)


def of(database: mongo.Database) -> Mapping[str, Holding]:
    """All of them by what they are called in an erasure's record."""
    return {
        "tasks": tasks.Tasks(database),
        "aliases": Collection(database, aliases.COLLECTION),
        "entityTypes": Collection(database, entity_types.COLLECTION),
        "pageChoices": Collection(database, choice.COLLECTION),
        "linkPatterns": Collection(database, patterns.COLLECTION),
        "codeBranches": Collection(database, code.BRANCHES),
        "codeQueries": Collection(database, joern_queries.COLLECTION),
        "codeFacts": Collection(database, code.FACTS),
        "observers": Collection(database, observers.COLLECTION, _clients),
        "rules": Collection(database, rules.COLLECTION),
        "procedures": Collection(database, procedures.COLLECTION, _clients),
        "delegationMetrics": Collection(database, mongo_collections.METRICS, _without_group),
        "conversations": Collection(database, mongo_collections.CHAT),
        "conversationSummaries": Collection(database, mongo_collections.CHAT_SUMMARIES),
        "orchestratorContext": Collection(database, mongo_collections.CONTEXT),
        "agentStreams": Collection(database, agent.STREAMS),
        "agentEvents": Collection(database, agent.EVENTS),
        "agentConversations": Collection(database, agent.CONVERSATIONS),
        "sessionEntries": Collection(database, session.COLLECTION),
    }


def _clients(where: scope.Scope) -> dict[str, Any] | None:
    return None if where.project_id or where.group_id else {"clientId": where.client_id}


def _without_group(where: scope.Scope) -> dict[str, Any] | None:
    # They name a client and a project; a group has none of its own.
    return None if where.group_id and not where.project_id else closed.query(where)
