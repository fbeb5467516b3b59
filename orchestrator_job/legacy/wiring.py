"""The nodes of the legacy graph beside the answer, put together when the first of them is reached.

A question that gets its answer starts without agents, tools and prompts.
"""

from __future__ import annotations

from collections.abc import Mapping

from crds.priority import Priority
from orchestrator_job import prompt_budget
from orchestrator_job.context import entries, summarizer
from orchestrator_job.delegation import execution, registry
from orchestrator_job.delegation import wiring as delegation
from orchestrator_job.legacy import paths, planning, steps
from orchestrator_job.state import Node


def nodes(parts: delegation.Parts, beside: Priority, opener: execution.Opener) -> Mapping[str, Node]:
    """By their names; `beside` is the priority of a planner that is not the run's own model."""
    settings = parts.settings
    light = bool(settings.planner_model)
    model = settings.planner_model or settings.model
    urgency = beside if light else settings.priority
    num_ctx = settings.planner_num_ctx if light else settings.num_ctx
    context = entries.Context(parts.database, parts.guard, parts.book, parts.task, parts.now)
    room = prompt_budget.room(settings.num_ctx or delegation.WINDOW)
    means = planning.Means(
        task=parts.task,
        store=parts.store,
        loader=parts.loader,
        asks=parts.asks(),
        agents=registry.Registry.load(),
        context=context,
        summaries=summarizer.Summarizer(parts.asks(), model=model, urgency=urgency, num_ctx=num_ctx),
        model=model,
        urgency=urgency,
        num_ctx=num_ctx,
        specialists=settings.use_specialist_agents,
        room=prompt_budget.room(num_ctx or planning.NUM_CTX),
        now=parts.now,
    )
    return {
        paths.DESIGN: planning.Design(means),
        paths.GOALS: planning.Goals(means),
        paths.SELECT: planning.SelectGoal(means),
        paths.PLAN: planning.PlanSteps(means),
        paths.EXECUTE: steps.ExecuteStep(parts.execute(opener, steps.earlier(context, room))),
        paths.CONSENT: parts.consent(),
        paths.EVALUATE: steps.Evaluate(means),
        paths.RESPOND: steps.Answer(means, parts.synthesize(beside, steps.unreached(means.store))),
    }
