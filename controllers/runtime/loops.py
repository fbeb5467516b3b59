"""What runs as long as the process: every loop and every worker of a queue, on one screen. A new one is a row here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import NamedTuple

from controllers.codeanalysis import reconcile as analyses
from controllers.connection import polling, removals
from controllers.delegations import reconcile as delegations
from controllers.gpubackend import absence
from controllers.meetings import reconcile as meetings
from controllers.pendingtask import warm_pool
from controllers.pendingtask.effects import orphans
from controllers.pendingtask.slots import router_use, wait_conditions
from controllers.periodic import Periodic, growing
from controllers.projects import EVERY as PROJECTS_SECONDS
from controllers.runtime import wiring
from controllers.sandbox import reconcile as sandbox


class Workers(NamedTuple):
    """`number` coroutines of the leader that take from one queue."""

    name: str
    work: Callable[[], Awaitable[None]]
    number: int = 1


def loops(ctx: wiring.Wiring) -> Iterator[Periodic]:
    """Every loop that the settings ask for: its name, its pass, its interval in seconds."""
    loop, config = partial(Periodic, measured=ctx.measured), ctx.config
    outcomes, notices = config.outcome_pace().every, config.notice_pace().every
    if ctx.connections.polling is not None:
        yield loop("sources", ctx.connections.polling.reconcile_once, polling.EVERY_SECONDS)
    if ctx.removals is not None:
        yield loop("removals of sources", ctx.removals.reconcile_once, removals.EVERY_SECONDS)
    if ctx.sandboxes is not None:
        yield loop("commands in sandboxes", ctx.sandboxes.reconcile_once, sandbox.EVERY_SECONDS)
    if ctx.transcriptions is not None:
        yield loop("transcriptions", ctx.transcriptions.reconcile_once, meetings.EVERY_SECONDS)
    yield loop("analyses of repositories", ctx.analyses.reconcile_once, analyses.EVERY_SECONDS)
    yield loop("archive", ctx.archivist.reconcile_once, config.pace().every)
    if config.outcomes:
        yield loop("outcomes", ctx.reporter.reconcile_once, outcomes, retry=growing(outcomes))
    yield loop("delegations", ctx.counting.reconcile_once, delegations.EVERY, retry=growing(delegations.EVERY))
    if config.notices:
        yield loop("notices", ctx.notifier.reconcile_once, notices, retry=growing(notices))
    yield loop("projects", ctx.projects.reconcile_once, PROJECTS_SECONDS, retry=growing(PROJECTS_SECONDS))
    yield loop(
        "orphans",
        ctx.orphans.reconcile_once,
        orphans.EVERY_SECONDS,
        retry=orphans.RETRY,
        wake=ctx.workloads.abandonment,
    )
    yield loop("warm pool", ctx.pool.reconcile_once, warm_pool.EVERY_SECONDS, retry=warm_pool.RETRY, wake=ctx.pool.due)
    lasting = min(wait_conditions.EVERY_SECONDS, config.wait_reason_seconds)
    yield loop("wait conditions", ctx.wait_conditions.reconcile_once, lasting)
    # A replica that stands by has these too: its answers are at hand when it begins to lead.
    ask, reserve = partial(loop, leads=False), router_use.CHECK_SECONDS
    yield ask("user activity", ctx.users.reconcile_once, router_use.ASK_EVERY_SECONDS, wake=ctx.users.asked_for)
    yield ask(
        "served backends",
        ctx.served_backends.reconcile_once,
        absence.EVERY_SECONDS,
        wake=ctx.served_backends.asked_for,
    )
    if config.reserve_gpu:
        yield ask("reservation", ctx.reservation.reconcile_once, reserve)


def workers(ctx: wiring.Wiring) -> Iterator[Workers]:
    """Every worker of a queue."""
    yield Workers("connections", ctx.connections.work)
    yield Workers("backends", ctx.backends.work, 4)
    yield Workers("tasks", ctx.tasks.work, ctx.config.workers)
