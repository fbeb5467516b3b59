"""One run from its first claim to its outcome. Every expected error becomes an Outcome; only bugs are raised."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import importlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import httpx
import structlog

import crds.errors
from crds import exits, pendingtask, spans
from crds.priority import Priority
from kb import client as kb_client
from orchestrator_job import (
    artifacts,
    consult,
    conversation,
    drain,
    ending,
    errors,
    fence,
    handback,
    language,
    ledger,
    logs,
    memory,
    mongo,
    nodes,
    outcome,
    patches,
    patience,
    plan,
    planning,
    question,
    reservation,
    rounds,
    standing,
    state,
    steps,
    telemetry,
)
from orchestrator_job.context import entries
from orchestrator_job.delegation import category, dag, journal, metrics
from orchestrator_job.legacy import paths
from orchestrator_job.settings import Settings
from orchestrator_job.state import State
from router import client as router_client

if TYPE_CHECKING:
    from orchestrator_job import graph
    from orchestrator_job.delegation import execution, wiring

_IN_TIME = 0.8
"""Share of the run's time for delegations; the synthesis has the rest."""
_FIRST_SEARCH = 0.75
"""Share of the evidence's characters for the first search of a run that makes a plan; its steps fill the rest."""
_log = structlog.get_logger("orchestrator_job.run")


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
        insistence: patience.Patience,
        fields: logs.Fields,
        *,
        holder: str,
        now: Callable[[], datetime],
        traced: spans.Spans,
    ) -> None:
        self._settings = settings
        self._database = database
        self._insistence = insistence
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
        self._steps = steps.Steps(database, self._guard, now)
        self._ends = 0.0
        self._delegates = False
        self._messages_read: int | None = None
        self._consult: consult.Consult | None = None
        self._found: Callable[[errors.Failure], Awaitable[outcome.Outcome]] | None = None
        """What there is of the round once a budget has ended the run; None before its thread was read."""

    async def to_end(self, request: drain.Request) -> outcome.Outcome:
        """The outcome, with the number of the user's messages that were read for it."""
        return dataclasses.replace(await self._to_end(request), messages_read=self._messages_read)

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
            if self._delegates:
                grace = min(grace, self._settings.delegation_grace_seconds)
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
        self, program: graph.Program, task: memory.TaskMemory, digest: str
    ) -> Callable[[errors.Failure], Awaitable[outcome.Outcome]]:
        book = ledger.Ledger(self._database, self._guard, self._now, task.approvals)
        account_of = self._account(task, self._loader(task), book)
        saving = handback.HandBack(account_of, self._store, self._database, self._guard, book)

        async def found(error: errors.Failure) -> outcome.Outcome:
            values = await program.found()
            if not values or values["digest"] != digest:
                return outcome.of_error(error)
            if values.get("finished") == values["round"]:
                return _finished(values)
            items = self._consult.found() if self._consult is not None else ()
            saved = await saving.save(cast("State", values), error, items)
            return dataclasses.replace(outcome.of_error(error), has_result=saved)

        return found

    async def _work(self, request: drain.Request) -> outcome.Outcome:
        # The slow import runs beside the first requests, and the loop stays free to receive a signal.
        importing = asyncio.ensure_future(asyncio.to_thread(_import_graph))
        try:
            await self._guard.claim(self._now())
            task = await memory.load(self._database, self._settings.task_uid)
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
                task = await memory.load(self._database, self._settings.task_uid)
                _log.info("overtaken", messages=len(task.messages))
            else:
                break
        await self._tidy(saver, int(values["round"]))
        await self._summarize(task, int(values["round"]))
        return _finished(values)

    async def _round(
        self, graph_module: Any, saver: Any, task: memory.TaskMemory, request: drain.Request
    ) -> dict[str, Any]:
        """The state at the end of the round that the task's memory is for. Raises Overtaken."""
        wanted = state.DELEGATION if self._settings.use_delegation_graph else state.LEGACY
        program = self._program(graph_module, saver, task, wanted)
        values: dict[str, Any] = await program.found()
        digest = task.digest()
        book = ledger.Ledger(self._database, self._guard, self._now)
        step = rounds.plan(values, digest, 0 if values else await book.reached())
        begun = values.get("graph", state.LEGACY)
        if begun != wanted and not isinstance(step, rounds.Begin):
            # A round ends on the graph that it began on, whatever the settings are now.
            program = self._program(graph_module, saver, task, begun)
            values = await program.found()
        request.listen(program.request_drain)
        self._found = self._handing_back(program, task, digest)
        _log.info("thread", step=type(step).__name__, found_round=values.get("round"), graph=begun)
        if isinstance(step, rounds.Begin):
            # What is handed back of a round is its own: nothing stays of the one before.
            fresh = state.State(question="", pack="", answer="")
            begin = state.State(schema=state.SCHEMA, round=step.round, digest=digest, **fresh)
            values = await program.go(begin if begun == wanted == state.LEGACY else {**begin, "graph": wanted})
        elif isinstance(step, rounds.Resume):
            values = await program.go(None)
        return values

    def _program(self, graph_module: Any, saver: Any, task: memory.TaskMemory, path: str) -> graph.Program:
        """The program of one of the two graphs, on the task's thread."""
        settings = self._settings
        delegates = self._delegates = path == state.DELEGATION
        found = self._delegating(task) if delegates else self._legacy(task)
        observed = [(name, self._observed(name, node)) for name, node in found]
        if delegates:
            order = dag.Dag(side_by_side=settings.use_dag_execution)
            fan = graph_module.Fan(dag.EXECUTE, (dag.ASK, dag.CONSENT, dag.SYNTHESIZE), order.next)
            ends = graph_module.Fan("approve", (), lambda state: "approve")
            fans = {dag.PLAN: fan, dag.ASK: ends, dag.CONSENT: fan, **self._consulting(graph_module, task)}
        else:
            follows = paths.follows(plans=settings.plans)
            fans = {name: graph_module.Fan(to[0], to[1:], choose) for name, (to, choose) in follows.items()}
            fans |= self._consulting(graph_module, task)
        program: graph.Program = graph_module.Program(
            observed,
            saver,
            task.task_uid,
            settings.max_steps,
            fans,
            settings.delegations_at_once,
            task.budget.max_steps if task.budget is not None else None,
        )
        return program

    def _consulting(self, graph_module: Any, task: memory.TaskMemory) -> dict[str, graph.Fan]:
        """The way by the decision agent, which is the same in both graphs."""

        def after_intake(state: State) -> str:
            wanted = self._settings.use_decision_agent
            return consult.NAME if consult.consults(state, task, wanted=wanted) else "evidence"

        return {
            "intake": graph_module.Fan("evidence", (consult.NAME,), after_intake),
            consult.NAME: graph_module.Fan("approve", (), lambda state: "approve"),
        }

    def _observed(self, name: str, node: graph.Node) -> graph.Node:
        """`node` within its own span, and with its times noted."""

        async def step(state: State) -> State:
            number = state["round"]
            with (
                self._recorder.node(name, number, state.get("active_delegation_id")) as used,
                self._steps.around(name, number, used),
            ):
                return await node(state)

        return step

    def _legacy(self, task: memory.TaskMemory) -> list[tuple[str, graph.Node]]:
        """The nodes of the legacy graph, in an order in which one without a choice is followed by the next."""
        own = dict(self._nodes(task))

        @functools.cache
        def built() -> Mapping[str, graph.Node]:
            # A run that only answers starts without them.
            from orchestrator_job.legacy import wiring as legacy

            self._delegates = True
            return legacy.nodes(self._parts(task), _beside(self._settings), self._opener(task))

        def later(name: str) -> graph.Node:
            async def step(state: State) -> State:
                return await built()[name](state)

            return step

        async def respond(state: State) -> State:
            return await (later(paths.RESPOND) if paths.worked(state) else own[paths.RESPOND])(state)

        return [
            *((name, own[name]) for name in ("intake", consult.NAME, "evidence")),
            *((name, later(name)) for name in paths.NAMES),
            *((name, own[name]) for name in ("plan", "follow")),
            (paths.RESPOND, respond),
            *((name, own[name]) for name in ("approve", "finalize")),
        ]

    def _recognized(self, task: memory.TaskMemory, document: str) -> Mapping[str, str]:
        """Category and action of the task's text; a task without delegations has an answer alone."""
        settings = self._settings
        if not (
            _smaller(settings.max_delegations, task.budget, "max_delegations")
            and _smaller(settings.max_depth, task.budget, "max_depth")
        ):
            return {"category": "", "action": category.Action.RESPOND}
        spoken = language.of([document])
        kind, action = category.path(task, document, spoken, outside=bool(settings.sources_url))
        return {"category": kind.value, "action": action.value}

    def _delegating(self, task: memory.TaskMemory) -> list[tuple[str, graph.Node]]:
        """The nodes of the delegation graph; those at its ends are the ones of the other graph."""
        legacy = dict(self._nodes(task))
        parts, beside = self._parts(task), _beside(self._settings)
        return [
            *((name, legacy[name]) for name in ("intake", consult.NAME, "evidence")),
            (dag.PLAN, parts.plan(beside)),
            (dag.ASK, parts.ask()),
            (dag.EXECUTE, parts.execute(self._opener(task))),
            (dag.CONSENT, parts.consent()),
            (dag.SYNTHESIZE, parts.synthesize(beside)),
            *((name, legacy[name]) for name in ("approve", "finalize")),
        ]

    def _parts(self, task: memory.TaskMemory) -> wiring.Parts:
        """What delegations work with."""
        # A run that does not delegate starts without them.
        from orchestrator_job.delegation import wiring

        loop = asyncio.get_running_loop()
        late = self._ends - self._settings.working_seconds * (1 - _IN_TIME)
        store, guard = self._store, self._guard
        loader, book = self._loader(task), ledger.Ledger(self._database, guard, self._now, task.approvals)
        return wiring.Parts(
            settings=self._settings,
            task=task,
            database=self._database,
            guard=guard,
            store=store,
            book=book,
            loader=loader,
            kb=self._kb,
            router=self._router,
            insistence=self._insistence,
            account_of=self._account(task, loader, book),
            left=lambda: late - loop.time(),
            recorder=self._recorder,
            now=self._now,
        )

    def _account(self, task: memory.TaskMemory, loader: standing.Loader, book: ledger.Ledger) -> ending.Account:
        changes = patches.Patches(self._database, self._guard, self._store, book)
        return ending.Account(task, self._store, loader, book, changes, model=self._settings.model, now=self._now)

    def _loader(self, task: memory.TaskMemory) -> standing.Loader:
        said = conversation.Conversation(self._database, task, self._now).shown
        chars = self._settings.context_chars
        return standing.Loader(
            self._kb,
            task.scope,
            self._store,
            self._insistence,
            context_chars=chars,
            said=said,
            task_uid=task.task_uid,
            restricted=bool(task.on_behalf_of),
        )

    def _opener(self, task: memory.TaskMemory) -> execution.Opener:
        """Builds the tools of agents when the first delegation begins."""
        from controllers.sources import client as sources_client
        from orchestrator_job.delegation.tools import box
        from orchestrator_job.delegation.tools import settings as tool_settings

        async def open_box(held: standing.Standing) -> box.Toolbox:
            means = box.Means(
                settings=tool_settings.Settings(),
                viewer=task.scope,
                rules=held.provisions,
                namespace=self._settings.task_namespace,
                urgency=_beside(self._settings),
                kb=self._kb,
                http=self._http,
                token=sources_client.token_file(self._settings.run_token_file),
                database=self._database,
                guard=self._guard,
                now=self._now,
            )
            return await box.Toolbox.open(means)

        return open_box

    def _nodes(self, task: memory.TaskMemory) -> list[tuple[str, graph.Node]]:
        """The nodes that read, answer and end."""
        settings, store, guard = self._settings, self._store, self._guard
        book = ledger.Ledger(self._database, guard, self._now, task.approvals)
        loader = self._loader(task)
        max_calls = _smaller(settings.max_llm_calls, task.budget, "max_llm_calls")
        max_tokens = task.budget.max_tokens if task.budget is not None else None
        come_to = self._account(task, loader, book)
        room = question.Room.of(settings.context_chars, settings.num_ctx)
        self._consult = consult.Consult(
            task,
            self._kb,
            store,
            guard,
            self._insistence,
            loader,
            urgency=_beside(settings),
            max_calls=max_calls,
            max_tokens=max_tokens,
            context_chars=settings.context_chars,
        )
        return [
            ("intake", self._settling(task, book, loader)),
            (consult.NAME, self._consult),
            (
                "evidence",
                nodes.Evidence(
                    task,
                    self._kb,
                    store,
                    self._insistence,
                    loader,
                    urgency=_beside(settings),
                    max_results=settings.max_evidence,
                    context_chars=int(settings.context_chars * (_FIRST_SEARCH if settings.plans else 1)),
                    room=room,
                ),
            ),
            (
                "plan",
                planning.MakePlan(
                    task,
                    self._kb,
                    self._router,
                    store,
                    guard,
                    patience.Patience(min(settings.unavailable_seconds, planning.UNAVAILABLE_SECONDS)),
                    loader,
                    model=settings.planner_model,
                    urgency=_beside(settings),
                    num_ctx=settings.planner_num_ctx,
                    seconds=settings.plan_seconds,
                    # The calls and the tokens of the answer are not the plan's.
                    max_llm_calls=max(0, max_calls - 1 - nodes.RETRIES),
                    max_tokens=max_tokens and max_tokens // 2,
                    now=self._now,
                ),
            ),
            (
                "follow",
                planning.FollowPlan(
                    task,
                    self._kb,
                    store,
                    self._insistence,
                    loader,
                    urgency=_beside(settings),
                    context_chars=settings.context_chars,
                    room=room,
                ),
            ),
            (
                "respond",
                nodes.Respond(
                    self._router,
                    store,
                    guard,
                    self._insistence,
                    loader,
                    model=settings.model,
                    urgency=settings.priority,
                    num_ctx=settings.num_ctx,
                    max_llm_calls=max_calls,
                    max_tokens=max_tokens,
                    room=room,
                    now=self._now,
                ),
            ),
            ("approve", ending.Approval(come_to, self._database, guard, book)),
            (
                "finalize",
                ending.Finalize(
                    task,
                    come_to,
                    self._database,
                    guard,
                    book,
                    conversation.Conversation(self._database, task, self._now),
                    functools.partial(memory.load, self._database, task.task_uid),
                    self._learn(task, book),
                    now=self._now,
                ),
            ),
        ]

    def _learn(self, task: memory.TaskMemory, book: ledger.Ledger) -> ending.Learn:
        async def learn(state: State, answered: bool) -> None:
            if not state.get("lesson"):
                return
            # A run that teaches nothing starts without it.
            from orchestrator_job.delegation import procedures

            await procedures.Learning(self._kb, task.scope, self._store, book).after(state, answered=answered)

        return learn

    def _settling(self, task: memory.TaskMemory, book: ledger.Ledger, loader: standing.Loader) -> graph.Node:
        """Intake, which first of all in a round settles the effects that earlier rounds have begun. Raises
        NeedsApproval where a person has to decide about one."""
        read = nodes.Intake(
            task, self._kb, self._store, self._insistence, loader, lambda text: self._recognized(task, text)
        )

        async def intake(state: State) -> State:
            changed = await read(state)
            number = state["round"]
            if number > 1 and await book.started(number):
                parts = self._parts(task)
                known: State = {**state, **changed}
                request = await parts.unsettled(self._opener(task)).settle(number, await loader.of(known))
                if request is not None:
                    raise await parts.consent().refusal(known, request)
            return changed

        return intake

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

    async def _summarize(self, task: memory.TaskMemory, round_number: int) -> None:
        """Keep the summary of a long conversation up to date. A failure does not change the outcome, nor does the
        deadline: without time for it there is none."""
        settings = self._settings
        if asyncio.get_running_loop().time() + conversation.SECONDS >= self._ends:
            return
        model, window = settings.model, settings.num_ctx
        if settings.planner_model:
            model, window = settings.planner_model, settings.planner_num_ctx
        most = _smaller(settings.max_llm_calls, task.budget, "max_llm_calls")
        tokens = task.budget.max_tokens if task.budget is not None else None
        ask = conversation.asker(self._router, model, _beside(settings), window)
        talk = conversation.Conversation(self._database, task, self._now)
        await talk.summarize(self._guard, round_number, most, ask, tokens)


def _import_graph() -> tuple[Any, Any]:
    return importlib.import_module("orchestrator_job.graph"), importlib.import_module("orchestrator_job.checkpoints")


def _beside(settings: Settings) -> Priority:
    """Priority of the run's queries to the knowledge base, which passes it to the router for embeddings.

    A Background run uses P1 at most: the router would count a P0 of the knowledge base as a user's request.
    """
    return max(settings.priority, Priority.P1) if settings.mode is pendingtask.Mode.BACKGROUND else settings.priority


def _smaller(setting: int, budget: pendingtask.Budget | None, name: str) -> int:
    own = getattr(budget, name) if budget is not None else None
    return min(setting, own) if own is not None else setting


def _finished(values: dict[str, Any]) -> outcome.Outcome:
    return outcome.Outcome(
        exits.ExitReason(values["exit_reason"]),
        values["summary"],
        has_result=True,
        questions=tuple(pendingtask.Question.model_validate(each) for each in values["questions"]),
        plan=plan.outcome(plan.of_round(values.get("plan"), values["round"])),
    )
