"""Reading a namespace within bounds: at most some hundred objects of a kind are looked at, and what is not is said.

An object may have as many bytes as the apiserver takes, so bytes are bounded as well: of an answer, and of what is kept
of a kind. One kind is read after another, and texts are filtered of those objects alone that are shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import orjson

import kube
from contracts.api import cluster_state as wire
from contracts.api.cluster_state import Part
from controllers.clusterstate import hiding, reduce

LOOKED_AT = 500
"""Objects of a kind."""
EVENTS_LOOKED_AT = 2000
"""The apiserver has Events in the order of their names, so that the latest may stand anywhere."""
PAGE = 100
"""Objects that are asked for at once; fewer where these have too many bytes."""
PAGE_BYTES = 2 << 20
LIST_BYTES = 4 << 20
"""Of a kind, without annotations."""
REQUESTS = 24
"""For one kind."""
LOG_BYTES = 256 << 10
"""The most that is asked of a log; then fewer lines are asked for."""
EVERYWHERE = "*"
_WORKLOADS = {
    "Deployment": kube.DEPLOYMENTS, "StatefulSet": kube.STATEFUL_SETS, "DaemonSet": kube.DAEMON_SETS,
    "Job": kube.JOBS, "CronJob": kube.CRON_JOBS,
}  # fmt: skip
_PLAIN = frozenset(
    {
        "Endpoints", "EndpointSlice", "HorizontalPodAutoscaler", "Ingress", "Namespace", "NetworkPolicy", "Node",
        "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget", "ResourceQuota", "Service",
        "ServiceAccount",
    }
)  # fmt: skip
"""Kinds without a pod in their specification."""
_T = TypeVar("_T")
_Make = Callable[[hiding.Hidden], Any]
"""Makes what is shown of an object, with its texts."""
_Order = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Allowed:
    """Whose state may be read. `own` is the release's namespace, where the runs of all tasks are: it counts only where
    `namespaces` names it. No `namespaces`: all others. `logs`: namespaces whose logs may be read, too; `*`: all whose
    state may be."""

    own: str
    namespaces: frozenset[str] = frozenset()
    logs: frozenset[str] = frozenset()

    def state(self, namespace: str) -> bool:
        """Whether its state may be read."""
        return namespace in self.namespaces if self.namespaces else namespace != self.own

    def log(self, namespace: str) -> bool:
        """Whether logs of its pods may be read."""
        return self.state(namespace) and bool({namespace, EVERYWHERE} & self.logs)


@dataclass(frozen=True, slots=True)
class Asked:
    """`name` is a part of the names of things, "" for all; of Events, of the name of their object."""

    namespace: str
    parts: Collection[Part]
    name: str = ""
    limit: int = wire.USUAL


@dataclass(slots=True)
class _Some:
    """What a list had: `more` says why there is more, `count` how much, as far as the apiserver says."""

    items: list[kube.Object]
    more: str = ""
    count: int = 0


class Reading:
    """Reads what `allowed` admits. Raises `crds.errors.JervisError` of the apiserver, where nothing can be read."""

    def __init__(self, api: kube.Kube, allowed: Allowed) -> None:
        self._api, self.allowed = api, allowed

    async def state(self, asked: Asked) -> wire.State:
        """The parts that are asked for, each as far as it can be read."""
        namespace, logs = asked.namespace, self.allowed.log(asked.namespace)
        wanted = set(asked.parts)
        # Messages of Events quote what pods and their templates have in their specification.
        events = Part.EVENTS in wanted
        pods = await self._list(kube.PODS, namespace) if events or Part.PODS in wanted else _Some([])
        workloads = await self._workloads(namespace) if events or Part.WORKLOADS in wanted else {}
        hidden = hiding.Hidden(
            [
                *(one.get("spec") or {} for one in pods.items),
                *(spec for some in workloads.values() for spec in _specs(some)),
            ]
        )
        made: dict[str, Any] = {}
        every: list[_Make]
        if Part.PODS in wanted:
            every = [partial(reduce.pod, one, logs=logs) for one in pods.items]
            made["pods"] = await _shown(wire.Pods, every, [pods], asked, reduce.pods_first, hidden)
        if Part.WORKLOADS in wanted:
            every = [partial(reduce.workload, one, kind) for kind, some in workloads.items() for one in some.items]
            lists = list(workloads.values())
            made["workloads"] = await _shown(wire.Workloads, every, lists, asked, reduce.workloads_first, hidden)
        if Part.SERVICES in wanted:
            made["services"] = await self._services(asked)
        if Part.VOLUMES in wanted:
            some = await self._list(kube.VOLUME_CLAIMS, namespace)
            every = [partial(reduce.volume, one) for one in some.items]
            made["volumes"] = await _shown(wire.Volumes, every, [some], asked, _unbound_first, hidden)
        if Part.QUOTAS in wanted:
            some = await self._list(kube.QUOTAS, namespace)
            every = [_same(reduce.quota(one)) for one in some.items]
            made["quotas"] = await _shown(wire.Quotas, every, [some], asked, lambda one: one.name, hidden)
        if events:
            known = _known(pods, workloads)
            some = await self._list(kube.EVENTS, namespace, EVENTS_LOOKED_AT)
            some.items.sort(key=reduce.happened, reverse=True)
            every = [partial(reduce.event, one, said=_is_known(one, known)) for one in some.items]
            made["events"] = await _shown(wire.Events, every, [some], asked, None, hidden)
        return wire.State(namespace=namespace, **made)

    async def log(self, namespace: str, pod: str, container: str, lines: int, *, previous: bool) -> wire.Log:
        """The end of a log. Raises `kube.NotFound`, `kube.Refused` where there is none."""
        found = await self._api.page(kube.PODS, namespace, 1, fields=f"metadata.name={pod}", most=PAGE_BYTES)
        if not found.get("items"):
            raise kube.NotFound(f"there is no pod {pod}")
        hidden = hiding.Hidden([one.get("spec") or {} for one in found["items"]])
        if hidden.full:
            raise kube.Refused(f"what pod {pod} has in its specification is too much to be hidden in a log")
        wanted = lines
        while True:
            text = await self._api.log(
                namespace, pod, container=container, lines=lines, most=LOG_BYTES, previous=previous
            )
            # The apiserver counts bytes from the beginning of the lines, and the end is what is wanted.
            if len(text.encode()) < LOG_BYTES or lines == 1:
                break
            lines = max(1, lines // 4)
        shown = hidden.text(text, wire.LOG_CHARS, end=True)
        return wire.Log(
            namespace=namespace,
            pod=pod,
            container=container,
            previous=previous,
            text=shown,
            cut=lines < wanted or shown.startswith("…"),
        )

    async def _workloads(self, namespace: str) -> dict[str, _Some]:
        return {kind: await self._list(one, namespace) for kind, one in _WORKLOADS.items()}

    async def _services(self, asked: Asked) -> wire.Services:
        some = await self._list(kube.SERVICES, asked.namespace)
        slices = await self._list(kube.ENDPOINT_SLICES, asked.namespace)
        known = None if slices.more else slices.items
        every: list[_Make] = [_same(reduce.service(one, known)) for one in some.items]
        order: _Order = lambda one: (bool(one.ready), one.name)  # noqa: E731
        return await _shown(wire.Services, every, [some, slices], asked, order, hiding.SILENT, texts=False)

    async def _list(self, resource: kube.Resource, namespace: str, most: int = LOOKED_AT) -> _Some:
        """Up to `most` objects, and `LIST_BYTES`. A right that is missing, as before a new one of the chart has
        arrived, leaves out this kind alone."""
        items: list[kube.Object] = []
        following, left, page, held = "", 0, PAGE, 0
        for _ in range(REQUESTS):
            try:
                found = await self._api.page(
                    resource, namespace, min(page, most - len(items)), following=following, most=PAGE_BYTES
                )
            except kube.TooLarge:
                if page == 1:
                    break
                page = max(1, page // 4)
                continue
            except (kube.Forbidden, kube.Expired, kube.NotFound) as error:
                return _Some(items, f"{resource.plural}: {error.message}"[:300], 0)
            some = [_kept(one) for one in found.get("items") or ()]
            items += some
            held += len(orjson.dumps(some))
            metadata = found.get("metadata") or {}
            following, left = metadata.get("continue") or "", int(metadata.get("remainingItemCount") or 0)
            if not following:
                return _Some(items)
            if not some or len(items) >= most or held >= LIST_BYTES:
                break
        return _Some(items, f"only {len(items)} {resource.plural} were looked at", left)


def _kept(one: kube.Object) -> kube.Object:
    """Without what is long and never shown."""
    for where in (one, (one.get("spec") or {}).get("template") or {}):
        for name in ("annotations", "managedFields"):
            (where.get("metadata") or {}).pop(name, None)
    return one


def _known(pods: _Some, workloads: Mapping[str, _Some]) -> dict[tuple[str, str], str]:
    """The uid by kind and name of the objects whose specifications were read."""
    kinds = {"Pod": pods, **workloads}
    names = {kind: [one.get("metadata") or {} for one in some.items] for kind, some in kinds.items()}
    return {(kind, one.get("name") or ""): one.get("uid") or "" for kind, found in names.items() for one in found}


def _is_known(event: kube.Object, known: Mapping[tuple[str, str], str]) -> bool:
    """Whether what a message may quote is hidden in it: not of a pod that is gone, or that was not listed."""
    about = event.get("involvedObject") or {}
    kind, name, uid = (str(about.get(one) or "") for one in ("kind", "name", "uid"))
    if kind in _PLAIN:
        return True
    if kind == "ReplicaSet":
        return ("Deployment", name.rpartition("-")[0]) in known
    return (kind, name) in known and (not uid or known[kind, name] in ("", uid))


def _unbound_first(one: wire.Volume) -> tuple[bool, str]:
    return one.phase == "Bound", one.name


def _same(made: Any) -> _Make:
    """For an object without texts."""
    return lambda hidden: made


def _specs(some: _Some) -> list[kube.Object]:
    found = []
    for one in some.items:
        spec = one.get("spec") or {}
        template = spec.get("template") or ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template") or {}
        found.append(template.get("spec") or {})
    return found


async def _shown(
    kind: Callable[..., _T],
    every: Sequence[_Make],
    lists: Sequence[_Some],
    asked: Asked,
    order: _Order | None,
    hidden: hiding.Hidden,
    *,
    texts: bool = True,
) -> _T:
    """Those that are asked for, in order, with what is left out. `texts`: whether the kind has any."""
    wanted = []
    for at, make in enumerate(every):
        one = make(hiding.SILENT)
        if asked.name in (one.about if isinstance(one, wire.Event) else one.name):
            wanted.append((one, make))
        if at % 100 == 99:
            await asyncio.sleep(0)
    if order is not None:
        wanted.sort(key=lambda both: order(both[0]))
    items = []
    for _, make in wanted[: asked.limit]:
        items.append(make(hidden))
        # Filtering a text takes time, in which the loop has other things to do.
        await asyncio.sleep(0)
    unread = [one.more for one in lists if one.more]
    if hidden.full and texts:
        unread.append("messages are not shown: specifications hold too many values that would be hidden in them")
    elif silent := sum(_is_silent(make) for _, make in wanted[: asked.limit]):
        unread.append(f"messages of {silent} events are not shown: the specifications of their objects were not read")
    # With a name, how many of the others have it is not known.
    more = 0 if asked.name else sum(one.count for one in lists)
    left_out = max(0, len(wanted) - asked.limit) + more
    return kind(items=tuple(items), left_out=left_out, unread="; ".join(unread))


def _is_silent(make: _Make) -> bool:
    """Of an event whose message is not shown."""
    return isinstance(make, partial) and not make.keywords.get("said", True) and bool(make.args[0].get("message"))
