"""In which group a project is: the newest task or Connection that names one says so, and the knowledge base follows.

Data is stored with the group that its writer named. When a project changes its group, its documents would be read by
the former group until they are moved; moving what is there already changes nothing, so a move is repeated when a task
that still names the former group is seen, and once after each start. On the leader only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import structlog

import kube
from controllers import admission, metrics
from crds import errors, scope

log = structlog.get_logger(__name__)

EVERY = 2.0
"""Seconds between two rounds: what comes in between is one move per project."""
Project = tuple[str, str]
"""Client and project."""


class Result(StrEnum):
    """The result of one move; the label of the metric."""

    MOVED = "moved"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    POSTPONED = "postponed"


@dataclass(frozen=True, slots=True)
class Named:
    """The group that an object names; `at` is its creation, or when it was seen to name another one (RFC 3339, UTC).

    Times are whole seconds: of groups named in one second the one seen last counts, and `former` do not any more.
    """

    at: str
    group: str
    former: frozenset[str] = frozenset()


class Projects:
    """Receives every task and Connection; `move` is a call of the knowledge base that returns how many documents it
    changed. `admitted` knows what namespaces may have, None: anything."""

    def __init__(
        self,
        move: Callable[[scope.Scope], Awaitable[int]],
        *,
        admitted: admission.Admission | None = None,
        measured: metrics.Metrics,
        wall: Callable[[], datetime],
    ) -> None:
        self._move, self._admission, self._metrics, self._wall = move, admitted, measured, wall
        self._named: dict[Project, Named] = {}
        self._connections: dict[str, str] = {}
        """By uid: the group that a Connection named when it was last seen."""
        self._due: dict[Project, None] = {}

    def task(self, raw: kube.Object) -> None:
        """A task was seen, new or changed."""
        self._observe(raw, raw["metadata"]["creationTimestamp"])

    def connection(self, raw: kube.Object) -> None:
        """A Connection was seen; its group may be edited, and counts from then on."""
        uid, group = raw["metadata"]["uid"], raw["spec"].get("groupId", "")
        edited = self._connections.get(uid, group) != group
        self._connections[uid] = group
        now = self._wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        self._observe(raw, now if edited else raw["metadata"]["creationTimestamp"])

    def _observe(self, raw: kube.Object, at: str) -> None:
        spec = raw["spec"]
        client, project, group = spec.get("clientId", ""), spec.get("projectId", ""), spec.get("groupId", "")
        if not (client and project and group):
            return  # it says nothing about a group
        if self._admission and self._admission.refuses_client(raw["metadata"]["namespace"], client):
            return  # no caller there may move that client's data
        known = self._named.get((client, project))
        if known is None or at > known.at:
            self._named[client, project] = Named(at, group)
        elif at == known.at and group not in (known.group, *known.former):
            self._named[client, project] = Named(at, group, known.former | {known.group})
        if known is None or known.group != group:
            # Also when an older one still names the former group: it may just have stored something there.
            self._due[client, project] = None

    async def reconcile_once(self) -> None:
        """Move every project that is due. Raises `Operational`: that one and the rest stay due."""
        for one in list(self._due):
            self._due.pop(one)
            try:
                await self._one(*one)
            except errors.Operational:
                self._due[one] = None
                self._metrics.regroups.labels(Result.POSTPONED).inc()
                raise

    async def _one(self, client: str, project: str) -> None:
        group = self._named[client, project].group
        try:
            moved = await self._move(scope.Scope(client_id=client, project_id=project, group_id=group))
        except (errors.Permanent, ValueError) as error:
            self._metrics.regroups.labels(Result.REFUSED).inc()
            log.error("a project cannot be moved", client=client, project=project, group=group, reason=str(error))
            return
        self._metrics.regroups.labels(Result.MOVED if moved else Result.UNCHANGED).inc()
        if moved:
            log.info("project moved to its group", client=client, project=project, group=group, documents=moved)
