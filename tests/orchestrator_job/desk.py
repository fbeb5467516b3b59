"""A task with all that its runs talk to, and its runs, one after the other."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge, mongowire, sources

_STATUS = {"Answered": 0, "NeedsInput": 0, "NeedsApproval": 0, "Rejected": 0, "Drained": 42}
"""The exit status of a run by its reason; for each other reason it is 1."""
PERMITS: list[dict[str, Any]] = [{"tool": "sendMail", "targets": ["a@example.com", "b@example.com"], "most": 9}]
"""Of a task that is given no others."""
_AT_ONCE = 3
C = TypeVar("C")
Script = Mapping[str, Sequence[Any]] | Sequence[Any]
"""What models answer, by the tag of their prompts; a sequence is that of `job.TAG`."""


class Desk:
    """`outside` is where effects happen. Settings of `run` and `ends` in capitals are of the run's environment, all
    others are fields of the task's memory, which stay as they are until they are given again; but `attempt` is which
    attempt it is, where it is not the next one."""

    def __init__(
        self,
        task: job.Job,
        store: job.Store,
        fake: process.Fake,
        known: knowledge.Knowledge,
        outside: sources.Sources,
        tasks: list[job.Job] | None = None,
    ) -> None:
        self.task, self.store, self.fake, self.known, self.outside = task, store, fake, known, outside
        self.attempt = 0
        self._tasks = [] if tasks is None else tasks
        self._tasks.append(task)
        self._fields: dict[str, Any] = {"permits": PERMITS}

    def another(self) -> Desk:
        """One for another task, whose memory is written, of the same database."""
        places = (
            self.task.environment[f"JERVIS_{name}"] for name in ("MONGODB_URI", "DATABASE", "KB_URL", "ROUTER_URL")
        )
        desk = Desk(job.Job(self.task.folder, *places), self.store, self.fake, self.known, self.outside, self._tasks)
        desk.remember()
        return desk

    def reaches_outside(self) -> Desk:
        """Runs may have effects, with a token of their own; `PERMITS` names some."""
        token = self.task.folder / f"token-{self.task.uid}"
        token.write_text(self.task.uid)
        self.task.environment.update(
            JERVIS_SOURCES_URL=self.outside.url,
            JERVIS_MAIL_CONNECTION="office",
            JERVIS_RUN_TOKEN_FILE=str(token),
        )
        return self

    def delegates(self, **environment: str) -> Desk:
        """Runs are on the delegation graph, and may have effects. `environment` has the last word."""
        flags = ("DELEGATION_GRAPH", "SPECIALIST_AGENTS", "DAG_EXECUTION")
        self.reaches_outside().task.environment |= {f"JERVIS_USE_{flag}": "true" for flag in flags} | environment
        return self

    def remember(self, **fields: Any) -> None:
        """Write the task's memory, as the operator does."""
        self._fields |= fields
        self.store.remember(self.task.memory(**self._fields))

    async def run(self, script: Script | None = None, /, **settings: Any) -> job.Ended:
        """The next attempt, or that one, to its end."""
        self.attempt = settings.pop("attempt", self.attempt + 1)
        environment = {name: value for name, value in settings.items() if name.isupper()}
        fields = {name: value for name, value in settings.items() if name not in environment}
        self._begin(script, **fields)
        ended = await self.task.run(self.attempt, **environment)
        waits = ended.message.get("exitReason") == "NeedsApproval"
        return dataclasses.replace(ended, waiting=self.result().get("waiting", ())) if waits else ended

    async def ends(self, reason: str, script: Script | None = None, /, **settings: Any) -> job.Ended:
        """The same, where the run ends for this reason."""
        ended = await self.run(script, **settings)
        assert (ended.message.get("exitReason"), ended.status) == (reason, _STATUS.get(reason, 1)), ended
        return ended

    async def writes(self, reason: str, script: Script | None = None, /, **settings: Any) -> Counter[str]:
        """How many changes of each collection the next attempt makes, which ends for this reason."""
        async with mongowire.proxying(self.task.environment["JERVIS_MONGODB_URI"]) as proxy:
            await self.ends(reason, script, JERVIS_MONGODB_URI=proxy.url, **settings)
        return proxy.writes

    async def dies(self, script: Script, /, **fields: Any) -> None:
        """Run, and die while the model that answers reads its prompt; the next attempt is the same one."""
        self._begin(script, **fields)
        running = self.task.start()
        await job.reached(self.fake)
        running.process.kill()
        assert (await self.task.end(running)).status == -9

    async def stops(self, script: Script, /, *, tag: str = job.TAG, **environment: str) -> job.Ended:
        """Run, and be asked to stop while a model reads a prompt of that tag, which the run does not wait for; the next
        attempt is the same one."""
        self._begin(script)
        running = self.task.start(1, **{"JERVIS_DRAIN_GRACE_SECONDS": "0.2", **environment})
        await job.reached(self.fake, tag)
        running.process.terminate()
        drained = await self.task.end(running)
        assert (drained.status, drained.message["exitReason"]) == (42, "Drained"), drained
        return drained

    def calls(self) -> int:
        """How many requests to models there were."""
        return self.fake.count(path="/api/chat")

    def tags(self) -> list[str]:
        """Of the requests to models, in their order."""
        return [str(one["tag"]) for one in self.fake.requests(path="/api/chat")]

    def prompts(self, tag: str = job.TAG) -> list[str]:
        """The user's first message in each request with this tag."""
        return [str(one["body"]["messages"][1]["content"]) for one in self.fake.requests(tag=tag)]

    def result(self) -> dict[str, Any]:
        """What the runs have left, which is the only result of this task."""
        return self._own("task_results")

    def fence(self) -> dict[str, Any]:
        """What all runs share."""
        return self._own("orchestrator_fences")

    def spent(self) -> dict[str, Any]:
        """Of the budget of the first round."""
        return dict(self.fence()["spent"]["r1"])

    def _begin(self, script: Script | None, **fields: Any) -> None:
        if script is not None:
            self.fake.set_script(dict(script) if isinstance(script, Mapping) else {job.TAG: list(script)})
        if fields:
            self.remember(**fields)

    def _own(self, collection: str) -> dict[str, Any]:
        found = {one["_id"]: one for one in self.store.all(collection)}
        assert found.keys() <= {task.uid for task in self._tasks}
        return found[self.task.uid]


async def side_by_side(cases: Sequence[C], work: Callable[[C], Awaitable[None]]) -> None:
    """The work on all cases, on a few at once. A failure names its case."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(case: C) -> None:
        async with slots:
            try:
                await work(case)
            except AssertionError as error:
                error.add_note(f"in the case {case}")
                raise

    async with asyncio.TaskGroup() as group:
        for case in cases:
            group.create_task(one(case))
