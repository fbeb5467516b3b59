"""GitLab: issues and merge requests of projects by the REST API, version 4.

Two lists. A note that is written or changed changes the time of its issue; one that is deleted does not. Source:
docs.gitlab.com/api/issues, /api/merge_requests, /api/notes, /api/project_markdown_uploads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from crds import access
from sources.core import rest
from sources.providers.git_host import git_host, issue

PAGE = 100
_UPLOAD = re.compile(r"/uploads/([0-9a-f]{32})/([^\s()<>\"'/]+)")
_EVERYONE = ("enabled", "public")
_STATES = {"open": "opened", "closed": "closed", "all": "all"}


class GitLab:
    """See `git_host.Host`."""

    provider = "gitlab"
    number = "iid"
    since = "updated_after"
    keeps = False

    def __init__(self, page: int = PAGE) -> None:
        self._page = str(page)

    def lists(self, repository: str, choice: git_host.Choice) -> tuple[git_host.Listing, ...]:
        """See `git_host.Host`."""
        query = {"per_page": self._page, "order_by": "updated_at", "sort": "asc", "scope": "all"}
        query |= {"state": _STATES[choice.state], **({"labels": choice.labels} if choice.labels else {})}
        paths = {"issues": "issues", "pulls": "merge_requests"}
        return tuple(
            git_host.Listing(
                f"{repository} {kind}",
                f"{_project(repository)}/{paths[kind]}",
                query,
                mark="!" if kind == "pulls" else "#",
            )
            for kind in choice.types
        )

    def newest_first(self, listing: git_host.Listing) -> git_host.Query:
        """See `git_host.Host`."""
        return {**listing.query, "order_by": "created_at", "sort": "desc"}

    def following(self, answer: rest.Answer, query: git_host.Query) -> git_host.Query | None:
        """See `git_host.Host`."""
        return rest.next_query(answer)

    async def count(self, api: rest.Rest, listing: git_host.Listing, query: git_host.Query) -> int | None:
        """X-Total is in every answer of up to 10,000 things."""
        return None

    async def access(self, api: rest.Rest, repository: str) -> git_host.Readers:
        """Public where the project and its issues or merge requests are; else for the members."""
        row = await git_host.repository(api, _project(repository))
        levels = {"#": row.get("issues_access_level"), "!": row.get("merge_requests_access_level")}
        shown = {mark for mark, level in levels.items() if row.get("visibility") == "public" and level in _EVERYONE}
        return {
            mark: access.PUBLIC if mark in shown else git_host.members(self.provider, repository) for mark in levels
        }

    async def comment_count(self, api: rest.Rest, repository: str) -> int | None:
        """See `git_host.Host`."""
        return None

    def name(self, row: Mapping[str, Any], listing: git_host.Listing) -> tuple[str, str, str]:
        """See `git_host.Host`."""
        changed = str(row["updated_at"])
        return str(int(row["iid"])), f"{changed}/{row.get('user_notes_count', '')}", changed

    def thing(self, row: Mapping[str, Any], repository: str, choice: git_host.Choice) -> issue.Thing | None:
        """See `git_host.Host`."""
        merge = "source_branch" in row
        return issue.Thing(
            repository=repository,
            mark="!" if merge else "#",
            number=int(row["iid"]),
            kind="merge request" if merge else str(row.get("issue_type") or "issue"),
            title=str(row["title"]),
            body=str(row.get("description") or ""),
            state=str(row["state"]),
            url=str(row.get("web_url") or ""),
            created=str(row["created_at"]),
            updated=str(row["updated_at"]),
            closed=str(row.get("merged_at") or row.get("closed_at") or ""),
            due=str(row.get("due_date") or ""),
            milestone=str((row.get("milestone") or {}).get("title") or ""),
            priority=str(row.get("severity") or "").lower() if row.get("issue_type") == "incident" else "",
            author=_person(row.get("author")),
            assignees=tuple(who for one in row.get("assignees") or () if (who := _person(one))),
            labels=tuple(str(one["name"]) if isinstance(one, dict) else str(one) for one in row.get("labels") or ()),
            branches=f"{row['source_branch']} -> {row['target_branch']}" if merge else "",
            confidential=bool(row.get("confidential")),
            comments=None,  # the number that the list has leaves out some notes
        )

    def owner(self, row: Mapping[str, Any], repository: str) -> str:
        """There is no list of notes."""
        raise NotImplementedError

    def comments_of(self, thing: issue.Thing) -> tuple[str, git_host.Query]:
        """See `git_host.Host`."""
        kind = "merge_requests" if thing.mark == "!" else "issues"
        path = f"{_project(thing.repository)}/{kind}/{thing.number}/notes"
        return path, {"per_page": str(PAGE), "order_by": "created_at", "sort": "asc"}

    def comment(self, row: Mapping[str, Any]) -> issue.Comment | None:
        """None for a note of the system, such as a changed label, and for an internal one, which fewer may read."""
        if row.get("system") or row.get("internal") or row.get("confidential"):
            return None
        who = _person(row.get("author")) or issue.Person("ghost")
        return issue.Comment(
            str(int(row["id"])), who, str(row["created_at"]), str(row["updated_at"]), str(row.get("body") or "")
        )

    def files(self, row: Mapping[str, Any], repository: str, text: str) -> Sequence[issue.Linked]:
        """Files under /uploads/ of the project; the API has them since GitLab 17.4."""
        return [
            issue.Linked(
                name, f"{_project(repository)}/uploads/{secret}/{quote(name, safe='%')}", f"/uploads/{secret}/{name}"
            )
            for secret, name in _UPLOAD.findall(text)
        ]

    def rest_of(self, linked: issue.Linked) -> str:
        """See `git_host.Host`."""
        return "api"


def _project(repository: str) -> str:
    return f"projects/{quote(repository, safe='')}"


def _person(row: Mapping[str, Any] | None) -> issue.Person | None:
    return issue.Person(str(row["username"]), str(row.get("name") or "")) if row else None
