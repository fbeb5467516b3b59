"""Issues as an effect writes them at GitHub."""

from __future__ import annotations

from sources.providers.git_host.effects import Dialect

DIALECT = Dialect(
    issues="repos/{r}/issues",
    comments="repos/{r}/issues/{n}/comments",
    number="number",
    body="body",
    method="PATCH",
    page="per_page",
    newest={"state": "all", "sort": "created", "direction": "desc"},
    link="html_url",
    comment_link="html_url",
)
