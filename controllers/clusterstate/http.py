"""`/api/v1/cluster-state` beside the history: the state of the namespace of a run's task, for its run token.

GET /api/v1/cluster-state?parts=&name=&limit=                       pods, workloads, events, services, volumes, quotas
GET /api/v1/cluster-state/logs/{pod}?container=&previous=&lines=    the end of a log, where the namespace allows it

The namespace is that of the verified token and nothing else, so no argument leads into another one. A run on behalf of
a user is refused: who may see what runs in a namespace is not known. Any replica answers; a token bucket limits what
the runs of a namespace ask (429 beyond it). Source: docs/decisions/0141.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping

import structlog
from aiohttp import web

import kube
from contracts.api import cluster_state as wire
from contracts.tokens import runtoken
from controllers import events, metrics
from controllers.archive import http, openapi, query
from controllers.clusterstate import reading
from crds import errors
from sources.core import limits

log = structlog.get_logger(__name__)
REQUESTS_A_SECOND, REQUESTS_AT_ONCE = 1, 10
"""Of the runs of one namespace."""
MOST_NAMESPACES = 1000
"""Namespaces whose requests are counted; beyond that counting begins anew."""
AT_ONCE = 4
"""Requests that are answered at once; each may hold some thousand objects. One namespace never has all of them."""
SECONDS = 30.0
"""The longest that one may take."""
_PARAMETERS = frozenset({"parts", "name", "limit"})
_OF_LOGS = frozenset({"container", "previous", "lines"})
_USUAL = (wire.Part.PODS, wire.Part.WORKLOADS, wire.Part.EVENTS)
_USUAL_LINES = 100


class Forbidden(errors.Permanent):
    """The token is good, and not for this."""


class ClusterStateHttp:
    """Serves both paths. `verifier` is that of run tokens for the operator."""

    def __init__(
        self,
        reads: reading.Reading,
        verifier: runtoken.Verifier,
        measured: metrics.Metrics,
        *,
        monotonic: Callable[[], float],
        seconds: float = SECONDS,
    ) -> None:
        self._reads, self._verifier, self._metrics, self._monotonic = reads, verifier, measured, monotonic
        self._seconds = seconds
        self._rates: dict[str, events.TokenBucket] = {}
        self._busy: list[str] = []

    def serve(self, application: web.Application) -> None:
        """Add the paths."""
        application.router.add_get(openapi.STATE, self._answering("state", self._state))
        application.router.add_get(openapi.LOG, self._answering("log", self._log))

    async def _state(self, request: web.Request, run: runtoken.Claims) -> web.Response:
        asked = parse(run.namespace, request.query)
        found = await self._reads.state(asked)
        log.info("cluster state read", namespace=run.namespace, task=run.task_uid, parts=",".join(asked.parts))
        return http.reply(found)

    async def _log(self, request: web.Request, run: runtoken.Claims) -> web.Response:
        if not self._reads.allowed.log(run.namespace):
            raise Forbidden(
                f"logs of namespace {run.namespace} are not shown to runs",
                field="pod",
                remedy="agents.clusterState.logNamespaces of the chart names those whose logs are.",
            )
        pod = _matching(request.match_info["pod"], "pod", wire.NAME, "Give the name of a pod.")
        _known(request.query, _OF_LOGS)
        container = request.query.get("container", "")
        if container:
            _matching(container, "container", wire.NAME, "Give the name of a container.")
        previous = _choice(request.query.get("previous", "false"))
        lines = _number(request.query.get("lines", ""), "lines", wire.LOG_LINES, _USUAL_LINES)
        try:
            found = await self._reads.log(run.namespace, pod, container, lines, previous=previous)
        except kube.Forbidden as error:
            # Not "later": a run would wait for a Role that its namespace has not been given.
            raise Forbidden(error.message, field="pod", remedy="Give the operator the Role of the chart.") from error
        except (kube.NotFound, kube.Refused) as error:
            return http.failure(404, "not_found", error.message, "pod", "cluster_state names pods and containers.")
        log.info("log read", namespace=run.namespace, task=run.task_uid, pod=pod, container=container)
        return http.reply(found)

    def _answering(
        self, what: str, handler: Callable[[web.Request, runtoken.Claims], Awaitable[web.Response]]
    ) -> http.Handler:
        async def answered(request: web.Request) -> web.StreamResponse:
            run = self._run(request)
            self._count(run.namespace)
            if len(self._busy) >= AT_ONCE or run.namespace in limits.full(self._busy, AT_ONCE):
                raise http.TooOften(f"{len(self._busy)} requests are answered at once already; ask again")
            self._busy.append(run.namespace)
            try:
                async with asyncio.timeout(self._seconds):
                    return await handler(request, run)
            except TimeoutError as error:
                raise kube.Unavailable(f"the Kubernetes API took longer than {self._seconds:g} seconds") from error
            finally:
                self._busy.remove(run.namespace)

        inner = http.answering(answered)

        async def answer(request: web.Request) -> web.StreamResponse:
            response: web.StreamResponse | None = None
            try:
                response = await inner(request)
            except runtoken.Refused as error:
                response = http.failure(401, "unauthorized", error.message, error.field, error.remedy)
                response.headers["WWW-Authenticate"] = f'Bearer realm="{runtoken.OPERATOR}"'
            except Forbidden as error:
                response = http.failure(403, "forbidden", error.message, error.field, error.remedy)
            finally:
                self._metrics.cluster_reads.labels(what, _outcome(response)).inc()
            return response

        return answer

    def _run(self, request: web.Request) -> runtoken.Claims:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or not runtoken.is_run_token(token.strip()):
            raise runtoken.Malformed("this path needs the token of a run")
        run = self._verifier.verify(token.strip())
        if run.analysis or run.sandbox or run.principals:
            raise Forbidden(
                "this is for runs that act for the whole of their scope",
                field="Authorization",
                remedy="A run on behalf of a user, an analysis and a command of an agent see no state of a cluster.",
            )
        if not self._reads.allowed.state(run.namespace):
            raise Forbidden(
                f"the state of namespace {run.namespace} is not shown to runs",
                field="Authorization",
                remedy="agents.clusterState.namespaces of the chart names those whose state is.",
            )
        return run

    def _count(self, namespace: str) -> None:
        """Raises `http.TooOften` for a namespace whose runs have asked too often."""
        if namespace not in self._rates:
            if len(self._rates) >= MOST_NAMESPACES:
                self._rates.clear()
            self._rates[namespace] = events.TokenBucket(REQUESTS_A_SECOND, REQUESTS_AT_ONCE, monotonic=self._monotonic)
        if not self._rates[namespace].spend(1):
            raise http.TooOften(f"the runs of namespace {namespace} ask more than {REQUESTS_A_SECOND} times a second")


def parse(namespace: str, given: Mapping[str, str]) -> reading.Asked:
    """The parameters of a question. Raises `query.Unreadable`. Pure."""
    _known(given, _PARAMETERS)
    words = [one for one in given.get("parts", "").split(",") if one]
    for one in words:
        if one not in tuple(wire.Part):
            known = ", ".join(wire.Part)
            raise query.Unreadable(f"{one[:40]!r} is no part of a state", field="parts", remedy=f"Use {known}.")
    name = given.get("name", "")
    if name:
        _matching(name, "name", r"^[a-z0-9.-]{1,253}$", "Give a part of the name of an object.")
    limit = _number(given.get("limit", ""), "limit", wire.MOST, wire.USUAL)
    return reading.Asked(namespace, tuple(map(wire.Part, dict.fromkeys(words))) or _USUAL, name, limit)


def _known(given: Mapping[str, str], names: frozenset[str]) -> None:
    for name in given:
        if name not in names:
            known = ", ".join(sorted(names))
            raise query.Unreadable(f"{name[:40]!r} is not a parameter", field=name[:40], remedy=f"Use {known}.")


def _matching(text: str, field: str, pattern: str, remedy: str) -> str:
    if not re.fullmatch(pattern, text):
        raise query.Unreadable(f"{text[:60]!r} is no {field}", field=field, remedy=remedy)
    return text


def _choice(text: str) -> bool:
    if text not in ("true", "false"):
        raise query.Unreadable("previous is true or false", field="previous", remedy="Leave it out for false.")
    return text == "true"


def _number(text: str, field: str, most: int, usual: int) -> int:
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= most):
        raise query.Unreadable(f"{field} must be a whole number from 1 to {most}", field=field, remedy="Ask for less.")
    return int(text)


def _outcome(response: web.StreamResponse | None) -> str:
    if response is None:
        return "failed"
    if response.status < 300:
        return "ok"
    return "away" if response.status >= 500 else "refused"
