"""The controllers, wired to each other and to what is outside."""

from __future__ import annotations

import time

from controllers import courtesy, events, queue, settings
from controllers.archive import reconcile as archivist
from controllers.connection import reconcile as connections
from controllers.gpubackend import reconcile as backends
from controllers.outcomes import reconcile as reporter
from controllers.pendingtask import (
    activity,
    attention,
    effects,
    index,
    order,
    orphans,
    performer,
    qualification,
    reconcile,
    reservation,
    rooms,
    surroundings,
    writer,
)
from controllers.runtime import outside
from controllers.runtime.outside import wall


class Parts:
    """Everything that acts. Nothing does before its `may_act` is set, once the Lease is held."""

    def __init__(self, config: settings.Settings, to: outside.Outside) -> None:
        self._config, self._to, self._monotonic = config, to, time.monotonic
        self.index, self.workloads = index.Tasks(wall), index.Workloads()
        self._work: queue.WorkQueue[str] = queue.WorkQueue(
            self._monotonic,
            config.queue_capacity,
            yielding=lambda rank: order.Order(*rank).lane != 0,
            at_once=config.background_workers,
        )
        self._around_tasks()
        self._backends()
        self._tasks()
        self._after_tasks()

    def lead(self) -> None:
        """The Lease is held."""
        self._to.metrics.leader.set(1)
        for controller in (self.tasks, self.backends, self.connections, self.archivist, self.reporter):
            controller.may_act.set()

    def gauges(self) -> None:
        """Bring the gauges up to date; called before a scrape."""
        self._to.metrics.epoch.set(self._to.lease.epoch)
        self._to.metrics.events_waiting.set(len(self.poster))
        self.tasks.gauges()
        self.backends.gauges()

    def _engaged(self) -> bool:
        return self._work.active > 0 or len(self._work) > 0

    def _around_tasks(self) -> None:
        to = self._to
        self.poster = events.Poster(
            to.api,
            clock=wall,
            monotonic=self._monotonic,
            dropped=to.metrics.events_dropped.inc,
            merged=to.metrics.events_merged.inc,
            busy=lambda: self.known.busy(),
        )
        self.connections = connections.Connections(
            to.api,
            work=queue.WorkQueue(self._monotonic),
            measured=to.metrics,
            leadership=to.lease,
            wall=wall,
            monotonic=self._monotonic,
        )

    def _backends(self) -> None:
        config, to = self._config, self._to
        self.backends = backends.Backends(
            to.api,
            to.probe_http,
            work=queue.WorkQueue(self._monotonic),
            poster=self.poster,
            measured=to.metrics,
            leadership=to.lease,
            interval=config.probe_seconds,
            wall=wall,
            monotonic=self._monotonic,
            changed=lambda: self.tasks.inbox.backends_changed(),
        )
        self.users = activity.Users(
            activity.of_router(to.router) if config.idle_seconds else None,
            needed=lambda: self.known.rooms.background_waits,
            changed=lambda: self.known.call_rooms(),
            heard=to.metrics.router_answers.set,
            wall=wall,
            monotonic=self._monotonic,
        )
        self.reservation = reservation.Keeper(
            to.router,
            owner=f"operator of {config.namespace}",
            model=config.model,
            wanted=lambda: to.lease.leading and self.index.bookings.served() and self.backends.reservable(config.model),
            monotonic=self._monotonic,
        )

    def _tasks(self) -> None:
        config, to, limits = self._config, self._to, self._config.limits()
        book = rooms.Rooms(
            self.index,
            limits,
            self.backends.offers,
            workloads=self.workloads,
            users=self.users,
            wall=wall,
            monotonic=self._monotonic,
        )
        self.known = attention.Attention(
            to.api, work=self._work, tasks=self.index, workloads=self.workloads, book=book, monotonic=self._monotonic
        )
        self.qualifier = qualification.Qualifier(
            to.knowledge,
            to.memory,
            known=config.client_terms(),
            fetch=self.known.fetch,
            done=self.known.observed,
            clock=wall,
            monotonic=self._monotonic,
        )
        self.known.forgotten = self.qualifier.cancel
        book.reading = self.qualifier.running
        on_cluster = effects.Effects(
            to.api,
            to.memory,
            self.workloads,
            config.template(),
            clock=wall,
            created=to.metrics.jobs_created.inc,
            token=lambda: to.lease.token,
        )
        self.tasks = reconcile.Reconciler(
            limits,
            self.known,
            around=surroundings.Surroundings(to.api, to.memory, self.workloads),
            qualifier=self.qualifier,
            written=writer.Writer(
                to.api,
                self.known,
                poster=self.poster,
                measured=to.metrics,
                leadership=to.lease,
                tracer=to.tracer,
                wall=wall,
            ),
            performed=performer.Performer(
                on_cluster, self.qualifier, self.known, measured=to.metrics, monotonic=self._monotonic
            ),
            traced=to.tracer.trace_id,
            measured=to.metrics,
            backend_gone_in=self.backends.gone_in,
            wall=wall,
            monotonic=self._monotonic,
        )

    def _after_tasks(self) -> None:
        """Keeping house, and what finished tasks lead to."""
        config, to = self._config, self._to
        polite = courtesy.Courtesy(self._engaged, monotonic=self._monotonic)
        self.orphans = orphans.Orphans(
            to.api, config.namespaces, self.index, self.workloads, changed=self.known.call_rooms, wall=wall
        )
        self.archivist = archivist.Archivist(
            to.api,
            to.archive,
            namespaces=config.namespaces,
            terms=config.terms(),
            pace=config.pace(),
            ran=self.workloads.ran,
            measured=to.metrics,
            wall=wall,
            polite=polite,
            busy=self.known.busy,
        )
        self.reporter = reporter.Reporter(
            to.archive,
            to.knowledge.learning.outcome,
            namespaces=config.namespaces,
            pace=config.outcome_pace(),
            measured=to.metrics,
            wall=wall,
            polite=polite,
        )
