"""GitHub: issues and pull requests by the REST API, version 2022-11-28, of github.com and of an Enterprise Server.

One list has both. Comments of the conversation are taken, those in the code of a pull request are not. Source:
docs.github.com/rest/issues, "Best practices for using the REST API" (conditional requests, rate limits).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from crds import access
from sources.core import port, rest
from sources.providers.git_host import git_host, issue

PAGE = 100
_UPLOAD = re.compile(r"https?://[^\s/()<>\"']+/user-attachments/(?:assets|files)/[\w./%-]+")
_LAST = re.compile(r'<([^>]+)>;\s*rel="last"')


class GitHub:
    """See `git_host.Host`."""

    provider = "github"
    number = "number"
    since = "since"
    keeps = False

    def __init__(self, page: int = PAGE) -> None:
        self._page = str(page)

    def lists(self, repository: str, choice: git_host.Choice) -> tuple[git_host.Listing, ...]:
        """See `git_host.Host`."""
        order = {"per_page": self._page, "sort": "updated", "direction": "asc"}
        labels = {"labels": choice.labels} if choice.labels else {}
        return (
            git_host.Listing(f"{repository} comments", f"repos/{repository}/issues/comments", order, comments=True),
            git_host.Listing(
                f"{repository} issues", f"repos/{repository}/issues", order | {"state": choice.state} | labels
            ),
        )

    def newest_first(self, listing: git_host.Listing) -> git_host.Query:
        """See `git_host.Host`."""
        return {**listing.query, "sort": "created", "direction": "desc"}

    def following(self, answer: rest.Answer, query: git_host.Query) -> git_host.Query | None:
        """See `git_host.Host`."""
        return rest.next_query(answer)

    async def count(self, api: rest.Rest, listing: git_host.Listing, query: git_host.Query) -> int | None:
        """The number of the last page where a page has one thing."""
        answer = await api.get(listing.path, {**query, "per_page": "1"})
        if not isinstance(answer.json, list):
            raise port.Unreachable(f"{listing.path} answered no list.")
        found = _LAST.search(answer.headers.get("Link", ""))
        if found is None:
            return None if rest.next_query(answer) else len(answer.json)
        page = dict(parse_qsl(urlsplit(found[1]).query)).get("page", "")
        return int(page) if page.isdigit() else None

    async def access(self, api: rest.Rest, repository: str) -> git_host.Readers:
        """Public, or for the members; so is one that is shown to all of an enterprise (internal)."""
        row = await git_host.repository(api, f"repos/{repository}")
        public = row.get("private") is False and row.get("visibility", "public") == "public"
        return {"#": access.PUBLIC if public else git_host.members(self.provider, repository)}

    async def comment_count(self, api: rest.Rest, repository: str) -> int | None:
        """See `git_host.Host`."""
        return None

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
        state = str(row["state"])
        if pull and pull.get("merged_at"):
            state = "merged"
        elif row.get("state_reason"):
            state = f"{state} ({row['state_reason']})"
        return issue.Thing(
            repository=repository,
            mark="#",
            number=int(row["number"]),
            kind="pull request" if pull else str((row.get("type") or {}).get("name") or "issue"),
            title=str(row["title"]),
            body=str(row.get("body") or ""),
            state=state,
            url=str(row.get("html_url") or ""),
            created=str(row["created_at"]),
            updated=str(row["updated_at"]),
            closed=str(row.get("closed_at") or ""),
            milestone=str((row.get("milestone") or {}).get("title") or ""),
            author=person(row.get("user")),
            assignees=tuple(who for one in row.get("assignees") or () if (who := person(one))),
            labels=tuple(str(one["name"]) if isinstance(one, dict) else str(one) for one in row.get("labels") or ()),
            comments=row.get("comments"),
        )

    def owner(self, row: Mapping[str, Any], repository: str) -> str:
        """See `git_host.Host`."""
        return f"repos/{repository}/issues/{int(str(row['issue_url']).rpartition('/')[2])}"

    def comments_of(self, thing: issue.Thing) -> tuple[str, git_host.Query]:
        """See `git_host.Host`."""
        return f"repos/{thing.repository}/issues/{thing.number}/comments", {"per_page": str(PAGE)}

    def comment(self, row: Mapping[str, Any]) -> issue.Comment | None:
        """See `git_host.Host`."""
        return comment(row)

    def files(self, row: Mapping[str, Any], repository: str, text: str) -> Sequence[issue.Linked]:
        """Files under user-attachments of the host, by its own address."""
        return [
            issue.Linked(url.rpartition("/")[2], urlsplit(url).path.lstrip("/"), url) for url in _UPLOAD.findall(text)
        ]

    def rest_of(self, linked: issue.Linked) -> str:
        """See `git_host.Host`."""
        return "web"


def person(row: Mapping[str, Any] | None) -> issue.Person | None:
    """None for an account that was deleted."""
    return issue.Person(str(row["login"]), str(row.get("full_name") or row.get("name") or "")) if row else None


def comment(row: Mapping[str, Any]) -> issue.Comment:
    """Of GitHub, and of Gitea, which follows it."""
    who = person(row.get("user")) or issue.Person("ghost")
    return issue.Comment(
        str(int(row["id"])), who, str(row["created_at"]), str(row["updated_at"]), str(row.get("body") or "")
    )
