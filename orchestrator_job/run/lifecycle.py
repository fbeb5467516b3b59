"""One run from its first claim to its outcome. Every expected error becomes an Outcome; only bugs are raised."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import httpx
import structlog

import crds.errors
from contracts import otel_spans
from crds import exit_reasons, pendingtask
from crds.priority import Priority
from kb import client as kb_client
from orchestrator_job import errors, outcome
from orchestrator_job.agents import metrics
from orchestrator_job.context import conversation, entries
from orchestrator_job.effects import journal
from orchestrator_job.model import budget, model_calls, telemetry
from orchestrator_job.plan import run_plan
from orchestrator_job.run import drain, handback, logs, node_records, reservation, rounds, run_context, wiring
from orchestrator_job.settings import Settings
from orchestrator_job.store import artifacts, fence, graph_state, mongo, retry, task_memory, task_memory_reader
from orchestrator_job.store.graph_state import State
from router import client as router_client

if TYPE_CHECKING:
    from orchestrator_job.run import graph

_log = structlog.get_logger("orchestrator_job.run.lifecycle")
_DELEGATION_GRACE = 0.5
"""Seconds of grace of a run that delegates, where its own are more: a call of a minute in one of many branches would
hold the slot for all of them, and what is lost is the calls in flight, one in each branch (decision 0147)."""


class Run:
    """The run of one process.

    `fields` are added to every log line, `holder` names the process in the fence, `now` is in UTC, `traced` records
    each step as a span.
    """

    def __init__(
        self,
        settings: Settings,
        database: mongo.Database,
        http: httpx.AsyncClient,
        retries: retry.Retry,
        fields: logs.Fields,
        *,
        holder: str,
        now: Callable[[], datetime],
        traced: otel_spans.Spans,
    ) -> None:
        self._settings = settings
        self._database = database
        self._retries = retries
        self._http = http
        self._fields = fields
        self._now = now
        self._recorder = telemetry.Recorder(traced)
        self._kb = kb_client.Client(
            settings.kb_url, http, kb_client.token_file(settings.run_token_file), patient=True, attempts=1
        )
        token = router_client.token_file(settings.run_token_file)
        self._gpu: reservation.Reservation | None = None
        if settings.priority is Priority.P0:  # others may not reserve
            announced = router_client.Client(settings.router_url, http, token=token)
            self._gpu = reservation.Reservation(announced, owner=f"run-{settings.task_uid}", model=settings.model)
        self._router = telemetry.Router(
            self._recorder,
            settings.router_url,
            http,
            mode=settings.mode.value,
            token=token,
            before=self._gpu.hold if self._gpu is not None else None,
        )
        self._guard = fence.Fence(database, settings.task_uid, settings.attempt, holder)
        self._store = artifacts.Artifacts(database, self._guard, now)
        self._steps = node_records.Steps(database, self._guard, now)
        self._ends = 0.0
        self._wired: wiring.Wiring | None = None
        """Of the latest round."""
        self._messages_read: int | None = None
        self._found: Callable[[errors.Failure], Awaitable[outcome.Outcome]] | None = None
        """What there is of the round once a budget has ended the run; None before its thread was read."""

    async def to_end(self, request: drain.Request) -> outcome.Outcome:
        """The outcome, with the number of the user's messages that were read for it, and the tools that were left
        out."""
        ended = await self._to_end(request)
        absent = self._wired.run.absent_tools if self._wired is not None else {}
        return dataclasses.replace(ended, messages_read=self._messages_read, absent_tools=outcome.without_tools(absent))

    async def _to_end(self, request: drain.Request) -> outcome.Outcome:
        """Work until there is an outcome. After a stop request the running node has the grace period to end.

        Delegations have a shorter one: side by side the slowest would be waited for, and the journal has all but the
        calls in flight.
        """
        loop = asyncio.get_running_loop()
        self._ends = loop.time() + self._settings.working_seconds
        work = asyncio.ensure_future(self._work(request))

        def limit(reason: str) -> None:
            grace = self._settings.drain_grace_seconds
            if self._wired is not None and self._wired.delegates:
                grace = min(grace, _DELEGATION_GRACE)
            _log.info("draining", reason=reason, grace_seconds=grace)
            loop.call_later(grace, work.cancel)

        request.listen(limit)
        try:
            async with asyncio.timeout(self._settings.working_seconds):
                return await work
        except drain.Drained as error:
            return outcome.drained(error.reason)
        except asyncio.CancelledError:
            if request.reason is None:
                raise
            return outcome.drained(f"{request.reason}, cancelled after the grace period")
        except TimeoutError:
            return await self._handed_back(
                errors.DeadlineExceeded(
                    f"The run has used the {self._settings.wall_clock_seconds:.0f} seconds that it may take.",
                    field="spec.activeDeadlineSeconds",
                    remedy="Raise spec.activeDeadlineSeconds and try again; the next run resumes from the checkpoint.",
                )
            )
        except errors.BudgetExhausted as error:
            return await self._handed_back(error)
        except errors.Forgotten as error:
            # What noticed it first has had the others cancelled, in the middle of their writes too.
            await self._guard.written()
            return outcome.of_error(error)
        except crds.errors.JervisError as error:
            return outcome.of_error(error)
        finally:
            try:
                await self._steps.flush()
            finally:
                # Answered, failed, drained, or waiting for a person: nothing of this process asks a model any more.
                if self._gpu is not None:
                    await self._gpu.release()

    async def _handed_back(self, error: errors.Failure) -> outcome.Outcome:
        """The outcome of a run that a budget ended, after what it has found was stored. A failure of that does not
        change the outcome."""
        if self._found is None:
            return outcome.of_error(error)
        try:
            async with asyncio.timeout(min(handback.SECONDS, self._settings.drain_grace_seconds / 2)):
                # Of nodes that were cancelled in the middle of a write.
                await self._guard.written()
                return await self._found(error)
        except errors.Fenced as fenced:
            return outcome.of_error(fenced)
        except (crds.errors.JervisError, TimeoutError) as failed:
            _log.warning("nothing was handed back", reason=str(failed) or type(failed).__name__)
            return outcome.of_error(error)

    def _handing_back(
        self, program: graph.Program, wired: wiring.Wiring, digest: str
    ) -> Callable[[errors.Failure], Awaitable[outcome.Outcome]]:
        saving = handback.HandBack(wired.run)

        async def found(error: errors.Failure) -> outcome.Outcome:
            values = await program.found()
            if not values or values["digest"] != digest:
                return outcome.of_error(error)
            if values.get("finished") == values["round"]:
                return _finished(values)
            saved = await saving.save(cast("State", values), error, wired.agent.found())
            return dataclasses.replace(outcome.of_error(error), has_result=saved)

        return found

    async def _work(self, request: drain.Request) -> outcome.Outcome:
        # The slow import runs beside the first requests, and the loop stays free to receive a signal.
        importing = asyncio.ensure_future(asyncio.to_thread(_import_graph))
        try:
            await self._guard.claim(self._now())
            task = await task_memory_reader.load(self._database, self._settings.task_uid)
        except errors.NoMemory:
            # A fence of a task of which nothing else is kept is never found again.
            await self._guard.withdraw()
            raise
        finally:
            graph_module, checkpoints_module = await importing
        self._recorder.conversation = task.correlation_id
        self._fields.update(correlation_id=task.correlation_id, epoch=self._guard.epoch)
        saver = await checkpoints_module.open_saver(self._database, self._guard)
        while True:
            self._messages_read = len(task.messages)
            try:
                values = await self._round(graph_module, saver, task, request)
            except rounds.Overtaken:
                task = await task_memory_reader.load(self._database, self._settings.task_uid)
                _log.info("overtaken", messages=len(task.messages))
            else:
                break
        await self._tidy(saver, int(values["round"]))
        await self._summarize(task, int(values["round"]))
        return _finished(values)

    async def _round(
        self, graph_module: Any, saver: Any, task: task_memory.TaskMemory, request: drain.Request
    ) -> dict[str, Any]:
        """The state at the end of the round that the task's memory is for. Raises Overtaken."""
        wanted = graph_state.DELEGATION if self._settings.use_delegation_graph else graph_state.LEGACY
        wired = self._wired = self._wiring(task)
        program = wired.program(graph_module, saver, wanted)
        values: dict[str, Any] = await program.found()
        digest = task.digest()
        step = rounds.plan(values, digest, 0 if values else await wired.run.book.reached())
        begun = values.get("graph", graph_state.LEGACY)
        if begun != wanted and not isinstance(step, rounds.Begin):
            # A round ends on the graph that it began on, whatever the settings are now.
            program = wired.program(graph_module, saver, begun)
            values = await program.found()
        request.listen(program.request_drain)
        self._found = self._handing_back(program, wired, digest)
        _log.info("thread", step=type(step).__name__, found_round=values.get("round"), graph=begun)
        if isinstance(step, rounds.Begin):
            # What is handed back of a round is its own: nothing stays of the one before.
            fresh = graph_state.State(question="", pack="", answer="")
            begin = graph_state.State(schema=graph_state.SCHEMA, round=step.round, digest=digest, **fresh)
            values = await program.go(begin if begun == wanted == graph_state.LEGACY else {**begin, "graph": wanted})
        elif isinstance(step, rounds.Resume):
            values = await program.go(None)
        return values

    def _wiring(self, task: task_memory.TaskMemory) -> wiring.Wiring:
        context = run_context.RunContext(
            settings=self._settings,
            task=task,
            database=self._database,
            http=self._http,
            retries=self._retries,
            guard=self._guard,
            store=self._store,
            kb=self._kb,
            router=self._router,
            recorder=self._recorder,
            ends=self._ends,
            now=self._now,
        )
        return wiring.Wiring(context, self._steps)

    async def _tidy(self, saver: Any, round_number: int) -> None:
        """Delete data that the finished round no longer needs. A failure does not change the outcome."""
        try:
            removed = await saver.keep_latest(self._settings.task_uid)
            removed += await self._store.prune(round_number)
            removed += await journal.Journal(self._database, self._guard, self._store, self._now).prune(round_number)
            removed += await metrics.expire(self._database, self._now())
            removed += await entries.expire(self._database, self._now())
            _log.info("tidied", removed=removed)
        except crds.errors.JervisError as error:
            _log.warning("tidying failed", reason=error.message)

    async def _summarize(self, task: task_memory.TaskMemory, round_number: int) -> None:
        """Keep the summary of a long conversation up to date. A failure does not change the outcome, nor does the
        deadline: without time for it there is none."""
        settings = self._settings
        if asyncio.get_running_loop().time() + conversation.SECONDS >= self._ends:
            return
        model, window = settings.model, settings.num_ctx
        if settings.planner_model:
            model, window = settings.planner_model, settings.planner_num_ctx
        pool = budget.Budget(self._guard, run_context.limits(settings, task))
        asks = model_calls.Asking(self._router, pool, retry.Retry(0))
        talk = conversation.Conversation(self._database, task, self._now)
        await talk.summarize(asks, round_number, model=model, urgency=run_context.beside(settings), num_ctx=window)


def _import_graph() -> tuple[Any, Any]:
    return importlib.import_module("orchestrator_job.run.graph"), importlib.import_module(
        "orchestrator_job.run.checkpoints"
    )


def _finished(values: dict[str, Any]) -> outcome.Outcome:
    return outcome.Outcome(
        exit_reasons.ExitReason(values["exit_reason"]),
        values["summary"],
        has_result=True,
        questions=tuple(pendingtask.Question.model_validate(each) for each in values["questions"]),
        plan=run_plan.outcome(run_plan.of_round(values.get("plan"), values["round"])),
    )
