"""What checks say of a commit, through the sources process, which holds the credentials.

Names, summaries and addresses of checks are texts of others: an aim that stands in them was retrieved, not named by
the user, as with every result of a tool.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue, model_validator

from contracts.rules import enforce_lines
from orchestrator_job import outcome
from orchestrator_job.effects.tools import bounds, connections, port, settings
from sources import client as sources_client

KIND = "ci"
_SUMMARY = 500


class CiStatus(port.Arguments):
    """`branch` or `commit`, or neither for the default branch. `repository` is owner/name, left out where the
    Connection has only one; `connection` is of type GitHub, GitLab or Gitea."""

    connection: connections.Name = ""
    repository: Annotated[str, Field(max_length=500)] = ""
    branch: Annotated[str, Field(max_length=255)] = ""
    commit: Annotated[str, Field(pattern=r"^([0-9a-f]{7,64})?$")] = ""

    @model_validator(mode="after")
    def _one(self) -> CiStatus:
        if self.branch and self.commit:
            raise ValueError("give a branch or a commit, not both")
        return self


class Checks:
    """The tool."""

    name = "ci_status"
    description = "What the checks (CI) of a branch or commit say: overall, and of each its state, times and summary."
    arguments = CiStatus
    away_seconds = port.DISPENSABLE_SECONDS

    def __init__(
        self, client: sources_client.Client, allowed: settings.Settings, rules: enforce_lines.Provisions
    ) -> None:
        self._client, self._rules = client, rules
        self._usual = allowed.ci_connection or allowed.tracker_connection

    async def read(self, given: CiStatus, place: port.Place) -> port.Result:
        """The report. Raises `sources_client.Unavailable`."""
        connection = given.connection or self._usual
        if not connection:
            raise port.Misused(f"{self.name}: connection: name the Connection")
        try:
            found = await self._client.checks(
                connection, repository=given.repository, branch=given.branch, commit=given.commit
            )
        except sources_client.Rejected as error:
            outcome.recheck(error)
            return bounds.failed(error)
        source = f"ci::{found.connection}/{found.repository}@{found.commit[:12]}"
        if not self._rules.shows(source, KIND):
            return bounds.failed("A hard rule keeps this back.")
        data: dict[str, JsonValue] = {
            "repository": found.repository,
            "commit": found.commit,
            "state": found.state.value,
            "failed": [one.name for one in found.checks if one.state is sources_client.ci.State.FAILED],
            "provenance": "retrieved",
        }
        return port.Result(bounds.cut(text(found)), data=data, sources=(source,))


def text(found: sources_client.ci.Report) -> str:
    """For the model. Pure."""
    at = f", branch {found.branch}" if found.branch else ""
    lines = [f"{found.state.value}: commit {found.commit} of {found.repository}{at}"]
    for one in found.checks:
        times = " to ".join(filter(None, (one.started_at, one.finished_at)))
        more = [one.kind, "may fail" if one.may_fail else "", times, one.url]
        lines.append(f"- {one.state.value}: {one.name} ({', '.join(filter(None, more))})")
        lines += [f"    {line}" for line in bounds.cut(one.summary, _SUMMARY, "").splitlines() if line.strip()]
    if not found.checks and not found.unread:
        lines.append("Nothing checks this commit.")
    lines += [f"[{found.left_out} more checks are left out.]"] if found.left_out else []
    lines += [f"[not read: {one}]" for one in found.unread]
    return "\n".join(lines)
