"""Checks of a commit at GitLab: the latest pipeline of each branch or merge request, its jobs, and statuses of others.

Jobs and statuses of other services are rows of one table, so a row is counted once by its id. Source:
docs.gitlab.com/api/pipelines, /api/jobs, /api/commits ("List the statuses of a commit").
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from sources.ci import hosts, wire
from sources.ci.wire import State
from sources.core import rest

PIPELINES = 3
"""Whose jobs are read: the newest of different branches and sources."""
_STATES: Mapping[str, State] = {
    "success": State.SUCCEEDED, "failed": State.FAILED, "canceled": State.CANCELLED, "canceling": State.CANCELLED,
    "skipped": State.SKIPPED, "running": State.RUNNING,
    **dict.fromkeys(("created", "waiting_for_resource", "waiting_for_callback", "preparing", "pending", "scheduled"),
                    State.WAITING),
}  # fmt: skip


class GitLab:
    """See `hosts.Host`."""

    async def read(self, api: rest.Rest, asked: hosts.CommitQuery) -> hosts.CommitChecks:
        """See `hosts.Host`."""
        root, branch = f"projects/{quote(asked.repository, safe='')}", asked.branch
        if not branch and not asked.commit:
            branch = str((await api.get(root)).json["default_branch"])
        if asked.commit:
            commit = str((await api.get(f"{root}/repository/commits/{asked.commit}")).json["id"])
        else:
            hosts.ref(branch)
            row = (await api.get(f"{root}/repository/branches/{quote(branch, safe='')}")).json
            commit = str(row["commit"]["id"])
        found, size = hosts.CommitChecks(commit, branch), {"per_page": str(hosts.PAGE)}
        newest = {"sha": commit, "order_by": "id", "sort": "desc", **size}
        pipelines = await hosts.listed(api, found, "pipelines", f"{root}/pipelines", newest, _rows)
        latest: dict[tuple[str, str], hosts.Row] = {}
        for one in pipelines:
            latest.setdefault((str(one.get("ref")), str(one.get("source"))), one)
        kept = list(latest.values())
        if len(kept) > PIPELINES:
            found.unread.append(f"jobs: only of {PIPELINES} of {len(kept)} pipelines")
        known: set[int] = set()
        for one in kept:
            found.checks.append(_pipeline(one))
        for one in kept[:PIPELINES]:
            path = f"{root}/pipelines/{int(one['id'])}/jobs"
            for job in await hosts.listed(api, found, f"jobs of pipeline {one['id']}", path, size, _rows):
                known.add(int(job["id"]))
                found.checks.append(_job(job))
        of = {int(one["id"]) for one in kept}
        path = f"{root}/repository/commits/{commit}/statuses"
        for row in await hosts.listed(api, found, "commit statuses", path, size, _rows):
            # A status of a pipeline that another one has replaced says nothing any more.
            if int(row["id"]) not in known and (row.get("pipeline_id") is None or int(row["pipeline_id"]) in of):
                found.checks.append(_status(row))
        return found


def _rows(said: object) -> object:
    return said


def _state(row: hosts.Row) -> State:
    if row["status"] == "manual":
        return State.SKIPPED if row.get("allow_failure") else State.WAITING
    return _STATES.get(str(row["status"]), State.UNKNOWN)


def _pipeline(row: hosts.Row) -> wire.Check:
    state = _STATES.get(str(row["status"]), State.WAITING if row["status"] == "manual" else State.UNKNOWN)
    return hosts.check(
        f"pipeline {int(row['id'])} of {row.get('ref') or '?'} ({row.get('source') or '?'})",
        "pipeline",
        state,
        url=row.get("web_url"),
        started=row.get("created_at"),
        finished="" if state in (State.RUNNING, State.WAITING) else row.get("updated_at"),
    )


def _job(row: hosts.Row) -> wire.Check:
    reason = str(row.get("failure_reason") or "")
    return hosts.check(
        f"{row.get('stage') or '?'}: {row['name']}",
        "job",
        _state(row),
        url=row.get("web_url"),
        started=row.get("started_at"),
        finished=row.get("finished_at"),
        summary=f"failed because of: {reason}" if reason else "",
        may_fail=bool(row.get("allow_failure")),
    )


def _status(row: hosts.Row) -> wire.Check:
    return hosts.check(
        row["name"],
        "status",
        _state(row),
        url=row.get("target_url"),
        started=row.get("started_at") or row.get("created_at"),
        finished=row.get("finished_at"),
        summary=row.get("description"),
        may_fail=bool(row.get("allow_failure")),
    )
