"""addComment, createIssue and updateIssue at Jira, editPage at Confluence.

Jira keeps the effect's mark as a property of the issue or comment, Confluence in the message of the page's version; an
effect that may have happened is looked for by it. Jira finds new issues by an index that may be late: one that is not
found there may exist all the same. Data Center has version 2 of Jira's API, whose texts are wiki markup and whose
search shows no properties. Sources: Jira Cloud REST v3 "Issues", "Issue comments", "Issue properties"; Jira Data Center
REST v2 "issue", "comment properties", "Text Formatting Notation"; Confluence REST "Content" (`status=historical`);
Atlassian Document Format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

import structlog

from sources.api import problems
from sources.core import host_address, rest
from sources.core.host_address import HostAddress
from sources.effects import arguments, effect_protocol, permitted_names, tools
from sources.providers.atlassian import address as atlassian_address

log = structlog.get_logger("sources")

PROPERTY = "jervis-effect"
_PAGE = 100
_CLOUD, _DATA_CENTER = 3, 2
# `h1.` and `bq.` begin a line; a dash within a word is none of markup.
_SPECIAL = re.compile(r"[\\{}\[\]!*_+^~|#?]|(?<!\w)-|-(?!\w)")
_BLOCK = re.compile(r"^(\s*)([hb])(?=[1-6]\.\s|q\.\s)", re.MULTILINE)
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


def markup(text: str) -> str:
    """A text in the wiki markup of Data Center; what looks like markup, a mention or a macro, is text."""
    escaped = _SPECIAL.sub(lambda found: f"\\{found[0]}", "\n\n".join(_groups(text)))
    return _BLOCK.sub(lambda found: f"{found[1]}&#{ord(found[2])};", escaped)


def storage(text: str) -> str:
    """A text in Confluence's storage format; what looks like markup is text."""
    return "".join(f"<p>{'<br />'.join(escape(line) for line in one.split(chr(10)))}</p>" for one in _groups(text))


def _groups(text: str) -> list[str]:
    found = [one.strip("\n") for one in text.replace("\r\n", "\n").split("\n\n")]
    return [one for one in found if one.strip()]


_PROJECT = re.compile(r"^[A-Z][A-Z0-9_]*\Z")


class _Jira(effect_protocol.Effect):
    def __init__(self, api: rest.Rest, address: HostAddress, mark: str) -> None:
        self._api, self._address, self._mark = api, address, mark
        self._property = {"key": PROPERTY, "value": {"id": mark}}
        self._version = _CLOUD

    async def close(self) -> None:
        """Give the connections back."""
        await self._api.close()

    async def _first(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """The first question, by which the product shows: Data Center has no version 3."""
        try:
            return await self._get(path, params)
        except rest.Absent:
            said = (await self._api.get("rest/api/2/serverInfo")).json.get("deploymentType")
            if said == "Cloud":
                raise
            self._version = _DATA_CENTER
            return await self._get(path, params)

    def _before(self, **said: str) -> effect_protocol.Before:
        return {**said, "version": self._version}

    def _again(self, before: effect_protocol.Before) -> None:
        """Go on with what was prepared, also by another process."""
        self._version = int(before.get("version", _CLOUD))

    async def _get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return (await self._api.get(f"rest/api/{self._version}/{path}", params)).json

    async def _change(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        return (await self._api.request(method, f"rest/api/{self._version}/{path}", json=body)).json

    def _text(self, text: str) -> Any:
        return document(text) if self._version == _CLOUD else markup(text)

    async def _noted(self, issue: str) -> effect_protocol.Before:
        """Also whether its project is one of the Connection's: the key that it had before it was moved opens it."""
        fields = (await self._first(f"issue/{issue}", {"fields": "updated,project"}))["fields"]
        permitted_names.admit(self._address, fields["project"], "issue")
        return self._before(updated=str(fields["updated"]))


class Comment(_Jira):
    """addComment."""

    def __init__(self, api: rest.Rest, address: HostAddress, mark: str, asked: arguments.AddComment) -> None:
        super().__init__(api, address, mark)
        self._asked = asked

    async def prepare(self) -> effect_protocol.Before:
        """The issue is there; the id of its newest comment."""
        await self._noted(self._asked.issue)
        rows = await self._newest(1)
        return self._before(last=str(rows[0]["id"]) if rows else "0")

    async def send(self, before: effect_protocol.Before) -> effect_protocol.Result:
        """Write the comment."""
        body = {"body": self._text(self._asked.text), "properties": [self._property]}
        return self._result(await self._change("POST", self._path(), body))

    async def ask(self, before: effect_protocol.Before) -> effect_protocol.Evidence:
        """Look at the comments that are newer than the newest before."""
        self._again(before)
        rows = await self._newest(_PAGE)
        for row in rows:
            if int(row["id"]) <= int(before["last"]):
                return effect_protocol.Evidence(absent=True)
            try:
                kept = await self._get(f"comment/{row['id']}/properties/{PROPERTY}")
            except rest.Absent:
                continue
            if kept["value"]["id"] == self._mark:
                return effect_protocol.Evidence(self._result(row))
        return effect_protocol.Evidence(absent=len(rows) < _PAGE)

    async def _newest(self, count: int) -> list[Row]:
        answer = await self._get(self._path(), {"orderBy": "-created", "maxResults": str(count)})
        rows: list[Row] = answer["comments"]
        return rows

    def _path(self) -> str:
        return f"issue/{self._asked.issue}/comment"

    def _result(self, row: Row) -> effect_protocol.Result:
        return {"issue": self._asked.issue, "comment": str(row["id"]), "url": str(row["self"])}


class Create(_Jira):
    """createIssue."""

    def __init__(
        self, api: rest.Rest, address: HostAddress, project: str, mark: str, asked: arguments.CreateIssue
    ) -> None:
        super().__init__(api, address, mark)
        self._project, self._asked = project, asked

    async def prepare(self) -> effect_protocol.Before:
        """The project is there."""
        permitted_names.admit(self._address, await self._first(f"project/{self._project}"), "repository")
        return self._before()

    async def send(self, before: effect_protocol.Before) -> effect_protocol.Result:
        """Create it."""
        fields: dict[str, Any] = {
            "project": {"key": self._project},
            "summary": self._asked.title,
            "description": self._text(self._asked.text),
            "issuetype": {"name": self._asked.issue_type},
            **({"labels": list(self._asked.labels)} if self._asked.labels else {}),
        }
        body = {"fields": fields, "properties": [self._property]}
        return self._result(await self._change("POST", "issue", body))

    async def ask(self, before: effect_protocol.Before) -> effect_protocol.Evidence:
        """Look through the issues of the last hour. That one is not found says nothing."""
        self._again(before)
        query = {
            "jql": f'project = "{self._project}" AND created >= -60m ORDER BY created DESC',
            "fields": "summary",
            "maxResults": str(_PAGE),
        }
        cloud = self._version == _CLOUD
        query |= {"properties": PROPERTY} if cloud else {}
        for row in (await self._get("search/jql" if cloud else "search", query))["issues"]:
            kept = row.get("properties")
            if not cloud and row["fields"]["summary"] == self._asked.title:
                kept = (await self._get(f"issue/{row['key']}", {"properties": PROPERTY})).get("properties")
            if ((kept or {}).get(PROPERTY) or {}).get("id") == self._mark:
                return effect_protocol.Evidence(self._result(row))
        return effect_protocol.Evidence()

    def _result(self, row: Row) -> effect_protocol.Result:
        return {"issue": str(row["key"]), "url": str(row["self"])}


class Update(_Jira):
    """updateIssue, without `state`: how an issue is closed is each project's own workflow."""

    def __init__(self, api: rest.Rest, address: HostAddress, mark: str, asked: arguments.UpdateIssue) -> None:
        super().__init__(api, address, mark)
        if asked.state is not None:
            raise problems.Invalid(
                "Jira has no open and closed, but workflows",
                field="arguments.state",
                remedy="Leave it out; a comment can ask a person to close the issue.",
            )
        self._asked = asked

    async def prepare(self) -> effect_protocol.Before:
        """The issue is there."""
        return await self._noted(self._asked.issue)

    async def send(self, before: effect_protocol.Before) -> effect_protocol.Result:
        """Change it; the property comes with the same request."""
        body = {"fields": self._fields(), "properties": [self._property]}
        await self._change("PUT", f"issue/{self._asked.issue}", body)
        return {"issue": self._asked.issue}

    async def ask(self, before: effect_protocol.Before) -> effect_protocol.Evidence:
        """Look for the property of the effect, else compare the time of the last change."""
        self._again(before)
        found = await self._get(f"issue/{self._asked.issue}", {"fields": "updated", "properties": PROPERTY})
        if ((found.get("properties") or {}).get(PROPERTY) or {}).get("id") == self._mark:
            return effect_protocol.Evidence({"issue": self._asked.issue})
        return effect_protocol.Evidence(absent=str(found["fields"]["updated"]) == before["updated"])

    def _fields(self) -> dict[str, Any]:
        asked = self._asked
        return {
            **({"summary": asked.title} if asked.title is not None else {}),
            **({"description": self._text(asked.text)} if asked.text is not None else {}),
            **({"labels": list(asked.labels)} if asked.labels is not None else {}),
        }


class Edit(effect_protocol.Effect):
    """editPage: version N becomes version N+1, which Confluence takes once."""

    def __init__(self, api: rest.Rest, address: HostAddress, mark: str, asked: arguments.EditPage) -> None:
        self._api, self._address, self._asked = api, address, asked
        self._path, self._message = f"rest/api/content/{asked.page}", f"jervis-effect {mark}"
        self._body: dict[str, Any] = {}

    async def close(self) -> None:
        """Give the connections back."""
        await self._api.close()

    async def prepare(self) -> effect_protocol.Before:
        """The page is there, in a space of the Connection, and has the version that was read."""
        found = (await self._api.get(self._path, {"expand": "body.storage,version,space"})).json
        number = int(found["version"]["number"])
        permitted_names.admit(self._address, found["space"], "page")
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

    async def send(self, before: effect_protocol.Before) -> effect_protocol.Result:
        """Store the next version."""
        try:
            await self._api.request("PUT", self._path, json=self._body)
        except rest.Conflicting as error:
            # A proxy may repeat a PUT (RFC 9110 9.2.2), and the second one meets the version of the first.
            if (await self.ask(before)).result is None:
                raise
            log.info("a page was edited by a request that was repeated on its way", cause=error.message[:300])
        return self._result(before)

    async def ask(self, before: effect_protocol.Before) -> effect_protocol.Evidence:
        """The version behind the one that was read names the effect that made it."""
        wanted = int(before["version"]) + 1
        found = (await self._api.get(self._path, {"expand": "version"})).json["version"]
        if int(found["number"]) > wanted:
            asked = {"status": "historical", "version": str(wanted), "expand": "version"}
            try:
                found = (await self._api.get(self._path, asked)).json["version"]
            except rest.Absent:
                return effect_protocol.Evidence()  # a version that was removed may have been this one
        made = int(found["number"]) == wanted and found.get("message") == self._message
        return effect_protocol.Evidence(self._result(before)) if made else effect_protocol.Evidence(absent=True)

    def _result(self, before: effect_protocol.Before) -> effect_protocol.Result:
        return {"page": self._asked.page, "version": str(int(before["version"]) + 1)}


async def opened(request: tools.EffectRequest, means: tools.Means) -> effect_protocol.Effect:
    """The effects at Jira and Confluence."""
    asked, target, mark = request.arguments, request.target, request.mark
    address = host_address.derive(atlassian_address.RULES, target.spec, target.credentials, plain=means.plain)
    project = _project(address, asked) if isinstance(asked, arguments.Where) else ""
    api = means.rest(address, target)
    try:
        match asked:
            case arguments.AddComment():
                return Comment(api, address, mark, asked)
            case arguments.CreateIssue():
                return Create(api, address, project, mark, asked)
            case arguments.UpdateIssue():
                return Update(api, address, mark, asked)
            case arguments.EditPage():
                return Edit(api, address, mark, asked)
        raise AssertionError(f"{type(asked).__name__} belongs to no tool of Jira or Confluence")
    except BaseException:
        await api.close()
        raise


def _project(address: HostAddress, asked: arguments.Where) -> str:
    """The key of the project, which is a part of an issue's key. Raises `problems.Invalid`."""
    issue = str(getattr(asked, "issue", ""))
    key = issue.rpartition("-")[0]
    if issue and not key:
        raise problems.Invalid(
            f"{issue} is no issue of Jira", field="arguments.issue", remedy="Give the key, as in ABC-12."
        )
    if key and asked.repository not in ("", key):
        raise problems.Invalid(
            f"{issue} is not in {asked.repository}", field="arguments.repository", remedy="Leave it out."
        )
    project = permitted_names.choose(address, asked.repository or key, "repository")
    if not _PROJECT.match(project):
        raise problems.Invalid(
            f"{project!r} is no key of a project", field="arguments.repository", remedy="Give it as in ABC."
        )
    return project
