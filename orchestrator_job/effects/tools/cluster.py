"""The state of the task's namespace of the cluster, as the operator shows it to the run's token: read-only.

The run itself has no access to the Kubernetes API. What a namespace holds was written by others, so all of it is data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import httpx
import pydantic
from pydantic import Field

from contracts.api import cluster_state
from contracts.api.cluster_state import Part
from contracts.rules import enforce_lines
from crds import addresses, errors
from orchestrator_job import errors as job_errors
from orchestrator_job.effects.tools import bounds, port
from sources import client as sources_client

KIND = "cluster"
_BUSY = frozenset({408, 425, 429, 502, 503, 504})
_NAME = r"^([a-z0-9.-]{1,253})?$"


class Away(errors.Operational):
    """The operator does not answer, or asks for a pause."""


class ClusterState(port.Arguments):
    """`what` are parts of the namespace, `name` a part of the names of objects. With `log`, the name of a pod, the last
    `lines` of its log are read instead; `previous`: of the container before its last restart."""

    what: Annotated[tuple[Part, ...], Field(max_length=len(Part))] = (Part.PODS, Part.WORKLOADS, Part.EVENTS)
    name: Annotated[str, Field(pattern=_NAME)] = ""
    limit: Annotated[int, Field(ge=1, le=cluster_state.MOST)] = cluster_state.USUAL
    log: Annotated[str, Field(pattern=_NAME)] = ""
    container: Annotated[str, Field(pattern=_NAME)] = ""
    previous: bool = False
    lines: Annotated[int, Field(ge=1, le=cluster_state.LOG_LINES)] = 100


class Cluster:
    """The tool. `logs`: whether the namespace allows its logs to be read."""

    name = "cluster_state"
    arguments = ClusterState
    away_seconds = port.DISPENSABLE_SECONDS

    def __init__(
        self,
        url: str,
        http: httpx.AsyncClient,
        token: sources_client.Token,
        namespace: str,
        rules: enforce_lines.Provisions,
        *,
        logs: bool,
    ) -> None:
        self._base, self._http, self._token = url.rstrip("/"), http, token
        self._source, self._rules = f"cluster::{namespace}", rules
        more = "; log: the end of a pod's log" if logs else "; logs cannot be read"
        self.description = f"State of the task's namespace of the cluster: {', '.join(Part)}{more}. Read-only."

    async def read(self, given: ClusterState, place: port.Place) -> port.Result:
        """What is asked for. Raises `Away`, and `errors.Permanent` where there is no operator to be asked."""
        if not self._rules.shows(self._source, KIND):
            return bounds.failed("A hard rule keeps this back.")
        if given.log:
            asked = {"container": given.container, "previous": str(given.previous).lower(), "lines": str(given.lines)}
            answer = await self._ask(f"/logs/{given.log}", {name: value for name, value in asked.items() if value})
        else:
            asked = {"parts": ",".join(given.what), "name": given.name, "limit": str(given.limit)}
            answer = await self._ask("", {name: value for name, value in asked.items() if value})
        if answer.status_code == 401:
            raise job_errors.TokenRefused(_said(answer)[0], "operator")
        if not answer.is_success:
            return _refused(answer)
        try:
            if given.log:
                shown = log_text(cluster_state.Log.model_validate_json(answer.content))
            else:
                shown = text(cluster_state.State.model_validate_json(answer.content))
        except pydantic.ValidationError:
            return bounds.failed("The operator's answer is no state of a namespace.")
        rest = "Give `name`, fewer parts, or a smaller limit."
        return port.Result(bounds.cut(shown, rest=rest), data={"provenance": "retrieved"}, sources=(self._source,))

    async def _ask(self, path: str, query: Mapping[str, str]) -> httpx.Response:
        url = f"{self._base}/api/v1/cluster-state{path}"
        try:
            answer = await self._http.get(url, params=query, headers={"Authorization": f"Bearer {self._token()}"})
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise errors.Permanent(f"{addresses.shown(self._base)!r} is no address of the operator: {error}") from error
        except httpx.HTTPError as error:
            where = addresses.shown(self._base)
            raise Away(f"the operator at {where} did not answer: {type(error).__name__}") from error
        if answer.status_code in _BUSY:
            pause = answer.headers.get("Retry-After", "")
            raise Away(_said(answer)[0], retry_after=float(pause) if pause.isdigit() else None)
        return answer


def _said(answer: httpx.Response) -> tuple[str, str]:
    """Message and remedy of an error."""
    try:
        problem = answer.json()["error"]
        return str(problem["message"]), str(problem.get("remedy") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"HTTP {answer.status_code}", ""


def _refused(answer: httpx.Response) -> port.Result:
    message, remedy = _said(answer)
    return bounds.failed(errors.Permanent(message, remedy=remedy or None))


def text(state: cluster_state.State) -> str:
    """For the model: a line for each thing, what is empty is left out. Pure."""
    lines = [f"Namespace {state.namespace}"]
    for part in Part:
        listed: Any = getattr(state, part.value)
        if listed is None:
            continue
        lines.append(f"{part.value}:" if listed.items else f"{part.value}: none")
        for one in listed.items:
            lines += _WRITTEN[part](one)
        lines += [f"  [{listed.left_out} more are left out]"] if listed.left_out else []
        lines += [f"  [not read: {listed.unread}]"] if listed.unread else []
    return "\n".join(lines)


def log_text(log: cluster_state.Log) -> str:
    """For the model. Pure."""
    named = f", container {log.container}" if log.container else ""
    before = ", before its last restart" if log.previous else ""
    begun = ["[lines at the beginning are left out]"] if log.cut else []
    return "\n".join([f"Log of pod {log.pod}{named}{before}:", *begun, log.text.strip("\n") or "(empty)"])


def _pod(one: cluster_state.Pod) -> Iterable[str]:
    yield f"- {one.name}: {_stated(one.phase, one.reason)}, {one.ready} ready" + _rest(
        {"owner": one.owner, "node": one.node, "created": one.created_at, "deleting": one.deleting and "yes",
         "message": one.message}
    )  # fmt: skip
    yield from _conditions(one.conditions)
    for each in one.containers:
        since = {"since": each.since, "image": each.image, "limits": _pairs(each.limits), "message": each.message}
        state = _stated(each.state or "not started", each.reason)
        yield f"    {each.kind} {each.name}: {state}, {each.restarts} restarts{_rest(since)}"
        for name, ended in (("ended", each.ended), ("before the last restart", each.last)):
            if ended is not None:
                code = {"exit code": ended.exit_code, "signal": ended.signal, "at": ended.finished_at}
                yield f"      {name}: {ended.reason or 'ended'}{_rest({**code, 'message': ended.message})}"


def _workload(one: cluster_state.Workload) -> Iterable[str]:
    numbers = {
        "desired": one.desired, "ready": one.ready, "updated": one.updated, "available": one.available,
        "active": one.active, "failed": one.failed, "suspended": one.suspended and "yes",
        "latest version seen": "" if one.observed else "no", "schedule": one.schedule,
        "last scheduled": one.last_scheduled_at, "last success": one.last_success_at, "started": one.started_at,
        "ended": one.ended_at, "created": one.created_at, "images": " ".join(one.images),
    }  # fmt: skip
    yield f"- {one.kind} {one.name}{_rest(numbers)}"
    yield from _conditions(one.conditions)


def _event(one: cluster_state.Event) -> Iterable[str]:
    yield f"- {one.last_at} {one.type} {one.reason} {one.about} (x{one.count}, {one.source}): {one.message}"


def _service(one: cluster_state.Service) -> Iterable[str]:
    ends = "endpoints not read" if one.ready is None else f"{one.ready} endpoints ready, {one.not_ready} not"
    yield f"- {one.name}: {one.type} {' '.join(one.ports)}, {ends}"


def _volume(one: cluster_state.Volume) -> Iterable[str]:
    sizes = {"requested": one.requested, "capacity": one.capacity, "class": one.storage_class}
    yield f"- {one.name}: {one.phase}{_rest(sizes)}"
    yield from _conditions(one.conditions)


def _quota(one: cluster_state.Quota) -> Iterable[str]:
    yield f"- {one.name}: " + ", ".join(f"{name} {one.used.get(name, '?')}/{most}" for name, most in one.hard.items())


def _conditions(found: Iterable[cluster_state.Condition]) -> Iterable[str]:
    for one in found:
        yield f"    {one.type} {one.status}{_rest({'reason': one.reason, 'since': one.since, 'message': one.message})}"


def _stated(state: str, reason: str) -> str:
    return f"{state} ({reason})" if reason else state


def _rest(values: Mapping[str, object]) -> str:
    # A number of none is said: 0 equals False.
    shown = {name: value for name, value in values.items() if value is not None and value is not False and value != ""}
    return "".join(f", {name}: {_line(value)}" for name, value in shown.items())


def _line(value: object) -> str:
    return " ".join(str(value).split())


def _pairs(values: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


_WRITTEN: Mapping[Part, Callable[[Any], Iterable[str]]] = {
    Part.PODS: _pod, Part.WORKLOADS: _workload, Part.EVENTS: _event, Part.SERVICES: _service, Part.VOLUMES: _volume,
    Part.QUOTAS: _quota,
}  # fmt: skip
