"""What of an object is shown. Pure: objects of the apiserver in, models of `contracts.api.cluster_state` out.

Everything that is shown is named here; nothing is copied as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contracts.api import cluster_state as wire
from controllers.clusterstate.hiding import Hidden, containers

Object = Mapping[str, Any]
_WORD, _MESSAGE, _ENDED = 200, 600, 1000
_STATES = ("waiting", "running", "terminated")


def pod(raw: Object, hidden: Hidden, *, logs: bool) -> wire.Pod:
    """`logs`: whether termination messages, which may be the end of a log, are shown."""
    spec, status = _part(raw, "spec"), _part(raw, "status")
    found = [*_containers(spec, status, hidden, logs=logs)]
    main = [one for one in found if one.kind == "container"]
    return wire.Pod(
        name=_name(raw),
        phase=_word(status.get("phase")),
        ready=f"{sum(one.ready for one in main)}/{len(main)}",
        reason=_word(status.get("reason")),
        message=hidden.text(status.get("message"), _MESSAGE),
        owner=_owner(raw),
        node=_word(spec.get("nodeName")),
        created_at=_created(raw),
        deleting="deletionTimestamp" in _part(raw, "metadata"),
        conditions=tuple(one for one in _conditions(status, hidden) if one.status != "True"),
        containers=tuple(found),
    )


def workload(raw: Object, kind: str, hidden: Hidden) -> wire.Workload:
    """Of one of the five kinds."""
    spec, status, metadata = _part(raw, "spec"), _part(raw, "status"), _part(raw, "metadata")
    template = _part(spec, "template") or _part(_part(_part(spec, "jobTemplate"), "spec"), "template")
    numbers: dict[str, Any] = {}
    match kind:
        case "Deployment" | "StatefulSet":
            numbers = {
                "desired": spec.get("replicas", 1), "ready": status.get("readyReplicas", 0),
                "updated": status.get("updatedReplicas", 0), "available": status.get("availableReplicas", 0),
                "suspended": bool(spec.get("paused")),
            }  # fmt: skip
        case "DaemonSet":
            numbers = {
                "desired": status.get("desiredNumberScheduled", 0), "ready": status.get("numberReady", 0),
                "updated": status.get("updatedNumberScheduled", 0), "available": status.get("numberAvailable", 0),
            }  # fmt: skip
        case "Job":
            numbers = {
                "desired": spec.get("completions"), "ready": status.get("succeeded", 0),
                "active": status.get("active", 0), "failed": status.get("failed", 0),
                "suspended": bool(spec.get("suspend")), "started_at": _word(status.get("startTime")),
                "ended_at": _word(status.get("completionTime")),
            }  # fmt: skip
        case "CronJob":
            numbers = {
                "active": len(status.get("active") or ()), "suspended": bool(spec.get("suspend")),
                "schedule": _word(spec.get("schedule")), "last_scheduled_at": _word(status.get("lastScheduleTime")),
                "last_success_at": _word(status.get("lastSuccessfulTime")),
            }  # fmt: skip
    return wire.Workload(
        kind=kind,
        name=_name(raw),
        created_at=_created(raw),
        observed=status.get("observedGeneration", metadata.get("generation")) == metadata.get("generation"),
        images=tuple(dict.fromkeys(_word(one.get("image")) for one in containers(_part(template, "spec")))),
        conditions=_conditions(status, hidden),
        **numbers,
    )


def service(raw: Object, slices: Sequence[Object] | None) -> wire.Service:
    """With the EndpointSlices of the namespace; None: they could not be read."""
    spec, name = _part(raw, "spec"), _name(raw)
    ready: int | None = None
    other: int | None = None
    if slices is not None:
        own = [one for one in slices if _part(_part(one, "metadata"), "labels").get(_SERVICE) == name]
        ends = [end for one in own for end in one.get("endpoints") or ()]
        # Source: API of EndpointSlice: an unknown `ready` counts as ready.
        ready = sum(_part(end, "conditions").get("ready") is not False for end in ends)
        other = len(ends) - ready
    return wire.Service(
        name=name,
        type=_word(spec.get("type")),
        ports=tuple(_port(one) for one in spec.get("ports") or ()),
        ready=ready,
        not_ready=other,
    )


def volume(raw: Object, hidden: Hidden) -> wire.Volume:
    """A PersistentVolumeClaim."""
    spec, status = _part(raw, "spec"), _part(raw, "status")
    return wire.Volume(
        name=_name(raw),
        phase=_word(status.get("phase")),
        requested=_word(_part(_part(spec, "resources"), "requests").get("storage")),
        capacity=_word(_part(status, "capacity").get("storage")),
        storage_class=_word(spec.get("storageClassName")),
        conditions=_conditions(status, hidden),
    )


def quota(raw: Object) -> wire.Quota:
    """A ResourceQuota."""
    status = _part(raw, "status")
    hard = _part(status, "hard") or _part(_part(raw, "spec"), "hard")
    return wire.Quota(name=_name(raw), used=_amounts(_part(status, "used")), hard=_amounts(hard))


def event(raw: Object, hidden: Hidden, *, said: bool = True) -> wire.Event:
    """An Event of core/v1, also of a series. `said`: whether its message is shown."""
    about, series = _part(raw, "involvedObject"), _part(raw, "series")
    source = raw.get("reportingComponent") or _part(raw, "source").get("component")
    return wire.Event(
        type=_word(raw.get("type")),
        reason=_word(raw.get("reason")),
        about=f"{_word(about.get('kind'))}/{_word(about.get('name'))}",
        message=hidden.text(raw.get("message"), _MESSAGE) if said else "",
        count=int(series.get("count") or raw.get("count") or 1),
        last_at=happened(raw),
        source=_word(source),
    )


def happened(raw: Object) -> str:
    """When an Event happened last."""
    last = _part(raw, "series").get("lastObservedTime") or raw.get("lastTimestamp") or raw.get("eventTime")
    return _word(last or _created(raw))


def pods_first(one: wire.Pod) -> tuple[bool, int, str]:
    """The order of pods: what is not as it should be, then what was restarted most."""
    ready, _, of = one.ready.partition("/")
    well = one.phase == "Succeeded" or (one.phase == "Running" and ready == of and not one.deleting)
    return well, -sum(each.restarts for each in one.containers), one.name


def workloads_first(one: wire.Workload) -> tuple[bool, str, str]:
    """The order of workloads: what has fewer than it should have, or failed."""
    short = one.desired is not None and (one.ready or 0) < one.desired and not one.ended_at
    bad = any(each.type in ("Failed", "ReplicaFailure") and each.status == "True" for each in one.conditions)
    return not (short or bad or not one.observed), one.kind, one.name


_SERVICE = "kubernetes.io/service-name"


def _containers(spec: Object, status: Object, hidden: Hidden, *, logs: bool) -> Iterable[wire.Container]:
    for kind, where in (("init", "init"), ("container", ""), ("ephemeral", "ephemeral")):
        key = f"{where}Containers" if where else "containers"
        said = {
            one["name"]: one for one in status.get(f"{where}ContainerStatuses" if where else "containerStatuses") or ()
        }
        for one in spec.get(key) or ():
            yield _container(one, said.get(one["name"], {}), kind, hidden, logs=logs)


def _container(one: Object, said: Object, kind: str, hidden: Hidden, *, logs: bool) -> wire.Container:
    states = _part(said, "state")
    state = next((name for name in _STATES if name in states), "")
    now = _part(states, state) if state else {}
    last = _part(_part(said, "lastState"), "terminated")
    return wire.Container(
        name=_word(one.get("name")),
        kind=kind,
        image=_word(one.get("image")),
        ready=bool(said.get("ready")),
        restarts=int(said.get("restartCount") or 0),
        state=state,
        reason=_word(now.get("reason")),
        message=hidden.text(now.get("message"), _MESSAGE) if state == "waiting" else "",
        since=_word(now.get("startedAt")),
        ended=_ended(now, hidden, logs=logs) if state == "terminated" else None,
        last=_ended(last, hidden, logs=logs) if last else None,
        limits=_amounts(_part(_part(one, "resources"), "limits")),
    )


def _ended(raw: Object, hidden: Hidden, *, logs: bool) -> wire.Ended:
    return wire.Ended(
        reason=_word(raw.get("reason")),
        exit_code=raw.get("exitCode"),
        signal=raw.get("signal"),
        finished_at=_word(raw.get("finishedAt")),
        message=hidden.text(raw.get("message"), _ENDED, end=True) if logs else "",
    )


def _conditions(status: Object, hidden: Hidden) -> tuple[wire.Condition, ...]:
    return tuple(
        wire.Condition(
            type=_word(one.get("type")),
            status=_word(one.get("status")),
            reason=_word(one.get("reason")),
            message=hidden.text(one.get("message"), _MESSAGE),
            since=_word(one.get("lastTransitionTime")),
        )
        for one in status.get("conditions") or ()
    )


def _part(raw: Object, name: str) -> Object:
    found = raw.get(name)
    return found if isinstance(found, Mapping) else {}


def _name(raw: Object) -> str:
    return _word(_part(raw, "metadata").get("name"))


def _created(raw: Object) -> str:
    return _word(_part(raw, "metadata").get("creationTimestamp"))


def _owner(raw: Object) -> str:
    owners = _part(raw, "metadata").get("ownerReferences") or ()
    return next((f"{_word(one.get('kind'))}/{_word(one.get('name'))}" for one in owners if one.get("controller")), "")


def _port(raw: Object) -> str:
    named = f"{_word(raw['name'])}:" if raw.get("name") else ""
    return f"{named}{raw.get('port')}/{_word(raw.get('protocol')) or 'TCP'}"


def _amounts(raw: Object) -> dict[str, str]:
    return {_word(name): _word(str(value)) for name, value in list(raw.items())[:50]}


def _word(value: object) -> str:
    if not isinstance(value, str):
        return ""
    return "".join(one for one in value[: 4 * _WORD] if one.isprintable())[:_WORD]
