"""Effects at Connections, done by the sources process: the run names a Connection and a key, and holds no credential.

What an effect sends is written down before it is first sent, so that a resumed run sends the same under the same key:

`orchestrator_prepared`: {_id: the key of the ledger, taskUid, arguments}.

The sources process does an effect once per key (docs/effects.md), so asking again is safe in every state but Unknown:
then a person decides, and one who wants it done again gets it under the next key. Nothing is done twice by itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from crds import errors
from orchestrator_job import outcome
from orchestrator_job.effects import effect_digest, ledger_entries
from orchestrator_job.effects.tools import bounds, port
from orchestrator_job.store import fence, mongo
from sources import client as sources_client

COLLECTION = "orchestrator_prepared"
_MOST_TRIES = 20
"""Decisions of persons to do one effect once more."""
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
Build = Callable[[], Awaitable[Mapping[str, Any]]]
"""Gives the arguments of the effect, as the sources process takes them. Raises what the knowledge base raises, or
`port.Misused` where it cannot be done."""


class Unsure(errors.Operational):
    """It may have happened. Asked for again, the ledger asks a person."""


def source_key(key: str, number: int) -> str:
    """The key at the sources process, which knows the task by its token. `key` is that of the ledger,
    TASK/STEP/ORDINAL; `number` counts from 1 how often a person wanted it."""
    step, _, ordinal = key.partition("/")[2].rpartition("/")
    name = f"{step}_{ordinal}"
    if not _KEY.fullmatch(name):
        name = hashlib.sha256(name.encode()).hexdigest()
    return name if number == 1 else f"{name}.again{number}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What effects send, by their keys in the ledger."""

    database: mongo.Database
    guard: fence.Fence

    async def of(self, key: str, build: Build) -> Mapping[str, Any]:
        """The arguments that were written down for `key`, or now those that `build` gives. Raises Fenced and what
        `build` raises."""
        own = {"_id": key}
        found = await self.database.find_one(COLLECTION, own)
        if found is None:
            made: dict[str, Any] = {**own, "taskUid": self.guard.task_uid, "arguments": dict(await build())}
            await self.guard.keep(
                lambda: self.database.insert(COLLECTION, made), lambda: self.database.delete(COLLECTION, own)
            )
            found = await self.database.find_one(COLLECTION, own) or made
        return dict(found["arguments"])


class Effect:
    """A `ledger_entries.Effect` of one tool at one Connection. `said` makes the text for the model out of what was
    made; `digest` is the same for calls that do the same."""

    def __init__(
        self,
        client: sources_client.Client,
        prepared: Prepared,
        tool: str,
        connection: str,
        build: Build,
        said: Callable[[Mapping[str, str]], str],
        aims: Mapping[str, str],
        digest: str,
    ) -> None:
        self._client, self._prepared, self._tool, self._connection = client, prepared, tool, connection
        self._build, self._said, self._aims, self._digest = build, said, aims, digest
        self.repeatable = True

    def intent(self) -> Mapping[str, Any]:
        """The tool, what it is aimed at, and the digest of its arguments, without texts."""
        aims = dict(self._aims)
        return {
            "tool": self._tool,
            "connection": self._connection,
            "aims": aims,
            effect_digest.DIGEST: self._digest,
        }

    async def find(self, key: str) -> ledger_entries.Receipt | None:
        """By asking the sources process. Raises `client.Unavailable` while it is being done."""
        _, last = await self._last(key)
        self.repeatable = last is None or last.state is not sources_client.State.UNKNOWN
        if last is not None and last.state is sources_client.State.PENDING:
            raise sources_client.Unavailable(f"{self._tool} is being done")
        return self._receipt(last) if last is not None and last.state is sources_client.State.DONE else None

    async def perform(self, key: str) -> ledger_entries.Receipt:
        """The receipt; one with `failed` where nothing happened, and asking again as it is cannot help. Raises
        `client.Unavailable` and `Unsure`, both to be asked again."""
        number, last = await self._last(key)
        if last is not None and last.state is sources_client.State.UNKNOWN:
            number += 1
        try:
            arguments = await self._prepared.of(key, self._build)
            done = await self._client.effect(self._tool, self._connection, source_key(key, number), arguments)
        except sources_client.Rejected as error:
            outcome.recheck(error)
            if error.status >= 500:  # a fault of the process, which may have come after the effect
                raise sources_client.Unavailable(error.message) from error
            return refused(error)
        except port.Misused as error:
            return refused(error)
        if done.state is sources_client.State.DONE:
            return self._receipt(done)
        problem = done.problem.message if done.problem is not None else done.state.value
        if done.state is sources_client.State.UNKNOWN:
            raise Unsure(f"{self._tool} at {self._connection} may have happened: {problem}")
        raise sources_client.Unavailable(f"{self._tool} at {self._connection} was not done: {problem}")

    async def _last(self, key: str) -> tuple[int, sources_client.Outcome | None]:
        """The outcome of the latest key that was asked for, and its number."""
        last = None
        for number in range(1, _MOST_TRIES + 1):
            found = await self._client.outcome(source_key(key, number))
            if found is None:
                return max(1, number - 1), last
            last = found
            if found.state is not sources_client.State.UNKNOWN:
                return number, found
        return _MOST_TRIES, last

    def _receipt(self, done: sources_client.Outcome) -> ledger_entries.Receipt:
        return {"text": self._said(done.result), "result": dict(done.result), "key": done.key}


def refused(error: errors.Permanent) -> ledger_entries.Receipt:
    """The receipt of an effect that did not happen."""
    return {"text": f"It was not done: {bounds.spoken(error)}", "failed": True}
