"""What one run works with: its settings and task, and the stores and clients of its process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import httpx

from crds import pendingtask
from crds.priority import Priority
from kb import client as kb_client
from orchestrator_job.context import conversation, rules_loader
from orchestrator_job.effects import ledger, patches
from orchestrator_job.model import budget, intent, telemetry
from orchestrator_job.run import account
from orchestrator_job.settings import Settings
from orchestrator_job.store import artifacts, fence, mongo, retry, task_memory


@dataclass(kw_only=True)
class RunContext:
    """What the wiring of each graph takes. `ends` is the loop's time at which the run ends, `now` is in UTC.
    `absent_tools` are tools that the run's agents do not have, with the reasons, as far as that is known by now."""

    settings: Settings
    task: task_memory.TaskMemory
    database: mongo.Database
    http: httpx.AsyncClient
    retries: retry.Retry
    guard: fence.Fence
    store: artifacts.Artifacts
    kb: kb_client.Client
    router: telemetry.Router
    recorder: telemetry.Recorder
    ends: float
    now: Callable[[], datetime]
    book: ledger.Ledger = field(init=False)
    loader: rules_loader.Loader = field(init=False)
    account_of: account.Account = field(init=False)
    absent_tools: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings, task = self.settings, self.task
        self.book = ledger.Ledger(self.database, self.guard, self.now, task.approvals)
        self.loader = rules_loader.Loader(
            self.kb,
            task.scope,
            self.store,
            self.retries,
            context_chars=settings.evidence_chars,
            said=conversation.Conversation(self.database, task, self.now).shown,
            task_uid=task.task_uid,
            restricted=bool(task.on_behalf_of),
        )
        changes = patches.Patches(self.database, self.guard, self.store, self.book)
        self.account_of = account.Account(
            task, self.store, self.loader, self.book, changes, model=settings.model, now=self.now
        )

    @property
    def beside(self) -> Priority:
        """Priority of queries to the knowledge base, and of a planner that is not the run's own model."""
        return beside(self.settings)

    @property
    def kinds(self) -> tuple[intent.Kind, ...]:
        """What the legacy graph works on in this run, in place of an answer."""
        limits = self.limits
        return intent.works(
            delegates=bool(limits.delegations and limits.depth), outside=bool(self.settings.sources_url)
        )

    @property
    def limits(self) -> budget.Limits:
        """What a round may take: of the settings and the task's budget the smaller ones."""
        return limits(self.settings, self.task)


def beside(settings: Settings) -> Priority:
    """Priority of the run's queries to the knowledge base, which passes it to the router for embeddings.

    A Background run uses P1 at most: the router would count a P0 of the knowledge base as a user's request.
    """
    return max(settings.priority, Priority.P1) if settings.mode is pendingtask.Mode.BACKGROUND else settings.priority


def limits(settings: Settings, task: task_memory.TaskMemory) -> budget.Limits:
    """What a round may take: of the settings and the task's budget the smaller ones."""
    own = task.budget
    return budget.Limits(
        llm_calls=_smaller(settings.max_llm_calls, own, "max_llm_calls"),
        tokens=own.max_tokens if own is not None else None,
        delegations=_smaller(settings.max_delegations, own, "max_delegations"),
        depth=_smaller(settings.max_depth, own, "max_depth"),
    )


def _smaller(setting: int, budget: pendingtask.Budget | None, name: str) -> int:
    """The smaller one of the setting of runs and the field `name` of a task's budget, where it has that."""
    own = getattr(budget, name) if budget is not None else None
    return min(setting, own) if own is not None else setting
