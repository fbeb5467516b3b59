"""The nodes of the legacy graph beside the answer, put together when the first of them is reached.

A question that gets its answer starts without agents, tools and prompts.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator_job.agents import execution, registry
from orchestrator_job.context import entries, summarizer
from orchestrator_job.model import prompt_budget
from orchestrator_job.plan import goal_nodes, goal_paths, goal_steps
from orchestrator_job.run import delegation_wiring as delegation
from orchestrator_job.store.graph_state import Node


def nodes(parts: delegation.Parts, opener: execution.Opener) -> Mapping[str, Node]:
    """By their names."""
    run = parts.run
    settings = run.settings
    light = bool(settings.planner_model)
    model = settings.planner_model or settings.model
    urgency = run.beside if light else settings.priority
    num_ctx = settings.planner_num_ctx if light else settings.num_ctx
    context = entries.Context(run.database, run.guard, run.book, run.task, run.now)
    room = prompt_budget.room(settings.num_ctx or delegation.WINDOW)
    means = goal_nodes.Means(
        task=run.task,
        store=run.store,
        loader=run.loader,
        asks=parts.asks(),
        agents=registry.Registry.load(),
        context=context,
        summaries=summarizer.Summarizer(parts.asks(), model=model, urgency=urgency, num_ctx=num_ctx),
        model=model,
        urgency=urgency,
        num_ctx=num_ctx,
        specialists=settings.use_specialist_agents,
        room=prompt_budget.room(num_ctx or goal_nodes.NUM_CTX),
        now=run.now,
    )
    return {
        goal_paths.DESIGN: goal_nodes.Design(means),
        goal_paths.GOALS: goal_nodes.Goals(means),
        goal_paths.SELECT: goal_nodes.SelectGoal(means),
        goal_paths.PLAN: goal_nodes.PlanSteps(means),
        goal_paths.EXECUTE: goal_steps.ExecuteStep(parts.execute(opener, goal_steps.earlier(context, room))),
        goal_paths.CONSENT: parts.consent(),
        goal_paths.EVALUATE: goal_steps.Evaluate(means),
        goal_paths.RESPOND: goal_steps.Answer(means, parts.synthesize(goal_steps.unreached(means.store))),
    }
