"""Issues as an effect writes them at GitLab."""

from __future__ import annotations

from sources.providers.git_host.effects import Dialect, Labels

DIALECT = Dialect(
    issues="projects/{r}/issues",
    comments="projects/{r}/issues/{n}/notes",
    number="iid",
    body="description",
    method="PUT",
    page="per_page",
    newest={"scope": "all", "order_by": "created_at", "sort": "desc"},
    link="web_url",
    comment_link="",
    labels=Labels.JOINED,
    newest_comments={"order_by": "created_at", "sort": "desc"},
    path_parts=False,
    slash_commands=True,
    state_event=True,
)
