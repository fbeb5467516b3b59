"""Issues as an effect writes them at Gitea."""

from __future__ import annotations

from sources.providers.git_host.effects import Dialect, Labels

DIALECT = Dialect(
    issues="repos/{r}/issues",
    comments="repos/{r}/issues/{n}/comments",
    number="number",
    body="body",
    method="PATCH",
    page="limit",
    newest={"state": "all", "type": "issues"},
    link="html_url",
    comment_link="html_url",
    labels=Labels.IDS,
)
