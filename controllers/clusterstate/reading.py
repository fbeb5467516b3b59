"""Reading a namespace within bounds: at most some hundred objects of a kind are looked at, and what is not is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import kube
from controllers.clusterstate import hiding, reduce
from crds import clusterstate as wire
from crds.clusterstate import Part

LOOKED_AT = 500
"""Objects of a kind in one list."""
EVENT_PAGES = 4
"""Lists of Events: the apiserver has them in the order of their names, so that the latest may stand anywhere."""
LOG_BYTES = 256 << 10
"""The most that is asked of a log; then fewer lines are asked for."""
EVERYWHERE = "*"
_WORKLOADS = {
    "Deployment": kube.DEPLOYMENTS, "StatefulSet": kube.STATEFUL_SETS, "DaemonSet": kube.DAEMON_SETS,
    "Job": kube.JOBS, "CronJob": kube.CRON_JOBS,
}  # fmt: skip
_T = TypeVar("_T")


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
        wanted, needs = set(asked.parts), {Part.PODS, Part.EVENTS} & set(asked.parts)
        # Messages of Events quote what pods have in their specification.
        pods = await self._list(kube.PODS, namespace) if needs else _Some([])
        workloads = await self._workloads(namespace) if Part.WORKLOADS in wanted else {}
        hidden = hiding.Hidden(
            [
                *(one.get("spec") or {} for one in pods.items),
                *(spec for some in workloads.values() for spec in _specs(some)),
            ]
        )
        made: dict[str, Any] = {}
        if Part.PODS in wanted:
            found = [reduce.pod(one, hidden, logs=logs) for one in pods.items]
            made["pods"] = _shown(wire.Pods, found, [pods], asked, reduce.pods_first)
        if Part.WORKLOADS in wanted:
            every = [reduce.workload(one, kind, hidden) for kind, some in workloads.items() for one in some.items]
            made["workloads"] = _shown(wire.Workloads, every, list(workloads.values()), asked, reduce.workloads_first)
        if Part.SERVICES in wanted:
            made["services"] = await self._services(asked)
        if Part.VOLUMES in wanted:
            some = await self._list(kube.VOLUME_CLAIMS, namespace)
            claims = [reduce.volume(one, hidden) for one in some.items]
            made["volumes"] = _shown(wire.Volumes, claims, [some], asked, lambda one: (one.phase == "Bound", one.name))
        if Part.QUOTAS in wanted:
            some = await self._list(kube.QUOTAS, namespace)
            quotas = [reduce.quota(one) for one in some.items]
            made["quotas"] = _shown(wire.Quotas, quotas, [some], asked, lambda one: one.name)
        if Part.EVENTS in wanted:
            some = await self._list(kube.EVENTS, namespace, pages=EVENT_PAGES)
            events = [reduce.event(one, hidden) for one in some.items]
            events.sort(key=lambda one: one.last_at, reverse=True)
            made["events"] = _shown(wire.Events, events, [some], asked, None)
        return wire.State(namespace=namespace, **made)

    async def log(self, namespace: str, pod: str, container: str, lines: int, *, previous: bool) -> wire.Log:
        """The end of a log. Raises `kube.NotFound`, `kube.Refused` where there is none."""
        found = await self._api.page(kube.PODS, namespace, 1, fields=f"metadata.name={pod}")
        hidden = hiding.Hidden([one.get("spec") or {} for one in found.get("items") or ()])
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
        found = await asyncio.gather(*(self._list(one, namespace) for one in _WORKLOADS.values()))
        return dict(zip(_WORKLOADS, found, strict=True))

    async def _services(self, asked: Asked) -> wire.Services:
        some, slices = await asyncio.gather(
            self._list(kube.SERVICES, asked.namespace), self._list(kube.ENDPOINT_SLICES, asked.namespace)
        )
        known = None if slices.more else slices.items
        found = [reduce.service(one, known) for one in some.items]
        return _shown(wire.Services, found, [some, slices], asked, lambda one: (bool(one.ready), one.name))

    async def _list(self, resource: kube.Resource, namespace: str, pages: int = 1) -> _Some:
        """Up to `pages` times `LOOKED_AT` objects. A right that is missing, as before a new one of the chart has
        arrived, leaves out this kind alone."""
        items: list[kube.Object] = []
        following, left = "", 0
        for _ in range(pages):
            try:
                found = await self._api.page(resource, namespace, LOOKED_AT, following=following)
            except (kube.Forbidden, kube.Expired, kube.NotFound) as error:
                return _Some(items, f"{resource.plural}: {error.message}"[:300], 0)
            items += found.get("items") or []
            metadata = found.get("metadata") or {}
            following, left = metadata.get("continue") or "", int(metadata.get("remainingItemCount") or 0)
            if not following:
                return _Some(items)
        return _Some(items, f"only {len(items)} {resource.plural} were looked at", left)


def _specs(some: _Some) -> list[kube.Object]:
    found = []
    for one in some.items:
        spec = one.get("spec") or {}
        template = spec.get("template") or ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template") or {}
        found.append(template.get("spec") or {})
    return found


def _shown(
    kind: Callable[..., _T],
    found: Sequence[Any],
    lists: Sequence[_Some],
    asked: Asked,
    order: Callable[[Any], Any] | None,
) -> _T:
    """Those that are asked for, in order, with what is left out."""
    wanted = [one for one in found if asked.name in (one.about if isinstance(one, wire.Event) else one.name)]
    if order is not None:
        wanted.sort(key=order)
    unread = "; ".join(one.more for one in lists if one.more)
    # With a name, how many of the others have it is not known.
    more = 0 if asked.name else sum(one.count for one in lists)
    return kind(items=tuple(wanted[: asked.limit]), left_out=max(0, len(wanted) - asked.limit) + more, unread=unread)
