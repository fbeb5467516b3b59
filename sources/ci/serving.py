"""/api/v1/ci: what the checks of a commit say, for a run, through a Connection of type GitHub, GitLab or Gitea.

A run reads it where it may read the repository itself: a Connection of its namespace that is its client's, and of its
project or group or of none, that the operator accepts; and in it the repositories that `spec.url` and `spec.filter`
name. A run on behalf of a user is refused, as it is for the repository: who may see checks is not known.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from aiohttp import web

from crds import errors
from crds.connection import Type
from sources import metrics
from sources.api import app, gate, problems, routes
from sources.ci import hosts, wire
from sources.core import host_address, limits, port, repositories, rest
from sources.core import hosts as reaching
from sources.effects import permitted_names, targets, tools

WIDTH = 4
"""Requests that are answered at once."""
SECONDS = 45.0
"""The longest that one may take."""
ROUTE = routes.Route(
    "GET", "/api/v1/ci/{connection}", "What the checks of a commit say", reply=wire.Report, runs=True, tokens=False,
    whole=True, optional=("repository", "branch", "commit"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Means:
    """`plain` allows servers without encryption, `reached` says which hosts are called; `wall` is UTC."""

    tls: ssl.SSLContext
    plain: bool
    wall: Callable[[], datetime]
    monotonic: Callable[[], float]
    reached: reaching.Hosts = reaching.LOCAL


class Ci:
    """`finds` gives the Connections of runs, `checked` has the types whose checks are read."""

    def __init__(
        self,
        finds: targets.Targets,
        checked: Mapping[Type, hosts.CheckedHost],
        means: Means,
        measured: metrics.Metrics,
    ) -> None:
        self._targets, self._hosts, self._means, self._metrics = finds, checked, means, measured
        self._busy: list[str] = []

    @property
    def served(self) -> list[routes.Served]:
        """Its route."""
        return [(ROUTE, self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        kind, outcome = "unknown", "failed"
        try:
            async with self._slot(gate.run(request).namespace), asyncio.timeout(SECONDS):
                asked = _asked(request.query)
                name = request.match_info["connection"]
                target = await self._targets.find(gate.run(request), name, within=repositories.visible)
                if target.spec.type not in self._hosts:
                    raise problems.Invalid(
                        f"checks are not read through Connections of type {target.spec.type.value}",
                        field="connection",
                        remedy=f"Name one of type {', '.join(sorted(kind.value for kind in self._hosts))}.",
                    )
                kind = target.spec.type.value
                report = await self.read(target, asked)
            outcome = "ok"
            return app.reply(report)
        except TimeoutError as error:
            outcome = "away"
            raise port.Unreachable(f"the host took longer than {SECONDS:.0f} seconds") from error
        except hosts.UnexpectedAnswer as error:
            error.message = self._targets.hidden(error.message)
            raise
        except errors.JervisError as error:
            outcome = "refused" if isinstance(error, errors.Permanent) else "away"
            error.message = self._targets.hidden(error.message)
            raise
        finally:
            self._metrics.ci_reads.labels(kind, outcome).inc()

    async def read(self, target: tools.Target, asked: hosts.CommitQuery) -> wire.Report:
        """What the checks of a commit say. Raises `crds.errors.JervisError`."""
        means, spec = self._means, target.spec
        host = self._hosts[spec.type]
        address = host_address.derive(host.rules, spec, target.credentials, plain=means.plain)
        repository = permitted_names.choose(address, asked.repository, "repository")
        api = rest.Rest(
            address.api, address.headers, target.bucket,
            reaching.trusted(means.tls, target.credentials.get("ca.crt", "")),
            monotonic=means.monotonic, wall=means.wall, reached=means.reached, largest=hosts.LARGEST,
        )  # fmt: skip
        try:
            checked = await host.checks.read(api, hosts.CommitQuery(repository, asked.branch, asked.commit))
        except port.Misconfigured as error:
            # GitHub answers 422 for a commit that it does not have.
            if not isinstance(error, rest.Absent) and " answered 422: " not in error.message:
                raise
            raise problems.NotFound(
                f"there is no such branch or commit: {error.message}",
                field="commit" if asked.commit else "branch",
                remedy="Push it first, or name one that the repository has.",
            ) from error
        except rest.Garbled as error:
            raise hosts.UnexpectedAnswer(error.message) from error
        except hosts.UNEXPECTED as error:
            raise hosts.UnexpectedAnswer(f"{type(error).__name__} in it") from error
        finally:
            await api.close()
        checks = wire.ordered(checked.checks)
        return wire.Report(
            connection=target.name,
            repository=repository,
            branch=checked.branch,
            commit=checked.commit,
            state=wire.overall(checks, whole=not checked.unread),
            checks=tuple(checks[: wire.MOST_CHECKS]),
            left_out=max(0, len(checks) - wire.MOST_CHECKS),
            unread=tuple(self._targets.hidden(list_name) for list_name in checked.unread[:10]),
        )

    @asynccontextmanager
    async def _slot(self, namespace: str) -> AsyncIterator[None]:
        if len(self._busy) >= WIDTH or namespace in limits.full(self._busy, WIDTH):
            raise problems.Crowded(f"the checks of {len(self._busy)} commits are read at once already")
        self._busy.append(namespace)
        try:
            yield
        finally:
            self._busy.remove(namespace)


def _asked(query: Mapping[str, str]) -> hosts.CommitQuery:
    """Raises `problems.Invalid`."""
    patterns = {"repository": wire.REPOSITORY, "branch": wire.BRANCH, "commit": wire.COMMIT}
    for name, pattern in patterns.items():
        if query.get(name) and not re.fullmatch(pattern, query[name]):
            raise problems.Invalid(
                f"{query[name][:100]!r} is no {name}", field=name, remedy="Give it as the host has it, or leave it out."
            )
    if query.get("branch") and query.get("commit"):
        raise problems.Invalid("a branch and a commit are given", field="commit", remedy="Give one of the two.")
    return hosts.CommitQuery(query.get("repository", ""), query.get("branch", ""), query.get("commit", ""))
