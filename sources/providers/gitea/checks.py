"""Checks of a commit at Gitea (and Forgejo): commit statuses, of which Actions writes one for each job, and its runs.

A server whose Actions are off, or that is older than the list of runs, has statuses alone. Source: Gitea 1.26,
routers/api/v1/repo/status.go, action.go, and its /api/swagger.
"""

from __future__ import annotations

from collections.abc import Mapping

from sources.ci import hosts, wire
from sources.ci.wire import State
from sources.core import rest

PAGE = 50
"""The most that a server gives unless its administrator allows more."""
_STATES: Mapping[str, State] = {
    "success": State.SUCCEEDED, "warning": State.SUCCEEDED, "failure": State.FAILED, "error": State.FAILED,
    "pending": State.WAITING, "skipped": State.SKIPPED, "cancelled": State.CANCELLED,
}  # fmt: skip


class Gitea:
    """See `hosts.Host`."""

    async def read(self, api: rest.Rest, asked: hosts.CommitQuery) -> hosts.CommitChecks:
        """See `hosts.Host`."""
        root, branch = f"repos/{asked.repository}", asked.branch
        if not branch and not asked.commit:
            branch = str((await api.get(root)).json["default_branch"])
        if asked.commit:
            bare = {"stat": "false", "verification": "false", "files": "false"}
            commit = str((await api.get(f"{root}/git/commits/{asked.commit}", bare)).json["sha"])
        else:
            commit = str((await api.get(f"{root}/branches/{hosts.ref(branch)}")).json["commit"]["id"])
        found, size = hosts.CommitChecks(commit, branch), {"limit": str(PAGE)}
        statuses = await hosts.listed(
            api, found, "commit statuses", f"{root}/commits/{commit}/status", size,
            lambda said: (said or {}).get("statuses") or [],
        )  # fmt: skip
        found.checks = [_status(one) for one in statuses]
        aside = hosts.CommitChecks(commit)
        runs = await hosts.listed(
            api, aside, "runs of Actions", f"{root}/actions/runs", {**size, "head_sha": commit},
            lambda said: (said or {}).get("workflow_runs") or [],
        )  # fmt: skip
        found.checks += [_run(one) for one in runs]
        return found


def _status(row: hosts.Row) -> wire.Check:
    state = _STATES.get(str(row["status"]), State.UNKNOWN)
    return hosts.check(
        row["context"],
        "status",
        state,
        url=row.get("target_url"),
        started=row.get("created_at"),
        finished="" if state is State.WAITING else row.get("updated_at"),
        summary=row.get("description"),
    )


def _run(row: hosts.Row) -> wire.Check:
    if row.get("status") == "completed":
        state = _STATES.get(str(row.get("conclusion")), State.UNKNOWN)
    else:
        state = State.RUNNING if row.get("status") in ("in_progress", "running") else State.WAITING
    return hosts.check(
        f"{str(row.get('path') or '').partition('@')[0] or '?'}: {row.get('display_title') or ''}",
        "run",
        state,
        url=row.get("html_url"),
        started=row.get("started_at"),
        finished=row.get("completed_at"),
    )
