"""All tools of a run, from its clients and settings. A tool whose means are missing is not there.

Modules that few runs need are imported here, where their tools are built: the time in which a run starts counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import httpx
import structlog

from contracts.rules import enforce_lines
from crds import domains, priority, scope
from kb import client as kb_client
from orchestrator_job.effects.tools import port, settings
from orchestrator_job.store import fence, mongo
from sources import client as sources_client

if TYPE_CHECKING:
    from orchestrator_job.effects.tools import connections, knowledge

_USES = {
    "mail_connection": "sendMail",
    "tracker_connection": "createIssue",
    "wiki_connection": "editPage",
    "git_connection": sources_client.READ_REPOSITORY,
    "ci_connection": sources_client.READ_CHECKS,
}
"""Field of the settings with the Connection of a call that names none -> what that has to be good for."""
_log = structlog.get_logger("orchestrator_job.effects.tools")


@dataclass(frozen=True, slots=True)
class Means:
    """What tools are built from. `http` is for the sources process; its timeout should exceed the effects' 60 seconds.
    `now` is in UTC."""

    settings: settings.Settings
    viewer: scope.Scope
    rules: enforce_lines.Provisions
    namespace: str
    urgency: priority.Priority
    kb: kb_client.Client
    http: httpx.AsyncClient
    token: sources_client.Token
    database: mongo.Database
    guard: fence.Fence
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Toolbox:
    """`tools` by name; `away` are the listed servers without their tools, and `left_out` tools of servers that are not
    offered, SERVER.TOOL, each with the reason. `internal` is what is inside of the client."""

    def __init__(
        self,
        tools: Iterable[port.Tool],
        away: Mapping[str, str] | None = None,
        left_out: Mapping[str, str] | None = None,
        internal: domains.Internal = domains.NOTHING,
    ) -> None:
        self.internal = internal
        self.tools: Mapping[str, port.Tool] = {one.name: one for one in tools}
        self.away: Mapping[str, str] = dict(away or {})
        self.left_out: Mapping[str, str] = dict(left_out or {})

    @classmethod
    async def open(cls, means: Means) -> Toolbox:
        """Build all, read which workspaces the task has, and ask the listed servers for their tools. Raises
        `StoreUnavailable`."""
        from orchestrator_job.effects.tools import calculate, calendar, code, connections, drafts, knowledge, web

        known = _known(means)
        outside = await _outside(means) if means.settings.sources_url else None
        # With the Connections of this client, where the settings name those of another one.
        allowed = means.settings if outside is None else outside.allowed
        means = replace(means, settings=allowed)
        internal = _internal(outside.known if outside is not None else ())
        tools: list[port.Tool] = [*knowledge.all_of(known), *code.all_of(known)]
        tools += [calculate.Calculate(), drafts.Draft(known), *calendar.all_of(known, outside, means.now)]
        if allowed.fetch_hosts:
            tools.append(web.Fetch(known, allowed.fetch_hosts, means.sleep))
        if outside is not None:
            from orchestrator_job.effects.tools import ci

            tools += [*connections.all_of(outside), *await _workspace(means, known, outside)]
            tools.append(ci.Checks(outside.client, allowed, means.rules))
        if allowed.cluster_state_url:
            from orchestrator_job.effects.tools import cluster

            tools.append(
                cluster.Cluster(
                    allowed.cluster_state_url, means.http, means.token, means.namespace, means.rules,
                    logs=allowed.cluster_state_logs,
                )
            )  # fmt: skip
        if not allowed.mcp_servers:
            return cls(tools, internal=internal)
        from orchestrator_job.effects.tools import mcp

        more, catalogue = await mcp.listed(allowed.mcp_servers, means.viewer, allowed.fetch_hosts)
        if catalogue.away:
            _log.warning("servers of tools are away", problems=list(catalogue.away.values()))
        if catalogue.left_out:
            _log.warning("tools of servers are left out", problems=catalogue.left_out)
        # By the name that models call it a rule is met where agents are given their tools.
        barred = {tool.called for tool in catalogue.tools if not means.rules.permits_tool(tool.own)}
        tools += [tool for tool in more if tool.name not in barred]
        return cls(tools, catalogue.away, catalogue.left_out, internal)


def _internal(known: Iterable[sources_client.Named]) -> domains.Internal:
    """What the Connections of the run say about it; without them nothing is inside."""
    named = list(known)
    return domains.Internal(
        tuple(dict.fromkeys(domain for one in named for domain in one.internal_domains)),
        frozenset(one.host for one in named if one.host),
    )


def _known(means: Means) -> knowledge.Means:
    from orchestrator_job.effects.tools import knowledge

    return knowledge.Means(means.kb, means.viewer, means.rules, means.urgency, means.guard.task_uid)


async def _outside(means: Means) -> connections.Means:
    from orchestrator_job.effects.tools import connections, remote_effects

    client = sources_client.Client(means.settings.sources_url, means.http, means.token)
    prepared = remote_effects.Prepared(means.database, means.guard)
    allowed, known = means.settings, tuple[sources_client.Named, ...]()
    try:
        known = await client.connections()
    except (sources_client.Unavailable, sources_client.Rejected) as error:
        _log.warning("Connections are not known; those of the settings are used", reason=error.message)
    else:
        allowed = usual(allowed, known)
    return connections.Means(client, prepared, means.kb, means.viewer, allowed, means.rules, known)


def usual(allowed: settings.Settings, known: Sequence[sources_client.Named]) -> settings.Settings:
    """The settings with Connections that this run may use: of those that it may not, the only one that fits in their
    place, or none where several do."""
    changed: dict[str, str] = {}
    for field, use in _USES.items():
        fitting = [one.name for one in known if use in one.uses]
        named = getattr(allowed, field)
        if named not in fitting and (named or field != "ci_connection"):
            changed[field] = fitting[0] if len(fitting) == 1 else ""
    return allowed.model_copy(update=changed)


async def _workspace(means: Means, known: knowledge.Means, outside: connections.Means) -> list[port.Tool]:
    from orchestrator_job.effects.tools import checkout, command, scan, workspace

    allowed = means.settings
    bounds = checkout.Bounds(allowed.clone_bytes, allowed.change_bytes)

    def make(connection: str) -> checkout.Checkout:
        return checkout.Checkout(
            connection, allowed.work_dir / means.guard.task_uid / connection, allowed.sources_url, means.token,
            means.database, means.guard, bounds, means.now,
        )  # fmt: skip

    checkouts = workspace.Checkouts(make, allowed.git_connection)
    await checkouts.load(await checkout.kept(means.database, means.guard.task_uid))
    running = command.Means(means.database, means.guard, means.namespace, allowed, means.now, means.sleep)
    return [
        *workspace.all_of(checkouts),
        workspace.PushBranch(outside, checkouts),
        command.Run(known, running, checkouts),
        *scan.all_of(checkouts, allowed.vulnerabilities),
    ]
