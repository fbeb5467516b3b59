"""The nodes' part: Job controller, kubelet, collector of pods and the program in the Job, played through the API.

One asyncio task for each Job follows what the record says about it. A run reads its input from MongoDB and leaves its
result there, as the real program does; so "the operator created a Job without its input" would be seen. What is
played here is never killed: that a worker dies is one of the kinds of runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from motor.motor_asyncio import AsyncIOMotorDatabase

from controllers.pendingtask import job
from tests.fakes import nodes
from tests.faults import kinds
from tests.faults.cluster_api import ClusterApi, Object
from tests.faults.invariants import Ran
from tests.faults.kinds import Kind, Said
from tests.faults.record import Version

LONGEST_RUN = 0.4
_LONG = {Kind.HELD: 20.0, Kind.DROP: 20.0, Kind.LONG: 15.0}
"""Seconds that a run works at most when its user is about to hold or delete it, or another one to take its slot: more
than the ten for which its beginning may stay unwritten (decision 0019), so that it is met at work."""
_OVER = frozenset({"Complete", "Failed"})
Talk = Callable[[str, str], Awaitable[None]]


class Nodes:
    """`talk(task, id)` adds a user's message: some runs are interrupted by one at their very end."""

    def __init__(self, api: ClusterApi, database: AsyncIOMotorDatabase[Any], talk: Talk, seed: int) -> None:
        self._api, self._database, self._talk, self._seed = api, database, talk, seed
        self._jobs: dict[str, Version] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._crew: dict[str, asyncio.Task[None]] = {}
        self.ran: list[Ran] = []

    def heard(self, version: Version) -> None:
        """A new version of something."""
        if version.kind != "jobs" or version.namespace != self._api.namespace:
            return
        self._jobs[version.uid] = version
        if version.uid not in self._crew:
            self._changed[version.uid] = asyncio.Event()
            self._crew[version.uid] = asyncio.create_task(self._tend(version.uid), name=f"job {version.name}")
        self._changed[version.uid].set()

    def check(self) -> None:
        """Raise what went wrong in a part that was played."""
        for one in self._crew.values():
            if one.done() and not one.cancelled():
                one.result()

    async def close(self) -> None:
        """Stop playing."""
        self.check()
        for one in self._crew.values():
            one.cancel()
        await asyncio.gather(*self._crew.values(), return_exceptions=True)

    async def _tend(self, uid: str) -> None:
        """Until the Job is gone."""
        pod: str | None = None
        serial, ended = 0, False
        while True:
            self._changed[uid].clear()
            now = self._jobs[uid]
            if now.deleted:
                await self._drop(pod)
                return
            spec = now.raw["spec"]
            if _over(now.raw):
                if spec.get("ttlSecondsAfterFinished") is not None:
                    await self._expire(uid, spec["ttlSecondsAfterFinished"])
                    await self._drop(pod)
                    return
                await self._changed[uid].wait()
            elif ended:
                await self._changed[uid].wait()  # until the record says so as well
            elif spec.get("suspend"):
                if pod is not None:
                    await self._end_pod(pod, 42, {"exitReason": "Drained", "summary": "Drained."})
                    await self._drop(pod)
                    pod = None
                    await self._status(now, {"active": 0, "ready": 0})
                await self._changed[uid].wait()
            else:
                if pod is None:
                    pod, serial = f"{now.name}-{serial:05}", serial + 1
                    await self._start(now, pod)
                ended = await self._run(uid, now, pod, first=serial == 1)

    async def _start(self, now: Version, pod: str) -> None:
        await self._api.create("pods", nodes.pod(now.raw, pod))
        await self._pod(pod, "Running", nodes.running())
        started = {} if (now.raw.get("status") or {}).get("startTime") else {"startTime": nodes.moment()}
        await self._status(now, {"active": 1, "ready": 1, **started})

    async def _run(self, uid: str, now: Version, pod: str, *, first: bool) -> bool:
        """The program in the Job: reads its input, works a while, reads what the user has added meanwhile, says how it
        ended and how many messages it has read. False: it was interrupted."""
        owner = now.raw["metadata"]["labels"][job.UID_LABEL]
        attempt = int(now.raw["metadata"]["labels"][job.ATTEMPT_LABEL])
        name = now.raw["metadata"]["annotations"][job.TASK_NAME_ANNOTATION]
        known = await self._input(owner, attempt)
        work = random.Random(f"{self._seed}/{name}/{attempt}").uniform(0.0, LONGEST_RUN)
        if first:
            work = _LONG.get(kinds.kind(name), work)
        if await self._interrupted(uid, work):
            return False
        known = known and await self._input(owner, attempt)
        read = None if known is None else len(known.get("messages") or ())
        said = kinds.says(name, attempt, known or {})
        if said.message is not None and read is not None:
            said = replace(said, message={**said.message, "messagesRead": read})
        late = kinds.kind(name) is Kind.LATE and attempt == 1
        if late and int(name[-1]) % 2:
            await self._talk(name, "m1")
        if said.stored:
            await self._store(owner, attempt, said, read)
        await self._end(now, pod, said)
        self.ran.append(Ran(owner, attempt, said.reason, read))
        if late:
            # Between the end of the run and its being noticed.
            await self._talk(name, "m2")
        return True

    async def _input(self, owner: str, attempt: int) -> dict[str, Any] | None:
        memory: dict[str, Any] | None = await self._database["task_memory"].find_one({"_id": owner})
        return memory if memory is not None and memory.get("attempt") == attempt else None

    async def _interrupted(self, uid: str, seconds: float) -> bool:
        """Work; True when the Job was suspended or deleted meanwhile."""
        deadline = asyncio.get_running_loop().time() + seconds
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed[uid].wait(), left)
            self._changed[uid].clear()
            now = self._jobs[uid]
            if now.deleted or now.raw["spec"].get("suspend"):
                self._changed[uid].set()
                return True
        return False

    async def _store(self, owner: str, attempt: int, said: Said, read: int | None) -> None:
        found = {
            "attempt": attempt,
            "exitReason": said.reason,
            "summary": f"Stored: {said.reason}.",
            "taskUid": owner,
            "messagesRead": read,
        }
        if said.message and "questions" in said.message:
            found["questions"] = said.message["questions"]
        await self._database["task_results"].replace_one({"_id": owner}, found, upsert=True)

    async def _end(self, now: Version, pod: str, said: Said) -> None:
        await self._end_pod(pod, said.code, said.message)
        for status in nodes.ends(said.code):
            await self._status(now, status)

    async def _end_pod(self, pod: str, code: int, message: Object | None) -> None:
        await self._pod(pod, "Succeeded" if code == 0 else "Failed", nodes.ended(code, message))

    async def _expire(self, uid: str, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._jobs[uid].deleted:
                    self._changed[uid].clear()
                    await self._changed[uid].wait()
        await self._api.delete("jobs", self._jobs[uid].name, uid=uid)

    async def _drop(self, pod: str | None) -> None:
        if pod is not None:
            await self._api.delete("pods", pod)

    async def _pod(self, pod: str, phase: str, state: Object) -> None:
        await self._api.patch("pods", pod, {"status": nodes.pod_status(phase, state)}, "status")

    async def _status(self, now: Version, status: Object) -> None:
        await self._api.patch("jobs", now.name, {"status": status}, "status")


def _over(raw: Object) -> bool:
    conditions = (raw.get("status") or {}).get("conditions") or ()
    return any(one["type"] in _OVER and one["status"] == "True" for one in conditions)
