"""The delegation graph of a run, put together: its nodes between evidence and approval, and what they work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from crds import pendingtask
from crds.priority import Priority
from kb import client as kb_client
from orchestrator_job.agents import execution, executor, inflight_effects, metrics, registry
from orchestrator_job.context import rules_loader
from orchestrator_job.effects import journal, ledger
from orchestrator_job.model import budget, model_calls, telemetry
from orchestrator_job.plan import plan_delegations, procedure_question
from orchestrator_job.run import consent, finalize, synthesis
from orchestrator_job.settings import Settings
from orchestrator_job.store import artifacts, fence, mongo, retry, task_memory
from router import client as router_client

WINDOW = 16_384
"""Tokens of the model's window where none is set: the least that the workflow's role is meant to have."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run has. `left()`: the seconds that its delegations have; `now` is in UTC."""

    settings: Settings
    task: task_memory.TaskMemory
    database: mongo.Database
    guard: fence.Fence
    store: artifacts.Artifacts
    book: ledger.Ledger
    loader: rules_loader.Loader
    kb: kb_client.Client
    router: router_client.Client
    insistence: retry.Patience
    account_of: finalize.Account
    recorder: telemetry.Recorder
    left: Callable[[], float]
    now: Callable[[], datetime]

    def limits(self) -> budget.Limits:
        """Of the settings and the task's budget the smaller ones."""
        settings, own = self.settings, self.task.budget or pendingtask.Budget()
        return budget.Limits(
            llm_calls=_smaller(settings.max_llm_calls, own.max_llm_calls),
            tokens=own.max_tokens,
            delegations=_smaller(settings.max_delegations, own.max_delegations),
            depth=_smaller(settings.max_depth, own.max_depth),
        )

    def asks(self) -> model_calls.Asking:
        """The way in which this graph asks models."""
        pool = budget.Budget(self.guard, self.limits(), self.left)
        return model_calls.Asking(self.router, pool, self.insistence, num_ctx=self.settings.num_ctx)

    def means(self) -> executor.Means:
        """What the loops of agents work with, without tools."""
        return executor.Means(
            agents=registry.Registry.load(),
            tools={},
            asks=self.asks(),
            pool=budget.Budget(self.guard, self.limits(), self.left),
            records=journal.Journal(self.database, self.guard, self.store, self.now),
            book=self.book,
            counts=metrics.Metrics(self.database, self.guard, self.task.scope, self.settings.release, self.now),
            insistence=self.insistence,
            recorder=self.recorder,
            viewer=self.task.scope,
            model=self.settings.model,
            urgency=self.settings.priority,
            window=self.settings.num_ctx or WINDOW,
            now=self.now,
            specialists=self.settings.use_specialist_agents,
        )

    def plan(self, beside: Priority) -> plan_delegations.PlanDelegations:
        """The node `plan_delegations`; `beside` is the priority of a planner that is not the run's own model."""
        settings = self.settings
        light = bool(settings.planner_model)
        means = plan_delegations.Means(
            task=self.task,
            kb=self.kb,
            store=self.store,
            loader=self.loader,
            asks=self.asks(),
            database=self.database,
            book=self.book,
            agents=registry.Registry.load(),
            model=settings.planner_model or settings.model,
            urgency=beside if light else settings.priority,
            num_ctx=settings.planner_num_ctx if light else settings.num_ctx,
            now=self.now,
        )
        return plan_delegations.PlanDelegations(
            means,
            specialists=settings.use_specialist_agents,
            side_by_side=settings.use_dag_execution,
            by_procedure=settings.use_procedural_memory,
        )

    def ask(self) -> procedure_question.AskProcedure:
        """The node `ask_procedure`."""
        return procedure_question.AskProcedure(self.store)

    def synthesize(self, beside: Priority, missing: synthesis.Missing | None = None) -> synthesis.Synthesize:
        """The node `synthesize`; `beside` is the priority of queries to the knowledge base, `missing` names what no
        delegation was made for."""
        return synthesis.Synthesize(
            synthesis.Means(
                task=self.task,
                kb=self.kb,
                store=self.store,
                loader=self.loader,
                insistence=self.insistence,
                asks=self.asks(),
                model=self.settings.model,
                urgency=self.settings.priority,
                beside=beside,
                num_ctx=self.settings.num_ctx,
                context_chars=self.settings.evidence_chars,
                now=self.now,
                agents=registry.Registry.load(),
                learns=self.settings.use_procedural_memory,
                missing=missing,
            )
        )

    def execute(self, opener: execution.Opener, earlier: execution.Earlier | None = None) -> execution.Execute:
        """The node `execute_delegation`; `earlier` in place of the whole results of the groups before."""
        return execution.Execute(self.task, self.store, self.loader, self.means(), opener, earlier)

    def unsettled(self, opener: execution.Opener) -> inflight_effects.Unsettled:
        """What settles the effects of earlier rounds."""
        records = journal.Journal(self.database, self.guard, self.store, self.now)
        return inflight_effects.Unsettled(self.book, records, self.insistence, self.task.scope, opener)

    def consent(self) -> consent.Consent:
        """The node `consent`."""
        return consent.Consent(self.account_of, self.store, self.database, self.guard, self.book)


def _smaller(setting: int, own: int | None) -> int:
    return setting if own is None else min(setting, own)
