"""What is watched, in the order in which it is read at the start."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from controllers import kube, settings, stream, watches
from controllers.pendingtask import job as jobs
from controllers.runtime import outside, parts
from crds import phases

DEAD = 0.9
"""Of the silence after which liveness gives a watch up: it is opened anew before that. A quiet one is ended by the
server long before."""

Kind = tuple[str, str, str]
"""(group, version, plural)."""
Hearer = Callable[[Kind], stream.Heard]
"""Who takes in the events of a kind; raises LookupError when nobody does."""


def streams(
    config: settings.Settings, to: outside.Outside, acting: parts.Parts, beats: watches.Beats, hearer: Hearer
) -> list[stream.Stream]:
    """One per kind and namespace, none of them read yet."""

    def nothing(_: str) -> Iterator[kube.Object]:
        """A pod that went away unseen and held a slot is found by `orphans`, and by each look at its task."""
        return iter(())

    ours, unfinished = jobs.UID_LABEL, phases.UNFINISHED
    kinds = (
        (kube.BACKENDS, "", "", acting.backends.known),
        (kube.CONNECTIONS, "", "", acting.connections.known),
        (kube.TASKS, "", unfinished, acting.index.known),
        (kube.JOBS, ours, "", acting.workloads.known_jobs),
        (kube.PODS, ours, "", nothing),
    )
    return [
        stream.Stream(
            to.api,
            stream.Source(resource, namespace, labels, fields),
            heard=hearer(resource.kind),
            known=functools.partial(known, namespace),
            beats=beats,
            silence=DEAD * config.watch_silence_seconds,
            failed=to.metrics.failures.inc,
        )
        for namespace in config.namespaces
        for resource, labels, fields, known in kinds
    ]
