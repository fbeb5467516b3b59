"""Keeps the question of a run: in the state, and as an artifact where it is long."""

from __future__ import annotations

from pydantic import BaseModel, JsonValue

from orchestrator_job.answer import question
from orchestrator_job.model import excerpt
from orchestrator_job.store import artifacts
from orchestrator_job.store.graph_state import State


class _Stored(BaseModel):
    main: str
    added: tuple[str, ...] = ()


async def keep(asked: excerpt.Parts, store: artifacts.Artifacts, round_number: int) -> State:
    """What the state has of a question: `question`, and `asked` where that is not all of it, else "". Raises Fenced."""
    short = asked.within(question.SHORT)
    if short == asked.text:
        return {"question": short, "asked": ""}
    stored: JsonValue = {"main": asked.main, "added": list(asked.added)}
    return {"question": short, "asked": await store.put(stored, round_number)}


async def load(state: State, store: artifacts.Artifacts) -> excerpt.Parts:
    """The question of `keep`. Raises as `Artifacts.get`."""
    if not (key := state.get("asked")):
        return excerpt.Parts(state["question"])
    found = _Stored.model_validate(await store.get(key))
    return excerpt.Parts(found.main, found.added)
