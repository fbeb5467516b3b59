"""The delegation graph of a run, put together: its nodes between evidence and approval, and what they work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator_job.agents import execution, inflight_effects, loop, metrics, registry
from orchestrator_job.effects import journal
from orchestrator_job.model import budget, model_calls
from orchestrator_job.plan import plan_delegations, procedure_question
from orchestrator_job.run import consent, run_context, synthesis

WINDOW = 16_384
"""Tokens of the model's window where none is set: the least that the workflow's role is meant to have."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The nodes of delegations. `left()`: the seconds that they have."""

    run: run_context.RunContext
    left: Callable[[], float]

    def asks(self) -> model_calls.Asking:
        """The way in which this graph asks models."""
        pool = budget.Budget(self.run.guard, self.run.limits, self.left)
        return model_calls.Asking(self.run.router, pool, self.run.retries, num_ctx=self.run.settings.num_ctx)

    def means(self) -> loop.Means:
        """What the loops of agents work with, without tools."""
        return loop.Means(
            agents=registry.Registry.load(),
            tools={},
            asks=self.asks(),
            pool=budget.Budget(self.run.guard, self.run.limits, self.left),
            records=journal.Journal(self.run.database, self.run.guard, self.run.store, self.run.now),
            book=self.run.book,
            counts=metrics.Metrics(
                self.run.database,
                self.run.guard,
                self.run.task.scope,
                self.run.settings.release,
                self.run.now,
            ),
            retries=self.run.retries,
            recorder=self.run.recorder,
            viewer=self.run.task.scope,
            model=self.run.settings.model,
            urgency=self.run.settings.priority,
            window=self.run.settings.num_ctx or WINDOW,
            now=self.run.now,
            specialists=self.run.settings.use_specialist_agents,
            permits=self.run.task.permits,
            absent_tools=self.run.absent_tools,
        )

    def plan(self) -> plan_delegations.PlanDelegations:
        """The node `plan_delegations`."""
        settings = self.run.settings
        light = bool(settings.planner_model)
        means = plan_delegations.Means(
            task=self.run.task,
            kb=self.run.kb,
            store=self.run.store,
            loader=self.run.loader,
            asks=self.asks(),
            database=self.run.database,
            book=self.run.book,
            agents=registry.Registry.load(),
            model=settings.planner_model or settings.model,
            urgency=self.run.beside if light else settings.priority,
            num_ctx=settings.planner_num_ctx if light else settings.num_ctx,
            now=self.run.now,
        )
        return plan_delegations.PlanDelegations(
            means,
            specialists=settings.use_specialist_agents,
            side_by_side=settings.use_dag_execution,
            by_procedure=settings.use_procedural_memory,
        )

    def ask(self) -> procedure_question.AskProcedure:
        """The node `ask_procedure`."""
        return procedure_question.AskProcedure(self.run.store)

    def synthesize(self, missing: synthesis.Missing | None = None) -> synthesis.Synthesize:
        """The node `synthesize`; `missing` names what no delegation was made for."""
        return synthesis.Synthesize(
            synthesis.Means(
                task=self.run.task,
                kb=self.run.kb,
                store=self.run.store,
                loader=self.run.loader,
                retries=self.run.retries,
                asks=self.asks(),
                model=self.run.settings.model,
                urgency=self.run.settings.priority,
                beside=self.run.beside,
                num_ctx=self.run.settings.num_ctx,
                context_chars=self.run.settings.evidence_chars,
                now=self.run.now,
                agents=registry.Registry.load(),
                learns=self.run.settings.use_procedural_memory,
                missing=missing,
            )
        )

    def execute(self, opener: execution.Opener, earlier: execution.Earlier | None = None) -> execution.Execute:
        """The node `execute_delegation`; `earlier` in place of the whole results of the groups before."""
        return execution.Execute(self.run.task, self.run.store, self.run.loader, self.means(), opener, earlier)

    def unsettled(self, opener: execution.Opener) -> inflight_effects.Unsettled:
        """What settles the effects of earlier rounds."""
        records = journal.Journal(self.run.database, self.run.guard, self.run.store, self.run.now)
        run = self.run
        return inflight_effects.Unsettled(run.book, records, run.retries, run.task.scope, run.now, opener)

    def consent(self) -> consent.Consent:
        """The node `consent`."""
        return consent.Consent(self.run)
