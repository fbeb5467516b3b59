"""The operator's metrics (operator.md point 15). The registry is an argument; nothing is registered at import."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controllers.delegations import totals
from crds import pendingtask

_PREFIX = "jervis_operator"
_KINDS = ("pendingtasks", "connections", "gpubackends")


class Metrics:
    """One attribute per metric family; names start with jervis_operator_, those of the pool with jervis_warm_pool_."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.queue_depth = Gauge(
            f"{_PREFIX}_queue_depth", "Tasks that wait for a reconcile", ["lane"], registry=registry
        )
        self.queue_sleeping = Gauge(
            f"{_PREFIX}_queue_sleeping", "Tasks whose next reconcile has a time", registry=registry
        )
        self.waiting = Gauge(f"{_PREFIX}_waiting", "Tasks in a wait queue", ["queue"], registry=registry)
        self.waiting_reasons = Gauge(
            f"{_PREFIX}_waiting_reasons",
            "Waiting tasks by reason",
            ["lane", "reason"],
            registry=registry,
        )
        self.oldest = Gauge(
            f"{_PREFIX}_waiting_oldest_seconds",
            "Longest time of a waiting task in its phase; held ones do not count",
            ["lane", "phase"],
            registry=registry,
        )
        self.tasks = Gauge(f"{_PREFIX}_tasks", "Unfinished tasks by phase", ["phase"], registry=registry)
        self.namespaces = Gauge(
            f"{_PREFIX}_namespace",
            "1 for the state of each namespace: served, partial, forbidden (403), absent, pending before an answer",
            ["name", "state"],
            registry=registry,
        )
        self.corrections = Counter(
            f"{_PREFIX}_corrections",
            "Changes found by a list and reported by no event: objects deleted, versions missed",
            ["kind", "what"],
            registry=registry,
        )
        for kind, what in itertools.product(_KINDS, ("deleted", "missed")):
            self.corrections.labels(kind, what)  # a series that began with 1 would show no increase
        self.loop_lag = Gauge(f"{_PREFIX}_loop_lag_seconds", "Delay of the event loop", registry=registry)
        self.watch_age = Gauge(
            f"{_PREFIX}_watch_age_seconds", "Time since the watch last received something", ["watch"], registry=registry
        )
        self.api = Counter(f"{_PREFIX}_api_requests", "Kubernetes API calls", ["verb", "code"], registry=registry)
        self.transitions = Counter(f"{_PREFIX}_transitions", "Phase changes", ["source", "target"], registry=registry)
        self.retries = Counter(f"{_PREFIX}_retries", "Postponed tries by reason", ["reason"], registry=registry)
        self.directives = Counter(
            f"{_PREFIX}_directives",
            "Routed tasks by the decision of qualification: InfoOnly, Execute, ExecuteHigh, Defer, Ask, Fail",
            ["action"],
            registry=registry,
        )
        for action in pendingtask.Decision:
            self.directives.labels(action.value)
        self.approvals = Histogram(
            f"{_PREFIX}_approval_seconds",
            "From a request of approval to its decision; about effects or an answer",
            ["about"],
            buckets=(60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600),
            registry=registry,
        )
        self.plans = Counter(
            f"{_PREFIX}_plans",
            "Ended runs by what became of their plan: Made, Amended, Failed; others made none",
            ["outcome"],
            registry=registry,
        )
        for outcome in pendingtask.PlanOutcome:
            self.plans.labels(outcome.value)
        self.conflicts = Counter(f"{_PREFIX}_conflicts", "Writes that lost to a newer version", registry=registry)
        self.failures = Counter(
            f"{_PREFIX}_reconcile_failures", "Reconciles that ended in an error of ours", registry=registry
        )
        self.undecided = Counter(
            f"{_PREFIX}_undecided",
            "Tasks handed to a person after errors of ours in a row (failed), or that cannot be parsed (unreadable),"
            " and objects whose status was forged (forged)",
            ["why"],
            registry=registry,
        )
        for why in ("failed", "unreadable", "forged"):
            self.undecided.labels(why)
        self.loop_seconds = Histogram(
            f"{_PREFIX}_loop_seconds",
            "One pass of a loop, its waits included",
            ["loop"],
            registry=registry,
            buckets=(0.01, 0.1, 1, 10, 60),
        )
        self.loop_errors = Counter(
            f"{_PREFIX}_loop_errors",
            "Passes of loops that ended in an error: operational (again later), permanent (an input has to change),"
            " failed (an error of ours)",
            ["loop", "retry"],
            registry=registry,
        )
        self.reconcile = Histogram(
            f"{_PREFIX}_reconcile_seconds",
            "One reconcile of one task",
            registry=registry,
            buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
        )
        self.slots = Gauge(f"{_PREFIX}_gpu_slots", "GPU slots", ["state"], registry=registry)
        self.qualifying = Gauge(f"{_PREFIX}_qualifying", "Running qualifications", registry=registry)
        self.leader = Gauge(f"{_PREFIX}_leader", "1 while this replica holds the lease", registry=registry)
        self.epoch = Gauge(f"{_PREFIX}_leader_epoch", "leaseTransitions of the lease held", registry=registry)
        self.breaker = Gauge(
            f"{_PREFIX}_dispatch_breaker_open", "1 while no run is dispatched after failures", registry=registry
        )
        self.preemptions = Counter(
            f"{_PREFIX}_preemptions",
            "Background runs asked to give their slot to a user's task: claimed, withdrawn before they had to",
            ["outcome"],
            registry=registry,
        )
        self.preemption_issued = Histogram(
            f"{_PREFIX}_preemption_issue_seconds",
            "From a user's task that finds no slot until a Background run is asked to stop",
            registry=registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
        )
        self.preemption_immune = Gauge(
            f"{_PREFIX}_preemption_immune",
            "Background runs that are not preempted any more: claimed too often",
            registry=registry,
        )
        self.router_answers = Gauge(
            f"{_PREFIX}_router_answers",
            "0 while the router does not report when it last served a user; queried only while Background work waits",
            registry=registry,
        )
        self.router_answers.set(1)
        self.transcriptions = Counter(
            f"{_PREFIX}_transcriptions",
            "Jobs that transcribe meetings, by outcome (begun; JobFailed, DeadlineExceeded, JobLost, JobRefused cost"
            " a try)",
            ["outcome"],
            registry=registry,
        )
        self.code_analyses = Counter(
            f"{_PREFIX}_code_analyses",
            "Analyses of repositories, by outcome (begun; Succeeded, or the reason of the condition CodeAnalyzed)",
            ["outcome"],
            registry=registry,
        )
        self.code_jobs = Gauge(f"{_PREFIX}_code_jobs", "Jobs that analyze repositories now", registry=registry)
        self.cluster_reads = Counter(
            f"{_PREFIX}_cluster_reads",
            "Requests of runs for the state of their namespace or a log, by outcome (ok, refused, away, failed)",
            ["what", "outcome"],
            registry=registry,
        )
        self.jobs_created = Counter(f"{_PREFIX}_jobs_created", "Jobs created", registry=registry)
        self.warm_idle = Gauge("jervis_warm_pool_idle", "Pods that wait for a task", registry=registry)
        self.warm_claimed = Counter("jervis_warm_pool_claimed", "Runs that got a waiting pod", registry=registry)
        self.warm_untaken = Counter(
            "jervis_warm_pool_untaken", "Waiting pods that did not take the run that they got", registry=registry
        )
        self.warm_misses = Counter(
            "jervis_warm_pool_misses", "Runs that found no waiting pod in a pool with a size above 0", registry=registry
        )
        self.events_dropped = Counter(
            f"{_PREFIX}_events_dropped",
            "Transitions without an Event: refused, or the apiserver was unavailable for a minute",
            registry=registry,
        )
        self.events_merged = Counter(
            f"{_PREFIX}_events_merged",
            "Transitions reported in the Event of a later one of their object",
            registry=registry,
        )
        self.events_waiting = Gauge(
            f"{_PREFIX}_events_waiting", "Objects whose Events are not posted yet", registry=registry
        )
        self.finished = Gauge(
            f"{_PREFIX}_finished_tasks", "Finished tasks that are still objects", ["archived"], registry=registry
        )
        self.archived = Counter(f"{_PREFIX}_archived", "Finished tasks archived", registry=registry)
        self.deleted = Counter(f"{_PREFIX}_deleted", "Archived tasks deleted", ["why"], registry=registry)
        self.swept = Counter(
            f"{_PREFIX}_swept_documents", "Documents of runs removed from MongoDB", ["collection"], registry=registry
        )
        self.archive_up = Gauge(
            f"{_PREFIX}_archive_up", "0 while MongoDB does not answer: nothing is deleted then", registry=registry
        )
        self.archive_up.set(1)  # a replica that does not lead does not ask
        self.archive_rejected = Gauge(
            f"{_PREFIX}_archive_rejected", "Finished tasks that cannot be archived and stay", registry=registry
        )
        self.removal_held = Gauge(
            f"{_PREFIX}_removal_held",
            "1 while a sweep would remove more than removalPercent at once, and removes none of it: history, abandoned",
            ["what"],
            registry=registry,
        )
        self.clock_skew = Gauge(
            f"{_PREFIX}_clock_skew_seconds",
            "By how much this process's clock is ahead of the apiserver's; beyond 300 either way nothing is deleted",
            registry=registry,
        )
        self.outcomes = Counter(
            f"{_PREFIX}_outcomes",
            "Finished runs reported to the knowledge base: remembered, insignificant, refused; or postponed",
            ["told"],
            registry=registry,
        )
        self.notices = Counter(
            f"{_PREFIX}_notices",
            "Calls of webhooks and mails about tasks: delivered, postponed, given_up",
            ["result"],
            registry=registry,
        )
        self.notices_waiting = Gauge(
            f"{_PREFIX}_notices_waiting",
            "Notices that their webhooks or the mail server have not taken yet",
            registry=registry,
        )
        self.regroups = Counter(
            f"{_PREFIX}_regroups",
            "Projects whose data the knowledge base took into their group: moved, unchanged, refused; or postponed",
            ["result"],
            registry=registry,
        )
        self.backends = Gauge(f"{_PREFIX}_gpu_backends", "GpuBackends by readiness", ["ready"], registry=registry)
        self.connections = Gauge(
            f"{_PREFIX}_connections",
            "Connections by type, readiness (true, false, unknown) and the reason for it",
            ["type", "ready", "reason"],
            registry=registry,
        )
        self.connection_items = Gauge(
            f"{_PREFIX}_connection_items",
            "Items of sources by type of Connection and state (new, indexing, indexed, failed)",
            ["type", "state"],
            registry=registry,
        )
        self.connection_success = Gauge(
            f"{_PREFIX}_connection_success_age_seconds",
            "Longest time since a Connection was polled with success (since it was created, before the first one)",
            ["type"],
            registry=registry,
        )
        self.connection_lag = Gauge(
            f"{_PREFIX}_connection_lag_seconds",
            "Longest time that an item of a source has waited for its task",
            ["type"],
            registry=registry,
        )
        self.delegations = totals.Exported(registry, _PREFIX)
        self.probes = Counter(f"{_PREFIX}_backend_probes", "Probes of backends", ["outcome"], registry=registry)

    def decided(self, asked: pendingtask.UserTask | None, since: datetime | None, now: datetime) -> None:
        """A request of approval has got its decision, by a person or by its policy."""
        if asked is not None and asked.kind is pendingtask.UserTaskKind.APPROVAL and since is not None:
            about = "effects" if asked.effects else "answer"
            self.approvals.labels(about).observe(max(0.0, (now - since).total_seconds()))

    def preempted(self, claimed: bool, target: str | None) -> None:
        """A claim on a slot was written, or taken away: with a step to another phase, it has done its work."""
        if claimed:
            self.preemptions.labels("claimed").inc()
        elif target is None:
            self.preemptions.labels("withdrawn").inc()

    def served(self, states: Mapping[str, str]) -> None:
        """The state of each namespace, by name; those that are not named are forgotten."""
        self.namespaces.clear()
        for name, state in states.items():
            self.namespaces.labels(name, state).set(1)

    def corrected(self, plural: str, what: str) -> None:
        """An object was found deleted, or in a version that no event had brought."""
        self.corrections.labels(plural, what).inc()

    def call(self, verb: str, code: int) -> None:
        """One answer of the Kubernetes API; code 0: none came."""
        self.api.labels(verb, str(code)).inc()
