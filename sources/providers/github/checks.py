"""Checks of a commit at GitHub: check runs, of which those of Actions are some, and commit statuses.

Of the first failing check runs the annotations are read too, and of those of Actions the step that failed: they are
what the logs would be searched for. Source: docs.github.com/rest (2022-11-28), "Commit statuses", "Check runs",
"Workflow jobs".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sources.ci import hosts, wire
from sources.ci.wire import State
from sources.core import rest

DETAILED = 3
"""Failing check runs that are read closely."""
_ANNOTATIONS = 5
_ACTIONS = "github-actions"
_ENDED: Mapping[str, State] = {
    "success": State.SUCCEEDED, "neutral": State.SKIPPED, "skipped": State.SKIPPED, "failure": State.FAILED,
    "timed_out": State.FAILED, "startup_failure": State.FAILED, "cancelled": State.CANCELLED,
    "stale": State.CANCELLED, "action_required": State.WAITING,
}  # fmt: skip
_STATUS: Mapping[str, State] = {
    "success": State.SUCCEEDED, "failure": State.FAILED, "error": State.FAILED, "pending": State.WAITING,
}  # fmt: skip


class GitHub:
    """See `hosts.Host`."""

    async def read(self, api: rest.Rest, asked: hosts.CommitQuery) -> hosts.CommitChecks:
        """See `hosts.Host`."""
        root, branch = f"repos/{asked.repository}", asked.branch
        if not branch and not asked.commit:
            branch = str((await api.get(root)).json["default_branch"])
        name = asked.commit or f"heads/{hosts.ref(branch)}"
        size = {"per_page": str(hosts.PAGE)}
        found = hosts.CommitChecks("", branch)
        # It names the commit of a branch, of whatever length the given one is.
        first = await api.get(f"{root}/commits/{name}/status", {"per_page": "1"})
        found.commit = str(first.json["sha"])
        at = f"{root}/commits/{found.commit}"
        runs = await hosts.listed(
            api, found, "check runs", f"{at}/check-runs", {**size, "filter": "latest"}, lambda said: said["check_runs"]
        )
        statuses = await hosts.listed(
            api, found, "commit statuses", f"{at}/status", size, lambda said: said["statuses"]
        )
        failed = [one for one in runs if _state(one) is State.FAILED][:DETAILED]
        more = {int(one["id"]): await self._details(api, root, one) for one in failed}
        found.checks = [_run(one, more.get(int(one["id"]), "")) for one in runs]
        found.checks += [_status(one) for one in statuses]
        return found

    async def _details(self, api: rest.Rest, root: str, run: hosts.Row) -> str:
        """The failing step of a job of Actions, and the first annotations."""
        lines: list[str] = []
        aside = hosts.CommitChecks("")
        if (run.get("app") or {}).get("slug") == _ACTIONS:
            job = f"{root}/actions/jobs/{int(run['id'])}"
            steps = await hosts.listed(api, aside, "steps", job, {}, lambda said: said.get("steps") or [])
            failing = [str(one.get("name") or "") for one in steps if one.get("conclusion") == "failure"]
            lines += [f"failed step: {one}" for one in failing[:1]]
        if (run.get("output") or {}).get("annotations_count"):
            path = f"{root}/check-runs/{int(run['id'])}/annotations"
            notes = await hosts.listed(
                api, aside, "annotations", path, {"per_page": str(_ANNOTATIONS)}, lambda said: said[:_ANNOTATIONS]
            )
            lines += [_annotation(one) for one in notes[:_ANNOTATIONS]]
        return "\n".join(lines)


def _state(run: hosts.Row) -> State:
    if run.get("status") == "completed":
        return _ENDED.get(str(run.get("conclusion")), State.UNKNOWN)
    return State.RUNNING if run.get("status") == "in_progress" else State.WAITING


def _run(run: hosts.Row, details: str) -> wire.Check:
    output: Mapping[str, Any] = run.get("output") or {}
    said = [details, *(str(output[one]) for one in ("title", "summary") if output.get(one))]
    return hosts.check(
        run["name"],
        "check",
        _state(run),
        url=run.get("html_url") or run.get("details_url"),
        started=run.get("started_at"),
        finished=run.get("completed_at"),
        summary="\n".join(one for one in said if one),
    )


def _status(row: hosts.Row) -> wire.Check:
    state = _STATUS.get(str(row["state"]), State.UNKNOWN)
    return hosts.check(
        row["context"],
        "status",
        state,
        url=row.get("target_url"),
        started=row.get("created_at"),
        finished="" if state is State.WAITING else row.get("updated_at"),
        summary=row.get("description"),
    )


def _annotation(row: hosts.Row) -> str:
    where = f"{row.get('path') or ''}:{row.get('start_line') or ''}"
    return f"{where}: {hosts.text(row.get('message'), 200)}"
