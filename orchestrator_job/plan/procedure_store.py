"""Procedures in the knowledge base: looked up before a plan is made, learned when a round has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog
from pydantic import JsonValue

from crds import scope
from kb import api
from kb import client as kb_client
from orchestrator_job import outcome
from orchestrator_job.effects import ledger, ledger_entries
from orchestrator_job.plan import procedures
from orchestrator_job.store import artifacts, task_memory

_log = structlog.get_logger("orchestrator_job.plan.procedures")
_LOOKED_AT = 200


async def look_up(
    kb: kb_client.Client, viewer: scope.Scope, task: task_memory.TaskMemory, text: str
) -> procedures.Found:
    """The procedures that fit the task. None where the client has none, or the knowledge base is away: a plan can be
    made without."""
    if viewer.is_global:
        return procedures.Found()
    try:
        every = await kb.memory.procedures(viewer.client_id, limit=_LOOKED_AT, viewer=viewer)
    except (kb_client.Unavailable, kb_client.Rejected) as error:
        outcome.recheck(error)
        _log.warning("planning without procedures", reason=error.message)
        return procedures.Found()
    return replace(procedures.chosen(every, procedures.words(task, text)), every=tuple(every))


async def written(
    store: artifacts.Artifacts, round_number: int, lesson: api.Use | api.ProcedureDraft
) -> dict[str, JsonValue]:
    """The state's `lesson`."""
    kind = "use" if isinstance(lesson, api.Use) else "draft"
    key = await store.put({kind: lesson.model_dump(mode="json", by_alias=True)}, round_number)
    return {"round": round_number, "key": key}


class Learning:
    """Learns what a round teaches, once it has ended."""

    def __init__(
        self, kb: kb_client.Client, viewer: scope.Scope, store: artifacts.Artifacts, book: ledger.Ledger
    ) -> None:
        self._kb = kb
        self._viewer = viewer
        self._store = store
        self._book = book

    async def after(self, state: Mapping[str, Any], *, answered: bool) -> None:
        """Of a round whose answer was given, and of which a person rejected nothing, what its plan teaches is saved;
        else the use of a procedure has failed, and nothing is saved. It never fails the task."""
        lesson = state.get("lesson") or {}
        if lesson.get("round") != state["round"]:
            return
        given: Any = await self._store.get(lesson["key"])
        well = answered and not await self._book.rejects(state["round"])
        teaches: api.Use | api.ProcedureDraft
        if "use" in given:
            use = api.Use.model_validate(given["use"])
            teaches = use.model_copy(update={"succeeded": use.succeeded and well})
        elif well:
            teaches = api.ProcedureDraft.model_validate(given["draft"])
        else:
            return
        try:
            await self._book.settle(f"r{state['round']}.learn", 0, Lesson(self._kb, self._viewer, teaches))
        except (kb_client.Unavailable, kb_client.Rejected) as error:
            _log.warning("nothing was learned", reason=error.message)


class Lesson:
    """The effect that saves what was learned or what the user has defined, or counts that a procedure was followed.
    Done twice after a crash, a procedure is the same, and a count is one too high."""

    repeatable = True

    def __init__(self, kb: kb_client.Client, viewer: scope.Scope, lesson: api.ProcedureDraft | api.Use) -> None:
        self._kb = kb
        self._viewer = viewer
        self._lesson = lesson

    def intent(self) -> Mapping[str, Any]:
        """Trigger, or id and how it went."""
        if isinstance(self._lesson, api.Use):
            return {"procedure": self._lesson.id, "succeeded": self._lesson.succeeded}
        return {"trigger": self._lesson.trigger_pattern}

    async def find(self, key: str) -> ledger_entries.Receipt | None:
        """Never: the knowledge base does not know keys."""
        return None

    async def perform(self, key: str) -> ledger_entries.Receipt:
        """Raises what the knowledge base raises."""
        if isinstance(self._lesson, api.Use):
            return {"id": (await self._kb.memory.use_procedure(self._lesson)).id}
        lesson = self._lesson
        if lesson.source != "learned":
            return {"id": (await self._kb.memory.save_procedure(lesson)).id}
        every = await self._kb.memory.procedures(lesson.client_id, lesson.trigger_pattern, viewer=self._viewer)
        known = next((one for one in every if one.source == "learned"), None)
        if known is None:
            known = await self._kb.memory.save_procedure(lesson)
        elif [step.get("agent") for step in known.procedure_steps] != [one.agent for one in lesson.procedure_steps]:
            # Another way that worked, perhaps one that a person approved: it stays.
            return {"id": known.id}
        used = api.Use(client_id=lesson.client_id, id=known.id, succeeded=True)
        return {"id": (await self._kb.memory.use_procedure(used)).id}
