"""The context of a task's rounds in MongoDB: what was handed back by steps, what goals came to, what the whole is.

`orchestrator_context`: {_id: "<task uid>/<path>", clientId, projectId, groupId, taskUid, round, level, path, goal,
title, done, text, summary, steps, knowledge, why, at, expiresAt}. `path` is `r<round>.epic`, `r<round>.g<goal>`, or the
id of the delegation that was the step. `text` is complete, however long; `summary` is null where none could be made.
The state of the graph holds neither.

Entries outlive their task, until they expire, and go with their scope (`kb.erasure`). They are written through the
ledger, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from contracts import mongo_collections
from orchestrator_job.context import retention
from orchestrator_job.context.retention import Level
from orchestrator_job.effects import ledger, ledger_entries
from orchestrator_job.store import fence, mongo, task_memory

COLLECTION = mongo_collections.CONTEXT


class Entry(BaseModel):
    """One piece of the context. `steps` of a goal are the paths of its steps, which have the texts."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    round: int
    level: Level
    path: str
    goal: int = 0
    title: str
    done: bool
    text: str = ""
    summary: str | None = None
    steps: tuple[str, ...] = ()
    knowledge: bool = False


class Context:
    """That of the task whose fence it is; `now` is in UTC."""

    def __init__(
        self,
        database: mongo.Database,
        guard: fence.Fence,
        book: ledger.Ledger,
        task: task_memory.TaskMemory,
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._guard = guard
        self._book = book
        self._task = task
        self._now = now

    async def keep(self, entry: Entry, kept: retention.Kept) -> None:
        """Write it, once. Raises Fenced, or Forgotten when the task was removed with its scope."""
        where, now = self._task.scope, self._now()
        document = {
            **entry.model_dump(mode="json", by_alias=True),
            "clientId": where.client_id,
            "projectId": where.project_id,
            "groupId": where.group_id,
            "taskUid": self._guard.task_uid,
            "knowledge": kept.knowledge,
            "why": kept.why,
            "at": now,
            "expiresAt": now + kept.life,
        }
        await self._settle(document)

    async def kept(self, path: str) -> bool:
        """Whether there is an entry of this path: a step that is repeated makes no second summary. A process that died
        behind the write has left its ledger open; it is settled then. Raises as `keep`."""
        found = await self._database.find_one(COLLECTION, {"_id": f"{self._guard.task_uid}/{path}"})
        if found is None:
            return False
        await self._settle(found)
        return True

    async def _settle(self, document: Mapping[str, Any]) -> None:
        await self._book.settle(f"{document['path']}.context", 0, _Keep(self._database, self._guard, document))

    async def of_round(self, round_number: int) -> list[Entry]:
        """The entries of a round: the epic, its goals, then steps, each in its order."""
        return await self._found({"round": round_number})

    async def before(self, round_number: int) -> list[Entry]:
        """What earlier rounds came to: their epics and goals."""
        return await self._found({"round": {"$lt": round_number}, "level": {"$ne": Level.STEP.value}})

    async def text(self, path: str) -> str | None:
        """The complete text of an entry of this task, that of a goal being those of its steps; None where there is no
        such entry, or none any more."""
        found = await self._found({"path": path})
        if not found:
            return None
        steps = await self._found({"path": {"$in": list(found[0].steps)}}) if found[0].steps else []
        return _whole(found[0], {one.path: one.text for one in steps})

    async def paths(self) -> list[str]:
        """Those of all entries of this task, oldest first."""
        return [str(one["path"]) for one in await self._rows({}, ["path"])]

    async def _rows(self, query: Mapping[str, Any], fields: Sequence[str]) -> list[dict[str, Any]]:
        mine = {"taskUid": self._guard.task_uid, "expiresAt": {"$gt": self._now()}}
        return await self._database.find(
            COLLECTION, {**query, **mine}, sort=[("at", 1), ("_id", 1)], fields=list(fields)
        )

    async def _found(self, query: Mapping[str, Any]) -> list[Entry]:
        rows = await self._rows(query, [to_camel(name) for name in Entry.model_fields])
        order = {Level.EPIC: 0, Level.GOAL: 1, Level.STEP: 2}
        return sorted(map(Entry.model_validate, rows), key=lambda one: (one.round, order[one.level], one.goal))


class _Keep:
    """The effect."""

    repeatable = True

    def __init__(self, database: mongo.Database, guard: fence.Fence, document: Mapping[str, Any]) -> None:
        self._database = database
        self._guard = guard
        self._document = document
        self._own = {"_id": f"{guard.task_uid}/{document['path']}"}

    def intent(self) -> Mapping[str, Any]:
        """Collection and path."""
        return {"collection": COLLECTION, "path": self._document["path"]}

    async def find(self, key: str) -> ledger_entries.Receipt | None:
        """The entry, whichever process wrote it."""
        return dict(self._own) if await self._database.find_one(COLLECTION, self._own) is not None else None

    async def perform(self, key: str) -> ledger_entries.Receipt:
        """Insert it; one that is there stays."""
        await self._guard.keep(
            lambda: self._database.insert(COLLECTION, {**self._own, **self._document}),
            lambda: self._database.delete(COLLECTION, self._own),
        )
        return dict(self._own)


async def expire(database: mongo.Database, now: datetime) -> int:
    """Delete the expired ones; returns their number. Not every MongoDB has TTL indexes."""
    return await database.delete(COLLECTION, {"expiresAt": {"$lt": now}})


@dataclass(frozen=True, slots=True)
class Shown:
    """`whole`: nothing is left out, shown by a summary or by a line that names it."""

    text: str
    whole: bool


def shown(entries: Sequence[Entry], goal: int, most: int, opens: str = "") -> Shown:
    """What a step of `goal` sees, within `most` characters: the steps of its own goal whole, the whole's design, and of
    other goals what they came to. What does not fit is there as its summary, else as a line that names it: no text is
    shown in part. `opens` is the name of the tool that gives such a text whole, if there is one. Pure."""
    texts = {one.path: one.text for one in entries}
    own = [one for one in entries if one.level is Level.STEP and one.goal == goal]
    others = [one for one in entries if one.level is Level.GOAL and one.goal != goal]
    epics = [one for one in entries if one.level is Level.EPIC]
    chosen = {one.path: _line(one, texts, opens) for one in (*epics, *others, *own)}
    whole = True
    left = most - sum(len(line) + 2 for line in chosen.values())
    # Of many rounds the oldest goals are left out, then the oldest steps.
    for one in (*others, *own, *epics):
        if left >= 0:
            break
        left += len(chosen.pop(one.path)) + 2
        whole = False
    # The latest steps first: what comes next builds on them.
    for one in (*reversed(own), *epics, *reversed(others)):
        for form, complete in _forms(one, _whole(one, texts), opens) if one.path in chosen else ():
            more = len(form) - len(chosen[one.path])
            if more <= left:
                chosen[one.path], left = form, left - more
                whole = whole and complete
                break
        else:
            whole = False
    return Shown("\n\n".join(chosen.values()), whole)


def _forms(one: Entry, whole: str, opens: str) -> list[tuple[str, bool]]:
    """From the one that is preferred on, and whether it is complete: a goal is shown by its summary, all else whole."""
    summary, complete = one.summary or "", len(one.summary or "") >= len(whole)
    if summary and opens and not complete:
        summary += f"\n[A summary of {len(whole)} characters; {_opened(one, opens)}.]"
    forms = [(summary, complete), (whole, True)]
    return [
        (f"{_head(one)}\n{form}", all_) for form, all_ in (forms if one.level is Level.GOAL else forms[::-1]) if form
    ]


def _opened(one: Entry, opens: str) -> str:
    return f'read them with {opens}, step "{one.path}"'


def _whole(one: Entry, texts: Mapping[str, str]) -> str:
    return one.text or "\n\n".join(texts[path] for path in one.steps if texts.get(path))


def _head(one: Entry) -> str:
    name = {Level.EPIC: "The whole", Level.GOAL: f"Goal {one.goal}", Level.STEP: "Step"}[one.level]
    return f"{name} ({'done' if one.done or one.level is Level.EPIC else 'not done'}): {one.title}"


def _line(one: Entry, texts: Mapping[str, str], opens: str) -> str:
    size = len(_whole(one, texts))
    kept = _opened(one, opens) if opens else f"they are kept as {one.path}"
    return f"{_head(one)}\n[{size} characters that have no room here; {kept}.]"
