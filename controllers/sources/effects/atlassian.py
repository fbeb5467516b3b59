"""addComment, createIssue and updateIssue at Jira, editPage at Confluence.

Jira keeps the effect's mark as a property of the issue or comment, Confluence in the message of the page's version; an
effect that may have happened is looked for by it. Jira finds new issues by an index that may be late: one that is not
found there may exist all the same. Sources: Jira Cloud REST v3 "Issues", "Issue comments", "Issue properties";
Confluence REST "Content"; Atlassian Document Format.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from controllers.sources import rest
from controllers.sources.effects import arguments, doing, places
from controllers.sources.http import problems

PROPERTY = "jervis-effect"
_ISSUE = "rest/api/3/issue"
_PAGE = 100
Row = Mapping[str, Any]


def document(text: str) -> dict[str, Any]:
    """Paragraphs of the Atlassian Document Format, one of each group of lines."""

    def paragraph(lines: str) -> dict[str, Any]:
        nodes: list[dict[str, Any]] = []
        for number, line in enumerate(lines.split("\n")):
            nodes += [{"type": "hardBreak"}] if number else []
            nodes += [{"type": "text", "text": line}] if line else []
        return {"type": "paragraph", "content": nodes}

    return {"type": "doc", "version": 1, "content": [paragraph(one) for one in _groups(text)]}


def storage(text: str) -> str:
    """The same in Confluence's storage format; what looks like markup is text."""
    return "".join(f"<p>{'<br />'.join(escape(line) for line in one.split(chr(10)))}</p>" for one in _groups(text))


def _groups(text: str) -> list[str]:
    found = [one.strip("\n") for one in text.replace("\r\n", "\n").split("\n\n")]
    return [one for one in found if one.strip()]


class _Jira:
    def __init__(self, api: rest.Rest, place: places.Place, mark: str) -> None:
        self._api, self._place, self._mark = api, place, mark
        self._property = {"key": PROPERTY, "value": {"id": mark}}

    async def close(self) -> None:
        """Give the connections back."""
        await self._api.close()

    async def _noted(self, issue: str) -> doing.Before:
        """Also whether its project is one of the Connection's: the key that it had before it was moved opens it."""
        fields = (await self._api.get(f"{_ISSUE}/{issue}", {"fields": "updated,project"})).json["fields"]
        self._place.admit(fields["project"], "issue")
        return {"updated": str(fields["updated"])}


class Comment(_Jira):
    """addComment."""

    def __init__(self, api: rest.Rest, place: places.Place, mark: str, asked: arguments.AddComment) -> None:
        super().__init__(api, place, mark)
        self._asked = asked

    async def prepare(self) -> doing.Before:
        """The issue is there; the id of its newest comment."""
        await self._noted(self._asked.issue)
        rows = await self._newest(1)
        return {"last": str(rows[0]["id"]) if rows else "0"}

    async def send(self, before: doing.Before) -> doing.Result:
        """Write the comment."""
        body = {"body": document(self._asked.text), "properties": [self._property]}
        return self._result((await self._api.request("POST", self._path(), json=body)).json)

    async def ask(self, before: doing.Before) -> doing.Asked:
        """Look at the comments that are newer than the newest before."""
        rows = await self._newest(_PAGE)
        for row in rows:
            if int(row["id"]) <= int(before["last"]):
                return doing.Asked(absent=True)
            try:
                kept = await self._api.get(f"rest/api/3/comment/{row['id']}/properties/{PROPERTY}")
            except rest.Absent:
                continue
            if kept.json["value"]["id"] == self._mark:
                return doing.Asked(self._result(row))
        return doing.Asked(absent=len(rows) < _PAGE)

    async def _newest(self, count: int) -> list[Row]:
        answer = await self._api.get(self._path(), {"orderBy": "-created", "maxResults": str(count)})
        rows: list[Row] = answer.json["comments"]
        return rows

    def _path(self) -> str:
        return f"{_ISSUE}/{self._asked.issue}/comment"

    def _result(self, row: Row) -> doing.Result:
        return {"issue": self._asked.issue, "comment": str(row["id"]), "url": str(row["self"])}


class Create(_Jira):
    """createIssue."""

    def __init__(
        self, api: rest.Rest, place: places.Place, project: str, mark: str, asked: arguments.CreateIssue
    ) -> None:
        super().__init__(api, place, mark)
        self._project, self._asked = project, asked

    async def prepare(self) -> doing.Before:
        """The project is there."""
        self._place.admit((await self._api.get(f"rest/api/3/project/{self._project}")).json, "repository")
        return {}

    async def send(self, before: doing.Before) -> doing.Result:
        """Create it."""
        fields: dict[str, Any] = {
            "project": {"key": self._project},
            "summary": self._asked.title,
            "description": document(self._asked.text),
            "issuetype": {"name": self._asked.issue_type},
            **({"labels": list(self._asked.labels)} if self._asked.labels else {}),
        }
        body = {"fields": fields, "properties": [self._property]}
        return self._result((await self._api.request("POST", _ISSUE, json=body)).json)

    async def ask(self, before: doing.Before) -> doing.Asked:
        """Look through the issues of the last hour. That one is not found says nothing."""
        query = {
            "jql": f'project = "{self._project}" AND created >= -60m ORDER BY created DESC',
            "fields": "summary",
            "properties": PROPERTY,
            "maxResults": str(_PAGE),
        }
        for row in (await self._api.get("rest/api/3/search/jql", query)).json["issues"]:
            if ((row.get("properties") or {}).get(PROPERTY) or {}).get("id") == self._mark:
                return doing.Asked(self._result(row))
        return doing.Asked()

    def _result(self, row: Row) -> doing.Result:
        return {"issue": str(row["key"]), "url": str(row["self"])}


class Update(_Jira):
    """updateIssue, without `state`: how an issue is closed is each project's own workflow."""

    def __init__(self, api: rest.Rest, place: places.Place, mark: str, asked: arguments.UpdateIssue) -> None:
        super().__init__(api, place, mark)
        if asked.state is not None:
            raise problems.Invalid(
                "Jira has no open and closed, but workflows",
                field="arguments.state",
                remedy="Leave it out; a comment can ask a person to close the issue.",
            )
        self._asked = asked

    async def prepare(self) -> doing.Before:
        """The issue is there."""
        return await self._noted(self._asked.issue)

    async def send(self, before: doing.Before) -> doing.Result:
        """Change it; the property comes with the same request."""
        body = {"fields": self._fields(), "properties": [self._property]}
        await self._api.request("PUT", f"{_ISSUE}/{self._asked.issue}", json=body)
        return {"issue": self._asked.issue}

    async def ask(self, before: doing.Before) -> doing.Asked:
        """By the property, else by the time of the last change."""
        found = (
            await self._api.get(f"{_ISSUE}/{self._asked.issue}", {"fields": "updated", "properties": PROPERTY})
        ).json
        if ((found.get("properties") or {}).get(PROPERTY) or {}).get("id") == self._mark:
            return doing.Asked({"issue": self._asked.issue})
        return doing.Asked(absent=str(found["fields"]["updated"]) == before["updated"])

    def _fields(self) -> dict[str, Any]:
        asked = self._asked
        return {
            **({"summary": asked.title} if asked.title is not None else {}),
            **({"description": document(asked.text)} if asked.text is not None else {}),
            **({"labels": list(asked.labels)} if asked.labels is not None else {}),
        }


class Edit:
    """editPage: version N becomes version N+1, which Confluence takes once."""

    def __init__(self, api: rest.Rest, place: places.Place, mark: str, asked: arguments.EditPage) -> None:
        self._api, self._place, self._asked = api, place, asked
        self._path, self._message = f"rest/api/content/{asked.page}", f"jervis-effect {mark}"
        self._body: dict[str, Any] = {}

    async def close(self) -> None:
        """Give the connections back."""
        await self._api.close()

    async def prepare(self) -> doing.Before:
        """The page is there, in a space of the Connection, and has the version that was read."""
        found = (await self._api.get(self._path, {"expand": "body.storage,version,space"})).json
        number = int(found["version"]["number"])
        self._place.admit(found["space"], "page")
        if self._asked.version not in (None, number):
            raise problems.Conflict(
                f"page {self._asked.page} has version {number}",
                field="arguments.version",
                remedy="Read the page again, and send the edit with a new key.",
            )
        text = storage(self._asked.text)
        old = str(found["body"]["storage"]["value"])
        self._body = {
            "id": self._asked.page,
            "type": found["type"],
            "title": self._asked.title or found["title"],
            "version": {"number": number + 1, "message": self._message},
            "body": {
                "storage": {
                    "value": old + text if self._asked.way is arguments.Way.APPEND else text,
                    "representation": "storage",
                }
            },
        }
        return {"version": number}

    async def send(self, before: doing.Before) -> doing.Result:
        """Store the next version."""
        await self._api.request("PUT", self._path, json=self._body)
        return self._result(before)

    async def ask(self, before: doing.Before) -> doing.Asked:
        """The version behind the one that was read names the effect that made it."""
        try:
            found = (await self._api.get(f"{self._path}/version/{int(before['version']) + 1}")).json
        except rest.Absent:
            # Only where the page itself is there does its missing version mean something.
            await self._api.get(self._path)
            return doing.Asked(absent=True)
        made = found.get("message") == self._message
        return doing.Asked(self._result(before)) if made else doing.Asked(absent=True)

    def _result(self, before: doing.Before) -> doing.Result:
        return {"page": self._asked.page, "version": str(int(before["version"]) + 1)}
