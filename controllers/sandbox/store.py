"""The records of commands in MongoDB (`contracts.api.sandbox`), as the operator reads and ends them.

Each change names the state that it expects, so a repeated one changes nothing. `jobMade` is a field of the operator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pydantic

from clients import mongo
from contracts.api.sandbox import COLLECTION, Command, State

_OPEN = 200
"""Requested commands that one look reads: far more than run at once."""


class Commands:
    """The collection of one database."""

    def __init__(self, database: Any) -> None:
        self._records = database[COLLECTION]

    async def open(self) -> tuple[list[tuple[Command, bool]], list[Command], list[str]]:
        """Running ones with whether their Job was made, requested ones by age, and the ids of unreadable records.
        Raises `mongo.Unavailable`."""
        running: list[tuple[Command, bool]] = []
        requested: list[Command] = []
        unreadable: list[str] = []
        with mongo.translate_errors("list the commands of sandboxes"):
            for state in (State.RUNNING, State.REQUESTED):
                found = self._records.find({"state": state.value}).sort([("requestedAt", 1), ("_id", 1)]).limit(_OPEN)
                async for raw in found:
                    command = _read(raw)
                    if command is None:
                        unreadable.append(str(raw["_id"]))
                    elif state is State.RUNNING:
                        running.append((command, bool(raw.get("jobMade"))))
                    else:
                        requested.append(command)
        return running, requested, unreadable

    async def begin(self, command: Command) -> bool:
        """The intent to make its Job; False if another look was first."""
        return await self._change(command.id, State.REQUESTED, {"state": State.RUNNING.value})

    async def made(self, command: Command) -> None:
        """Its Job is known to exist."""
        await self._change(command.id, State.RUNNING, {"jobMade": True})

    async def end(self, id_: str, now: datetime, **fields: Any) -> None:
        """It ended: `exit_code`, `output_ref` and `patch_ref`, or `message` alone where it could not be run."""
        state = State.DONE if "exitCode" in fields else State.FAILED
        for before in (State.RUNNING, State.REQUESTED):
            if await self._change(id_, before, {"state": state.value, "endedAt": now, **fields}):
                return

    async def _change(self, id_: str, before: State, fields: Mapping[str, Any]) -> bool:
        with mongo.translate_errors("write down what became of a command"):
            done = await self._records.update_one({"_id": id_, "state": before.value}, {"$set": dict(fields)})
        return bool(done.matched_count)


def _read(raw: Mapping[str, Any]) -> Command | None:
    try:
        return Command.model_validate({key: value for key, value in raw.items() if value is not None})
    except pydantic.ValidationError:
        return None
