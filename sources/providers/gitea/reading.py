"""Gitea: issues and pull requests of repositories by its API, version 1. Forgejo has the same one.

Lists are in the order of creation alone. A comment that is changed does not change the time of its issue, so the
repository's list of comments is read too; one that is deleted is found by their number, and then all issues are
compared once. Source: Gitea 1.26, routers/api/v1/repo/issue.go, issue_comment.go, and its /api/swagger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crds import access
from sources.core import rest
from sources.providers.git_host import git_host, issue
from sources.providers.github import reading as github

PAGE = 50
"""The most that a server gives unless its administrator allows more."""


class Gitea:
    """See `git_host.Host`."""

    provider = "gitea"
    number = "number"
    since = "since"
    keeps = True

    def __init__(self, page: int = PAGE) -> None:
        self._page = str(page)

    def lists(self, repository: str, choice: git_host.Choice) -> tuple[git_host.Listing, ...]:
        """Issues and pull requests apart: a list of both leaves out, without an error, what the user may not read."""
        query = {"limit": self._page, "page": "1"}
        asked = {**query, "state": choice.state, **({"labels": choice.labels} if choice.labels else {})}
        return (
            git_host.Listing(f"{repository} comments", f"repos/{repository}/issues/comments", query, comments=True),
            *(
                git_host.Listing(f"{repository} {kind}", f"repos/{repository}/issues", {**asked, "type": kind})
                for kind in choice.types
            ),
        )

    def newest_first(self, listing: git_host.Listing) -> git_host.Query:
        """The only order that there is."""
        return listing.query

    def following(self, answer: rest.Answer, query: git_host.Query) -> git_host.Query | None:
        """By Link; a list without it ends with a page that is empty, or that has everything. A server may give less
        than was asked for."""
        page = int(query.get("page", "0"))
        if not page:
            return None  # the comments of one issue come at once
        if "Link" in answer.headers:
            more = rest.next_query(answer) is not None
        else:
            found, total = len(answer.json or ()), answer.headers.get("X-Total-Count", "")
            more = found > 0 and not (page == 1 and total.isdigit() and found >= int(total))
        return {**query, "page": str(page + 1)} if more else None

    async def count(self, api: rest.Rest, listing: git_host.Listing, query: git_host.Query) -> int | None:
        """X-Total-Count is in every answer."""
        return None

    async def access(self, api: rest.Rest, repository: str) -> git_host.Readers:
        """Public, or for the members; so is one whose owner is not shown to everyone (internal)."""
        row = await git_host.repository(api, f"repos/{repository}")
        public = row.get("private") is False and not row.get("internal")
        return {"#": access.PUBLIC if public else git_host.members(self.provider, repository)}

    async def comment_count(self, api: rest.Rest, repository: str) -> int | None:
        """See `git_host.Host`."""
        answer = await api.get(f"repos/{repository}/issues/comments", {"limit": "1", "page": "1"})
        said = answer.headers.get("X-Total-Count", "")
        return int(said) if said.isdigit() else None

    def name(self, row: Mapping[str, Any], listing: git_host.Listing) -> tuple[str, str, str]:
        """See `git_host.Host`."""
        changed = str(row["updated_at"])
        if listing.comments:
            return str(int(row["id"])), changed, changed
        return str(int(row["number"])), f"{changed}/{row.get('comments', '')}", changed

    def thing(self, row: Mapping[str, Any], repository: str, choice: git_host.Choice) -> issue.Thing | None:
        """See `git_host.Host`."""
        pull = row.get("pull_request")
        if ("pulls" if pull else "issues") not in choice.types:
            return None
        people = row.get("assignees") or ([row["assignee"]] if row.get("assignee") else [])
        return issue.Thing(
            repository=repository,
            mark="#",
            number=int(row["number"]),
            kind="pull request" if pull else "issue",
            title=str(row["title"]),
            body=str(row.get("body") or ""),
            state="merged" if pull and pull.get("merged") else str(row["state"]),
            url=str(row.get("html_url") or ""),
            created=str(row["created_at"]),
            updated=str(row["updated_at"]),
            closed=str(row.get("closed_at") or ""),
            due=str(row.get("due_date") or ""),
            milestone=str((row.get("milestone") or {}).get("title") or ""),
            author=issue.Person(str(row["original_author"]))
            if row.get("original_author")
            else github.person(row.get("user")),
            assignees=tuple(who for one in people if (who := github.person(one))),
            labels=tuple(str(one["name"]) for one in row.get("labels") or ()),
            comments=row.get("comments"),
        )

    def owner(self, row: Mapping[str, Any], repository: str) -> str:
        """See `git_host.Host`."""
        address = str(row.get("issue_url") or row.get("pull_request_url"))
        return f"repos/{repository}/issues/{int(address.rpartition('/')[2])}"

    def comments_of(self, thing: issue.Thing) -> tuple[str, git_host.Query]:
        """See `git_host.Host`."""
        return f"repos/{thing.repository}/issues/{thing.number}/comments", {}

    def comment(self, row: Mapping[str, Any]) -> issue.Comment | None:
        """See `git_host.Host`."""
        return github.comment(row)

    def files(self, row: Mapping[str, Any], repository: str, text: str) -> Sequence[issue.Linked]:
        """Those attached to the issue or the comment."""
        return [
            issue.Linked(str(one["name"]), f"attachments/{one['uuid']}", str(one["name"]))
            for one in row.get("assets") or ()
        ]

    def rest_of(self, linked: issue.Linked) -> str:
        """See `git_host.Host`."""
        return "web"
