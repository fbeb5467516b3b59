"""From requested commands to Jobs and back: MongoDB says what is wanted, the apiserver what became of it.

The record is Running before its Job is made, and `jobMade` after that: a kill in between is made up for, and a Job that
vanished is not made again. Every look compares, so nothing depends on having seen an event. A command that is refused
holds up no other; no end of a Job is a failure of its task, only the answer to what its agent asked.

A command of a task that is gone, or over, gives its place to the next one: its Job is deleted, and one that only waits
gets none. The task is known to be gone when it is not in the index and no Job of a run of it is at the apiserver: that
Job was there before the command, and stays until the task is gone (`controllers.pendingtask.effects.orphans`) or over.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import pydantic
import structlog
from pydantic import Field

import kube
from contracts.api.sandbox import Command
from contracts.tokens import runtoken
from controllers import job_tracker
from controllers.pendingtask import job as runs
from controllers.sandbox import job, store
from crds import errors, labels
from crds.model import Model
from crds.values import ContentRef
from kube import lease

log = structlog.get_logger(__name__)
EVERY_SECONDS = 2.0
_CUT = 1000
_GONE = "Its task is gone or over, and reads no result."


class Report(Model):
    """What the container `report` says; it has seen what foreign code left, so it is bounded here."""

    exit_code: Annotated[int, Field(ge=0, le=255)]
    output_ref: ContentRef | None = None
    patch_ref: ContentRef | None = None


class Sandboxes:
    """`at_once` Jobs run at the same time. `absent`: whether the index has no task of that namespace and uid, of a
    namespace that is served. `fence` is asked before each write to MongoDB; `wall` is UTC."""

    def __init__(
        self,
        api: kube.Kube,
        commands: store.Commands,
        template: job.Template,
        *,
        at_once: int,
        signer: runtoken.Signer,
        absent: Callable[[str, str], bool],
        token: Callable[[], lease.FencingToken],
        fence: Callable[[], None],
        wall: Callable[[], datetime],
    ) -> None:
        self._commands, self._template = commands, template
        self._at_once, self._signer, self._token, self._fence = at_once, signer, token, fence
        self._absent, self._wall = absent, wall
        self._jobs = job_tracker.JobTracker(api, template.run.namespace, labels.SANDBOX)

    async def reconcile_once(self) -> None:
        """Do what can be done now. Raises `crds.errors.Operational`."""
        running, requested, unreadable = await self._commands.open()
        for id_ in unreadable:
            await self._fail(id_, "Its record cannot be read; operator and run are of versions that do not fit.")
        if not running and not requested:
            return
        gone = await self._gone([*requested, *(command for command, _ in running)])
        for command, _ in running:
            if command.task_uid in gone:
                await self._jobs.delete(job.name(command))
                await self._fail(command.id, _GONE)
        for command in requested:
            if command.task_uid in gone:
                await self._fail(command.id, _GONE)
        running = [(command, made) for command, made in running if command.task_uid not in gone]
        requested = [command for command in requested if command.task_uid not in gone]
        places = [command.task_uid for command, made in running if await self._runs(command, made)]
        # In turns of tasks: one of them may want many.
        while requested and len(places) < self._at_once:
            command = min(requested, key=lambda one: (places.count(one.task_uid), one.requested_at))
            requested.remove(command)
            if why := job.refuses(command, self._template):
                await self._fail(command.id, why)
                continue
            self._fence()
            if await self._commands.begin(command) and await self._runs(command, made=False):
                places.append(command.task_uid)

    async def _gone(self, commands: list[Command]) -> set[str]:
        """The uids of their tasks that read no result any more. Raises `crds.errors.Operational`."""
        found = set()
        for uid in sorted({one.task_uid for one in commands if self._absent(one.namespace, one.task_uid)}):
            selector = f"{runs.UID_LABEL}={uid}"
            if not [True async for _ in self._jobs.api.each(kube.JOBS, self._jobs.namespace, selector)]:
                found.add(uid)
        return found

    async def _runs(self, command: Command, made: bool) -> bool:
        """Whether its Job still runs, or may."""

        async def refused(error: errors.Permanent) -> None:
            taken = isinstance(error, job_tracker.NameTaken)
            name = job.name(command)
            why = f"Another Job has its name: {name}." if taken else f"Its Job is refused: {error.message}"
            await self._fail(command.id, why)

        return await self._jobs.reconcile_job(job.name(command), partial(self._reconcile_job, command, made), refused)

    async def _reconcile_job(self, command: Command, made: bool) -> bool:
        async def record_made() -> None:
            self._fence()
            await self._commands.made(command)

        raw = await self._jobs.ensure(
            job_tracker.Wanted(
                job.name(command),
                job.identity(command),
                made,
                manifest=lambda: job.manifest(command, self._template, self._token()),
                secret=lambda uid: job.secret(command, self._template, uid, self._signer),
                record_made=record_made,
            )
        )
        if raw is None:
            await self._fail(command.id, "Its Job vanished.")
            return False
        end = job_tracker.ended(raw)
        if end is None:
            return True
        await self._end(command, end)
        return False

    async def _end(self, command: Command, end: job_tracker.JobEnd) -> None:
        said = reported(await self._jobs.pods(job.identity(command)))
        if isinstance(said, Report):
            self._fence()
            fields: dict[str, Any] = {"exitCode": said.exit_code}
            for key, ref in (("outputRef", said.output_ref), ("patchRef", said.patch_ref)):
                fields |= {key: ref.wire()} if ref is not None else {}
            await self._commands.end(command.id, self._wall(), **fields)
            return
        failed = f"Its Job failed ({end.reason}): {end.message or 'without a message'}"
        unreported = "Its pod ended without a result." if end.complete else failed
        await self._fail(command.id, said or unreported)

    async def _fail(self, id_: str, why: str) -> None:
        self._fence()
        await self._commands.end(id_, self._wall(), message=why[:_CUT])
        log.info("command not run", command=id_, reason=why)


def reported(pods: list[kube.Object]) -> Report | str:
    """What the latest pod of a Job says, or why there is no result, as a sentence; "" if it says neither."""
    why = ""
    for one in job_tracker.container_statuses(job_tracker.latest_pod(pods)):
        ended = job_tracker.terminated(one)
        spoken = job_tracker.termination_message(ended)
        if one["name"] == job.REPORT and ended and "failure" not in spoken:
            try:
                return Report.model_validate(spoken)
            except pydantic.ValidationError:
                why = why or "What its report says is not of the form."
        elif isinstance(spoken.get("failure"), str) and one["name"] != job.COMMAND:
            why = why or str(spoken["failure"])
        elif ended.get("reason") == "OOMKilled":
            why = why or f"Container {one['name']} was killed for want of memory."
        elif ended.get("exitCode"):
            why = why or f"Container {one['name']} ended with exit code {ended['exitCode']}."
    return why.encode(errors="replace").decode()[:_CUT]
