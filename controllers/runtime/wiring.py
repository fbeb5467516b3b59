"""The controllers, wired to each other and to the clients."""

from __future__ import annotations

import asyncio
import itertools
import time
from datetime import timedelta
from pathlib import Path

import kube
from contracts.tokens import keyring, runtoken
from controllers import backpressure, events, namespaces, projects, queue, settings
from controllers.archive import reconcile as archivist
from controllers.archive import retention
from controllers.codeanalysis import jobs, queries
from controllers.codeanalysis import reconcile as analyses
from controllers.connection import polling, removals
from controllers.connection import reconcile as connections
from controllers.delegations import reconcile as counting
from controllers.gpubackend import absence, probe
from controllers.gpubackend import reconcile as backends
from controllers.meetings import reconcile as transcriptions
from controllers.namespaces import State
from controllers.notices import mailer, sender
from controllers.notices import reconcile as notifier
from controllers.outcomes import reconcile as reporter
from controllers.pendingtask import (
    cache,
    failures,
    handover,
    reconcile,
    status_writer,
    task_index,
    transitions,
    warm_pool,
    workloads,
)
from controllers.pendingtask.decide import decide
from controllers.pendingtask.effects import executor, ingest, orphans, readings, run_token
from controllers.pendingtask.slots import router_use, scheduler, wait_conditions
from controllers.runtime import clients
from controllers.runtime.clients import wall
from controllers.sandbox import reconcile as sandboxes
from crds import scope


class Wiring:
    """All controllers. None acts before `leading` is set, once the Lease is held. `judge` decides about tasks."""

    def __init__(
        self,
        config: settings.Settings,
        to: clients.Clients,
        served: namespaces.Namespaces,
        judge: transitions.Decide = decide,
    ) -> None:
        self.config, self._to, self._served, self._monotonic = config, to, served, time.monotonic
        self.measured, self.leading = to.metrics, asyncio.Event()
        self._reports = itertools.count(1)
        self.admission = config.admitted(served.annotations)
        self._judge = judge
        self.index, self.workloads = task_index.Tasks(wall), workloads.Workloads(config.namespace)
        self._work: queue.WorkQueue[str] = queue.WorkQueue(self._monotonic)
        self.readings = readings.Readings(self._monotonic)
        self._events_and_connections()
        self._backends()
        self._tasks()
        self._housekeeping()

    def lead(self) -> None:
        """The Lease is held: let the controllers act."""
        self.measured.leader.set(1)
        self.leading.set()

    def gauges(self) -> None:
        """Update the gauges; called before each scrape."""
        self._to.metrics.epoch.set(self._to.lease.epoch)
        self._to.metrics.events_waiting.set(len(self.recorder))
        self._to.metrics.served(self._served.states())
        self.tasks.gauges()
        self.backends.gauges()
        self.connections.gauges()
        self.pool.gauges()

    async def report_namespace(self, name: str, state: namespaces.State, why: str) -> bool:
        """Post an Event on the operator's Lease: the namespace may accept none. False from a replica that stands by.

        Raises `crds.errors.JervisError`.
        """
        config = self.config
        if not self._to.lease.leading:
            return False
        about = await self._to.api.get(kube.LEASES, config.namespace, config.lease_name)
        good = state is namespaces.State.SERVED
        message = f"Namespace {name} is {state.value}" + (f": {why}" if why else ".")
        # Numbered: several namespaces are reported about one version of the Lease, and an Event's name must be its own.
        step = next(self._reports)
        self.recorder.post(about, f"Namespace{state.value.capitalize()}", message[:1000], warning=not good, step=step)
        return True

    def limits_changed(self, namespace: str) -> None:
        """What was refused may be processed now, and the other way round."""
        if self.admission is not None:
            self.tasks.handlers.limits_changed(namespace)
            self.connections.limits_changed(namespace)

    def _engaged(self) -> bool:
        return self._work.active > 0 or len(self._work) > 0

    def _events_and_connections(self) -> None:
        to = self._to
        self.recorder = events.Recorder(
            to.api,
            clock=wall,
            monotonic=self._monotonic,
            dropped=to.metrics.events_dropped.inc,
            merged=to.metrics.events_merged.inc,
        )
        self.connections = connections.Connections(
            to.api,
            work=queue.WorkQueue(self._monotonic),
            measured=to.metrics,
            leadership=to.lease,
            file_urls=self.config.connection_file_urls,
            hosts=self.config.connection_hosts,
            admitted=self.admission,
            wall=wall,
            monotonic=self._monotonic,
        )
        self.removals: removals.Removals | None = None
        if self.config.sources:
            self.connections.polling = polling.Polling(
                to.assignments,
                known=self.connections,
                complete=lambda name: self._served.states().get(name) in (State.SERVED, State.ABSENT),
                changed=self.connections.state_changed,
                absent=self.connections.absent,
                keeps=timedelta(days=self.config.unserved_days),
                wall=wall,
            )
            self.removals = removals.Removals(to.api, to.assignments)

        self.sandboxes: sandboxes.Sandboxes | None = None
        commands, signer = self.config.sandboxes(), self._signer()
        if commands is not None and signer is not None:
            self.sandboxes = sandboxes.Sandboxes(
                to.api,
                to.commands,
                commands,
                at_once=self.config.sandbox_max_jobs,
                signer=signer,
                absent=lambda namespace, uid: namespace in self._served and self.index.entry(uid) is None,
                token=lambda: to.lease.token,
                fence=to.lease.check,
                wall=wall,
            )
        self.transcriptions: transcriptions.Transcriptions | None = None
        template = self.config.transcription()
        if template is not None:
            self.transcriptions = transcriptions.Transcriptions(
                to.api,
                to.meetings,
                template,
                at_once=self.config.transcription_at_once,
                token=lambda: to.lease.token,
                fence=to.lease.check,
                measured=to.metrics,
                wall=wall,
            )

    def _backends(self) -> None:
        config, to = self.config, self._to
        self.backends = backends.Backends(
            to.api,
            probe.Probe(to.probe_http),
            namespace=config.namespace,
            gone=config.backend_gone_seconds,
            work=queue.WorkQueue(self._monotonic),
            recorder=self.recorder,
            measured=to.metrics,
            leadership=to.lease,
            interval=config.probe_seconds,
            windows=config.windows,
            wall=wall,
            monotonic=self._monotonic,
            changed=lambda: self.tasks.handlers.backends_changed(),
        )
        self.users = router_use.UserActivity(
            router_use.of_router(to.router) if config.idle_seconds else None,
            needed=lambda: self.cache.scheduler.background_waits,
            changed=lambda: self.cache.admit_waiting(),
            answered=to.metrics.router_answers.set,
            wall=wall,
            monotonic=self._monotonic,
        )
        self.served_backends = absence.ServedBackends(
            lambda name: not self.backends.serves(name),
            absence.of_router(to.router),
            booked=lambda: frozenset(run.backend for run in self.index.bookings.runs.values()) - {""},
            changed=lambda: self.tasks.handlers.backends_changed(),
            patience=config.backend_gone_seconds,
            monotonic=self._monotonic,
        )
        self.reservation = router_use.GpuReservation(
            to.router,
            owner=f"operator of {config.namespace}",
            model=config.model,
            wanted=lambda: to.lease.leading and self.index.bookings.served() and self.backends.reservable(config.model),
            monotonic=self._monotonic,
        )

    def _tasks(self) -> None:
        config, to, limits = self.config, self._to, self.config.limits()
        book = scheduler.SlotScheduler(
            self.index,
            limits,
            self.backends.offers,
            workloads=self.workloads,
            readings=self.readings,
            users=self.users,
            wall=wall,
            monotonic=self._monotonic,
        )
        self.cache = cache.TaskCache(
            to.api,
            members=self._served,
            work=self._work,
            tasks=self.index,
            workloads=self.workloads,
            book=book,
            cancel_reading=self.readings.cancel,
            monotonic=self._monotonic,
        )
        self.qualifier = ingest.Qualifier(
            to.knowledge,
            to.memory,
            readings=self.readings,
            known=config.client_terms(),
            archived=to.archive.one,
            find=self.index.get,
            fetch=self.cache.fetch,
            done=self.cache.observed,
            clock=wall,
            cluster=to.api,
            linking=self.index.links,
        )
        self.wait_conditions = wait_conditions.WaitConditions(
            self.index,
            book,
            enqueue=self.cache.enqueue,
            busy=self._work.busy,
            lasting=config.wait_reason_seconds,
            wall=wall,
            monotonic=self._monotonic,
        )
        self.pool = warm_pool.WarmPool(
            to.api,
            config.template(),
            size=config.warm_pool,
            url=config.handover_url,
            token=lambda: to.lease.token,
            measured=to.metrics,
            wall=wall,
            monotonic=self._monotonic,
            patience=config.handover_seconds,
        )
        self.handover = handover.Handover(
            to.api,
            self.pool,
            config.template(),
            account=config.job_service_account,
            signer=self._signer(),
            admitted=self.admission,
            monotonic=self._monotonic,
        )
        on_cluster = executor.ClusterEffects(
            to.api,
            to.memory,
            self.workloads,
            config.template(),
            tokens=self._run_tokens(),
            clock=wall,
            created=to.metrics.jobs_created.inc,
            token=lambda: to.lease.token,
            pool=self.pool,
            admitted=self.admission,
        )
        written = status_writer.Writer(
            to.api,
            self.cache,
            recorder=self.recorder,
            measured=to.metrics,
            leadership=to.lease,
            tracer=to.tracer,
            wall=wall,
        )
        self.analyses = self._analyses(written)
        self.tasks = reconcile.Reconciler(
            limits,
            self.cache,
            reader=workloads.WorkloadReader(to.api, to.memory, self.workloads),
            qualifier=self.qualifier,
            readings=self.readings,
            written=written,
            effects=executor.EffectExecutor(
                on_cluster, self.qualifier, self.cache, measured=to.metrics, monotonic=self._monotonic
            ),
            failing=failures.Failures(
                to.api,
                self.cache,
                recorder=self.recorder,
                measured=to.metrics,
                epoch=lambda: to.lease.epoch,
                wall=wall,
            ),
            admitted=self.admission,
            traced=to.tracer.trace_id,
            measured=to.metrics,
            backend_gone_in=self.served_backends.gone_in,
            wall=wall,
            monotonic=self._monotonic,
            judge=self._judge,
        )

    def _analyses(self, written: status_writer.Writer) -> analyses.Analyses:
        """Of repositories that tasks name; where nothing can be cloned, tasks learn that."""
        config, to, made, asked = self.config, self._to, None, None
        template, signer = config.code_analysis(), self._signer()
        if template is not None and signer is not None:
            made = jobs.Jobs(to.api, template, signer=signer, token=lambda: to.lease.token, measured=to.metrics)
            if config.joern_ad_hoc_queries and template.joern:
                asked = queries.Queries(to.knowledge, made, find=self.connections.find, measured=to.metrics)
        return analyses.Analyses(
            to.api,
            self.cache,
            written,
            made,
            asked,
            at_once=config.joern_max_jobs,
            find=self.connections.find,
            measured=to.metrics,
            wall=wall,
        )

    async def _regroup(self, project: scope.Scope) -> int:
        return (await self._to.knowledge.projects.regroup(project)).documents

    def _run_tokens(self) -> run_token.RunTokens:
        return run_token.RunTokens(self._to.api, self.workloads, self.config.template(), self._signer())

    def _signer(self) -> runtoken.Signer | None:
        keys = self.config.run_token_keys
        return runtoken.Signer(keyring.Keyring(Path(keys), self._monotonic), wall) if keys else None

    def _housekeeping(self) -> None:
        """Orphaned runs, the archive, the reports of outcomes, the totals of delegations, and notices."""
        config, to = self.config, self._to
        throttle = backpressure.Backpressure(self._engaged, monotonic=self._monotonic)
        self.orphans = orphans.Orphans(
            to.api,
            self.index,
            self.workloads,
            members=self._served,
            changed=self.cache.admit_waiting,
            wall=wall,
        )
        self.archivist = archivist.Archivist(
            to.api,
            to.archive,
            namespaces=self._served,
            runs=config.namespace,
            terms=config.terms(),
            pace=config.pace(),
            kept=retention.Retention(
                to.api,
                to.archive,
                config.periods(),
                live=lambda uid: self.index.entry(uid) is not None or self.workloads.present(uid),
                lease=lambda: to.lease.token.lease_created,
                measured=to.metrics,
            ),
            ran=self.workloads.ran,
            measured=to.metrics,
            wall=wall,
            throttle=throttle,
            busy=self._work.busy,
            monotonic=self._monotonic,
        )
        self.notifier = notifier.Notifier(
            self.index,
            to.archive,
            to.outbox,
            to.knowledge.rules.in_force,
            sender.Sender(
                to.webhooks,
                secret=sender.key_file(config.notice_secret_file),
                mail=mailer.Mailer(config.mail_server(), wall=wall),
            ),
            namespaces=self._served,
            admitted=self.admission,
            pace=config.notice_pace(),
            measured=to.metrics,
            wall=wall,
        )
        self.projects = projects.Projects(self._regroup, admitted=self.admission, measured=to.metrics, wall=wall)
        self.reporter = reporter.Reporter(
            to.archive,
            to.knowledge.learning.outcome,
            namespaces=self._served,
            admitted=self.admission,
            pace=config.outcome_pace(),
            measured=to.metrics,
            wall=wall,
            throttle=throttle,
        )
        self.counting = counting.Counting(to.delegations, measured=to.metrics)
