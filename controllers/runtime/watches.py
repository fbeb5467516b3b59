"""What is watched: our kinds by kopf, compared by `resync`; Jobs and pods by `stream`; Namespaces that come and go."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import kube
from controllers import namespaces, resync, settings
from controllers.namespaces import Change
from controllers.runtime import clients, handlers, wiring
from crds import labels, phases
from kube import beats, stream

DEAD = 0.9
"""Of the silence after which liveness gives a watch up: it is opened anew before that. A quiet one is ended by the
server long before."""
OURS = (kube.BACKENDS, kube.CONNECTIONS, kube.TASKS)


def kinds(acting: wiring.Wiring, takes: handlers.Handlers) -> tuple[resync.Kind, ...]:
    """Our kinds, in the order in which they are compared."""
    tasks, backends, connections = acting.cache, acting.backends, acting.connections
    return (
        resync.Kind(kube.BACKENDS, takes.backend, backends.known, backends.version, backends.leave),
        resync.Kind(kube.CONNECTIONS, takes.connection, connections.known, connections.version, connections.leave),
        resync.Kind(
            kube.TASKS, takes.task, tasks.tasks.known, tasks.tasks.version, tasks.leave, fields=phases.UNFINISHED
        ),
    )


def expect(answers: beats.Beats, members: namespaces.Namespaces) -> None:
    """Add every watch that kopf has to the liveness check."""
    for place in (None,) if members.scope.everywhere else tuple(members):
        for resource in OURS:
            answers.expect(resource.path(place))


def runs(
    config: settings.Settings,
    to: clients.Clients,
    takes: handlers.Handlers,
    acting: wiring.Wiring,
    answers: beats.Beats,
) -> list[stream.Stream]:
    """The streams of Jobs and pods, warm ones included, none of them read yet."""

    def known_jobs(namespace: str) -> Iterator[Mapping[str, Any]]:
        return itertools.chain(acting.workloads.known_jobs(namespace), acting.pool.known_jobs())

    def known_pods(_: str) -> Iterator[Mapping[str, Any]]:
        """A run's pod that went away unseen and held a slot is found by `orphans`, and by each reconciliation of its
        task."""
        return acting.pool.known_pods()

    both = ((kube.JOBS, takes.job, known_jobs), (kube.PODS, takes.pod, known_pods))
    return [
        _stream(
            config,
            to,
            answers,
            stream.Source(resource, config.namespace, labels.TASK_UID),
            feed,
            functools.partial(known, config.namespace),
        )
        for resource, feed, known in both
    ]


class NamespaceWatch:
    """Namespaces that join and leave: the objects of the former are read, those of the latter are forgotten."""

    def __init__(
        self,
        members: namespaces.Namespaces,
        compared: resync.Resync,
        answers: beats.Beats,
        limits_changed: Callable[[str], None],
    ) -> None:
        self.members, self._resync, self._beats, self._limits_changed = members, compared, answers, limits_changed

    def observe(self, kind: str, raw: kube.Object) -> None:
        """An event of a Namespace with the scope's labels."""
        change, name = self.members.observe(kind, raw), raw["metadata"]["name"]
        if change is Change.JOINED:
            self._resync.due(name)
        elif change is Change.LEFT:
            self._resync.forget(name)
        elif change is Change.LIMITS:
            self._limits_changed(name)
        if not self.members.scope.everywhere and change in (Change.JOINED, Change.LEFT):
            for resource in OURS:
                adjust = self._beats.expect if change is Change.JOINED else self._beats.drop
                adjust(resource.path(name))


def namespace_watch(
    config: settings.Settings, to: clients.Clients, members: NamespaceWatch, answers: beats.Beats
) -> stream.Stream | None:
    """The stream of Namespaces, metadata only; None when all are known by name."""
    scope = members.members.scope
    if scope.fixed:
        return None
    source = stream.Source(kube.NAMESPACES, None, scope.labels, metadata=True)
    return _stream(config, to, answers, source, members.observe, members.members.known)


def _stream(
    config: settings.Settings,
    to: clients.Clients,
    answers: beats.Beats,
    source: stream.Source,
    feed: stream.OnObject,
    known: Callable[[], Iterator[Mapping[str, Any]]],
) -> stream.Stream:
    answers.expect(source.path)
    return stream.Stream(
        to.api,
        source,
        on_object=feed,
        known=known,
        answers=answers,
        silence=DEAD * config.watch_silence_seconds,
        failed=to.metrics.failures.inc,
    )
