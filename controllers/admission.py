"""What a namespace may have: the limits of the chart's admission policies, for objects that no policy has seen.

The apiserver asks the policies when an object is created in a namespace that is served. What was there before, and what
was created while a policy was away, is judged here by the same limits: `admission.namespaces` of the chart, then the
annotations of the Namespace, then `admission.limits`. An empty list takes everything, an empty annotation nothing. A
Namespace that cannot be read allows nothing that its annotations could forbid.

Sizes are the apiserver's matter alone: what is stored is stored. Source: docs/admission.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from crds import flags, order, pendingtask, permits
from crds.pendingtask import NotAllowed
from crds.permits import Bound

CLIENTS, MODES = "jervis.dev/clients", "jervis.dev/modes"
"""Annotations of a Namespace: names with commas between them."""
_ASK = "or ask for it in the chart value admission.namespaces"
_LAST_POSITION = 1_000_000
"""The largest that the CRD takes."""

Annotations = Callable[[str], Mapping[str, str] | None]
"""Those of a Namespace; None while it has not been read."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an object is not processed; `message` names the field and the remedy."""

    reason: NotAllowed
    message: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one namespace; None: it says nothing of its own. An empty list takes everything.

    `queue_position`: whether one may be given, or the lowest that may. `task_flags`: whether tasks may choose the
    feature flags of their runs. `permits`: within which the permits of tasks have to be; an empty list takes none.
    """

    types: tuple[str, ...] | None = None
    clients: tuple[str, ...] | None = None
    modes: tuple[str, ...] | None = None
    queue_position: bool | int | None = None
    task_flags: bool | None = None
    permits: tuple[Bound, ...] | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """`default` is of every namespace that has nothing in `own`; `annotations` reads a Namespace's."""

    annotations: Annotations
    default: Limits = Limits()
    own: Mapping[str, Limits] = field(default_factory=dict)

    def refuses(self, task: pendingtask.PendingTask) -> Refusal | None:
        """Why that task is not processed; None: it may be."""
        namespace, spec = task.metadata.namespace, task.spec
        return (
            self.refuses_client(namespace, spec.client_id)
            or self._type(namespace, spec)
            or self._mode(namespace, spec)
            or self._position(namespace, spec)
            or self._permits(namespace, spec)
        )

    def refuses_client(self, namespace: str, client_id: str) -> Refusal | None:
        """Why nothing of that client is processed there; None: it may be."""
        own = self._of(namespace).clients
        allowed = own if own is not None else self._annotated(namespace, CLIENTS, self.default.clients)
        if allowed is None:
            return _unread(namespace)
        if not allowed or client_id in allowed:
            return None
        return Refusal(
            NotAllowed.CLIENT,
            f"spec.clientId: {client_id} is not a client of namespace {namespace}; create it anew with one of"
            f" [{', '.join(allowed)}], {_ASK} or the annotation {CLIENTS} of the namespace.",
        )

    def permits_flags(self, namespace: str) -> bool:
        """Whether tasks there may choose the feature flags of their runs; not unless a limit says so."""
        own = self._of(namespace).task_flags
        return bool(self.default.task_flags if own is None else own)

    def _type(self, namespace: str, spec: pendingtask.Spec) -> Refusal | None:
        own = self._of(namespace).types
        allowed = own if own is not None else self.default.types or ()
        if not allowed or spec.type in allowed:
            return None
        return Refusal(
            NotAllowed.TYPE,
            f"spec.type: {spec.type} is not taken in namespace {namespace}; create the task anew as"
            f" {', '.join(allowed)}, {_ASK}.",
        )

    def _mode(self, namespace: str, spec: pendingtask.Spec) -> Refusal | None:
        own = self._of(namespace).modes
        allowed = own if own is not None else self._annotated(namespace, MODES, self.default.modes)
        if allowed is None:
            return _unread(namespace)
        mode = pendingtask.Mode.FOREGROUND if order.foreground(spec) else spec.mode
        if not allowed or mode in allowed:
            return None
        chat = spec.type in order.CHAT
        what = f"spec.type: {spec.type} is always Foreground, which is" if chat else f"spec.mode: {mode} is"
        more = " with another type in a new task" if chat else ""
        return Refusal(
            NotAllowed.MODE,
            f"{what} not for namespace {namespace}; use mode {', '.join(allowed)}{more}, {_ASK} or the annotation"
            f" {MODES} of the namespace.",
        )

    def _position(self, namespace: str, spec: pendingtask.Spec) -> Refusal | None:
        own, given = self._of(namespace).queue_position, spec.queue_position
        first = own if own is not None else self.default.queue_position
        if given is None or first is None or first is True:
            return None
        lowest = _LAST_POSITION + 1 if first is False else first
        if given >= lowest:
            return None
        use = "leave it out" if lowest > _LAST_POSITION else f"use {lowest} or more, or leave it out"
        return Refusal(
            NotAllowed.POSITION, f"spec.queuePosition: {given} is not for namespace {namespace}; {use}, {_ASK}."
        )

    def _permits(self, namespace: str, spec: pendingtask.Spec) -> Refusal | None:
        own = self._of(namespace).permits
        bounds = own if own is not None else self.default.permits
        if bounds is None:
            return None
        for number, permit in enumerate(spec.permits):
            if not any(bound.takes(permit) for bound in bounds):
                return Refusal(
                    NotAllowed.PERMIT,
                    f"spec.permits[{number}]: {permits.text(permit)[:300]} is more than namespace {namespace} may"
                    f" permit; leave it out and approve what waits, {_ASK}.",
                )
        return None

    def _of(self, namespace: str) -> Limits:
        return self.own.get(namespace, _NOTHING)

    def _annotated(self, namespace: str, name: str, default: Collection[str] | None) -> tuple[str, ...] | None:
        """The annotation as a list, else the default; None while the Namespace has not been read."""
        found = self.annotations(namespace)
        if found is None:
            return None
        return tuple(one.strip() for one in found[name].split(",")) if name in found else tuple(default or ())


_NOTHING = Limits()


def flags_of(admitted: Admission | None, task: pendingtask.PendingTask) -> flags.Chosen:
    """The feature flags that a task chooses for its runs; without limits of namespaces none may."""
    meta = task.metadata
    permitted = admitted is not None and admitted.permits_flags(meta.namespace)
    return flags.chosen(meta.annotations, meta.namespace, task.spec.type, permitted=permitted)


def _unread(namespace: str) -> Refusal:
    return Refusal(
        NotAllowed.UNKNOWN,
        f"metadata.namespace: which clients and modes namespace {namespace} may have is not known, as its Namespace"
        " cannot be read; give the operator's account the right to get it, as the chart's Role does.",
    )
