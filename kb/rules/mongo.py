"""The rules in MongoDB, one document per version.

A version's `_id` follows from owner, key and number, so that of two writers who make the same version one is refused
and makes the next. The version in force is the highest one; `supersededAt` on the others is for the reader of a history
and repaired by every later write, because nothing here can change two documents at once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from contracts.rules import enforce_lines
from crds import scope
from kb import api, errors, identity, mongo

COLLECTION = "clientProjectRules"
_ATTEMPTS = 20
# A client with more rules than this has something else in mind than rules an agent must obey.
_MOST = 1000


class Rules:
    """Versioned, soft-deleted rules. Raises `kb.errors.Away`."""

    def __init__(self, database: mongo.Database, clock: Callable[[], datetime]) -> None:
        self._rules = database[COLLECTION]
        self._clock = clock
        self._indexed = False

    async def put(self, draft: api.RuleDraft) -> api.Rule:
        """Make a new version, unless the one in force says the same. Raises Invalid for a permit that has ended."""
        with mongo.translated():
            await self._index()
            for _ in range(_ATTEMPTS):
                latest = await self._latest(draft.scope, draft.rule_key)
                if latest is None:
                    await self._check_room(draft.scope)
                if latest is not None and latest["deletedAt"] is None and _same(latest, draft):
                    return _rule(latest)
                _check_permits(draft, self._clock())
                document = _document(draft, 1 + (latest["version"] if latest else 0), self._clock())
                try:
                    await self._rules.insert_one(document)
                except mongo.DuplicateKey:
                    continue
                await self._rules.update_many(
                    {
                        **_mine(draft.scope, draft.rule_key),
                        "version": {"$lt": document["version"]},
                        "supersededAt": None,
                    },
                    {"$set": {"supersededAt": document["createdAt"]}},
                )
                return _rule(document)
        raise errors.Crowded(f"the rule {draft.rule_key!r} is being changed by many writers", retry_after=1)

    async def delete(self, owner: scope.Scope, rule_key: str, by: str) -> bool:
        """Take the rule out of force; its history stays. False when none is in force in exactly this scope."""
        with mongo.translated():
            latest = await self._latest(owner, rule_key)
            if latest is None or latest["deletedAt"] is not None:
                return False
            changed = await self._rules.update_one(
                {"_id": latest["_id"], "deletedAt": None}, {"$set": {"deletedAt": self._clock(), "deletedBy": by}}
            )
        return bool(changed.modified_count)

    async def in_force(self, viewer: scope.Scope, kind: api.RuleType | None = None) -> list[api.Rule]:
        """Every rule that holds for the viewer: global ones, its client's, its group's and its project's, no sibling's.

        A narrower rule does not switch a wider one of the same key off: both must be obeyed.
        """
        with mongo.translated():
            await self._index()
            # Deleted ones too: one hides an older version whose writer died before it was marked as superseded.
            query = {"$and": [mongo.governing(viewer), {"supersededAt": None}]}
            cursor = self._rules.find(query).sort([("ruleKey", 1), ("version", -1)])
            rows = [row async for row in cursor]
        found = [row for row in _highest(rows) if row["deletedAt"] is None]
        return [_rule(row) for row in found if kind is None or row["ruleType"] == kind.value]

    async def history(self, viewer: scope.Scope, rule_key: str) -> list[api.Rule]:
        """All versions of the rules that hold for the viewer, widest owner first, newest version first."""
        with mongo.translated():
            query = {"$and": [mongo.governing(viewer), {"ruleKey": rule_key}]}
            order = [("clientId", 1), ("projectId", 1), ("groupId", 1), ("version", -1)]
            return [_rule(row) async for row in self._rules.find(query).sort(order).limit(_MOST)]

    async def _check_room(self, owner: scope.Scope) -> None:
        exactly = {**mongo.names(owner), "supersededAt": None}
        if await self._rules.count_documents(exactly, limit=_MOST) >= _MOST:
            raise errors.TooLarge(
                f"there are {_MOST} rules in this scope",
                field="ruleKey",
                remedy="Put several into one rule: an agent has to obey them all.",
            )

    async def _latest(self, owner: scope.Scope, rule_key: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self._rules.find_one(_mine(owner, rule_key), sort=[("version", -1)])
        return found

    async def _index(self) -> None:
        if not self._indexed:
            order = [(name, 1) for name in ("clientId", "projectId", "ruleKey", "version")]
            await self._rules.create_index(order)
            self._indexed = True


def _check_permits(draft: api.RuleDraft, now: datetime) -> None:
    for permit in enforce_lines.permitted(draft.rule_content):
        if permit.not_after is not None and permit.not_after <= now:
            raise errors.Invalid(
                f"notAfter: the permit for {permit.tool} has ended at {permit.not_after.isoformat()}",
                field="ruleContent",
                remedy="Give a time that is to come, or leave the line out.",
            )


def _mine(owner: scope.Scope, rule_key: str) -> dict[str, Any]:
    # A project keeps its rules when it moves to another group.
    group = {} if owner.project_id else {"groupId": owner.group_id}
    return {"clientId": owner.client_id, "projectId": owner.project_id, **group, "ruleKey": rule_key}


def _document(draft: api.RuleDraft, version: int, now: datetime) -> dict[str, Any]:
    return {
        "_id": identity.rule(draft.scope, draft.rule_key, version),
        **mongo.names(draft.scope),
        "ruleKey": draft.rule_key,
        "ruleType": draft.rule_type.value,
        "ruleContent": draft.rule_content,
        "description": draft.description,
        "version": version,
        # What MongoDB keeps: whole milliseconds.
        "createdAt": now.replace(microsecond=now.microsecond // 1000 * 1000),
        "createdBy": draft.created_by,
        "supersededAt": None,
        "deletedAt": None,
        "deletedBy": None,
    }


def _same(row: dict[str, Any], draft: api.RuleDraft) -> bool:
    said = (row["ruleType"], row["ruleContent"], row["description"])
    return said == (draft.rule_type.value, draft.rule_content, draft.description)


def _highest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    best: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        place = (row["clientId"], row["projectId"], "" if row["projectId"] else row["groupId"], row["ruleKey"])
        if place not in best or best[place]["version"] < row["version"]:
            best[place] = row
    return list(best.values())


def _rule(row: dict[str, Any]) -> api.Rule:
    names = ("ruleKey", "ruleType", "ruleContent", "description", "version", "createdAt", "createdBy")
    late = ("supersededAt", "deletedAt", "deletedBy")
    return api.Rule.model_validate({"scope": mongo.owner(row), **{name: row[name] for name in (*names, *late)}})
