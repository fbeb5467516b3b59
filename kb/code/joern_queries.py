"""Ad-hoc queries of Joern as rows of MongoDB, which wait until the operator makes a Job for each. None is run here.

A query is Waiting, Running, then Succeeded or Failed; a day after the last of these it goes. Source: seed 001 "Code
Analysis" (`POST /analyze/code`, ad-hoc queries).

Every change names the state that it starts from, so that of two writers one changes nothing. What is over is swept
when a query comes or is claimed and never shown, so nothing rests on a TTL index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from codegraph import api
from codegraph.api import QueryState
from crds import scope
from kb import errors, mongo

COLLECTION = "code_queries"
LIFE = timedelta(days=1)
MOST_WAITING = 100
"""Of one client, running ones included."""
_OPEN = [QueryState.WAITING.value, QueryState.RUNNING.value]
_LISTED = 1000
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class Queries:
    """Raises `kb.errors.Away`. `fresh_id` gives an id that no one can guess, of letters and digits."""

    def __init__(self, database: mongo.Database, clock: Callable[[], datetime], fresh_id: Callable[[], str]) -> None:
        self._rows, self._clock, self._fresh_id = database[COLLECTION], clock, fresh_id
        self._indexed = False

    async def add(self, asked: api.CodeQuery) -> api.CodeAnswer:
        """A new one, which waits. Raises `kb.errors.Crowded`."""
        now = self._clock()
        row = {
            "_id": self._fresh_id(),
            **mongo.names(asked.scope),
            "namespace": asked.namespace,
            "connection": asked.connection,
            "ref": asked.ref,
            "query": asked.query,
            "seconds": asked.seconds,
            "state": QueryState.WAITING.value,
            "jobUid": "",
            "createdAt": now,
            "expiresAt": now + LIFE,
        }
        with mongo.translated():
            await self._tidy(now)
            waiting = await self._rows.count_documents({"clientId": asked.scope.client_id, "state": {"$in": _OPEN}})
            if waiting >= MOST_WAITING:
                raise errors.Crowded(f"{waiting} queries of this client wait already", retry_after=60)
            await self._rows.insert_one(row)
        return _answer(row)

    async def find(self, id_: str) -> tuple[scope.Scope, api.CodeAnswer]:
        """Whose it is, and what became of it. Raises `kb.errors.NotFound`."""
        with mongo.translated():
            row = await self._rows.find_one({"_id": id_, "expiresAt": {"$gt": self._clock()}})
        if row is None:
            raise missing(id_)
        return mongo.owner(row), _answer(row)

    async def claim(self, most: int) -> list[api.QueryWork]:
        """All that run, after waiting ones were let go up to `most`: in turns of clients, the oldest first."""
        now = self._clock()
        with mongo.translated():
            await self._tidy(now)
            running = [row async for row in self._rows.find({"state": QueryState.RUNNING.value}).sort("createdAt", 1)]
            busy = Counter(row["clientId"] for row in running)
            wanted = {"clientId": 1, "createdAt": 1}
            waiting = (
                []
                if len(running) >= most
                else await self._rows.find({"state": QueryState.WAITING.value}, wanted)
                .sort("createdAt", 1)
                .to_list(_LISTED)
            )
            served = await self._served() if waiting else {}
            while waiting and len(running) < most:
                first = min(
                    waiting,
                    key=lambda row: (busy[row["clientId"]], served.get(row["clientId"], _NEVER), row["createdAt"]),
                )
                waiting.remove(first)
                begun = {"state": QueryState.RUNNING.value, "begunAt": now}
                row = await self._change(first["_id"], QueryState.WAITING, begun)
                if row is not None:
                    busy[row["clientId"]] += 1
                    served[row["clientId"]] = now
                    running.append(row)
        return [_work(row) for row in running]

    async def made(self, id_: str, job_uid: str) -> None:
        """Its Job exists."""
        with mongo.translated():
            await self._change(id_, QueryState.RUNNING, {"jobUid": job_uid})

    async def end(self, id_: str, found: api.QueryResult) -> api.CodeAnswer:
        """Its result; one that has ended stays as it is. Raises `kb.errors.NotFound`."""
        failure = found.failure
        ended = {
            "state": (QueryState.SUCCEEDED if failure is None else QueryState.FAILED).value,
            "result": found.result or "",
            "reason": "" if failure is None else failure.reason,
            "message": "" if failure is None else failure.message,
            "commit": found.commit,
        }
        with mongo.translated():
            row = await self._change(id_, QueryState.RUNNING, ended)
        return _answer(row) if row is not None else (await self.find(id_))[1]

    async def _served(self) -> dict[str, datetime]:
        """By client: when one of its queries began last. Where one runs at a time, none runs when the next begins."""
        rows = self._rows.find({"begunAt": {"$gt": _NEVER}}, {"clientId": 1, "begunAt": 1})
        found: dict[str, datetime] = {}
        for row in await rows.sort("begunAt", -1).to_list(_LISTED):
            found.setdefault(row["clientId"], row["begunAt"])
        return found

    async def _change(self, id_: str, state: QueryState, fields: dict[str, Any]) -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self._rows.find_one_and_update(
            {"_id": id_, "state": state.value},
            {"$set": {**fields, "expiresAt": self._clock() + LIFE}},
            return_document=mongo.AFTER,
        )
        return found

    async def _tidy(self, now: datetime) -> None:
        if not self._indexed:
            await self._rows.create_index([("state", 1), ("createdAt", 1)])
            await self._rows.create_index([("expiresAt", 1)])
            await self._rows.create_index([("begunAt", -1)])
            self._indexed = True
        await self._rows.delete_many({"expiresAt": {"$lte": now}})


def missing(id_: str) -> errors.NotFound:
    """For what is not there, and for what its viewer may not see."""
    return errors.NotFound(
        f"there is no query {id_[:100]!r} in this scope",
        field="id",
        remedy=f"Ask again; a query is kept for {LIFE.total_seconds() / 3600:.0f} hours.",
    )


def _answer(row: dict[str, Any]) -> api.CodeAnswer:
    return api.CodeAnswer(
        id=row["_id"],
        state=QueryState(row["state"]),
        result=row.get("result", ""),
        reason=row.get("reason", ""),
        message=row.get("message", ""),
        commit=row.get("commit", ""),
        created_at=row["createdAt"],
        expires_at=row["expiresAt"],
    )


def _work(row: dict[str, Any]) -> api.QueryWork:
    return api.QueryWork(
        id=row["_id"],
        scope=mongo.owner(row),
        namespace=row["namespace"],
        connection=row["connection"],
        ref=row["ref"],
        query=row["query"],
        seconds=row["seconds"],
        job_uid=row["jobUid"],
    )
