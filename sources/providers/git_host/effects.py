"""addComment, createIssue and updateIssue at a Git host; what differs between hosts is its `Dialect`.

A comment and a new issue carry the effect's mark in a comment of Markdown that is not shown; an effect that may have
happened is looked for by it. An update carries none: the issue is compared with what was asked for, and with the time
of its last change before. Sources: GitHub REST 2022-11-28 "Issues"; GitLab REST v4 "Issues", "Notes"; Gitea API v1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from crds import errors
from sources.api import problems
from sources.core import host_address, port, rest
from sources.effects import arguments, effect_protocol, permitted_names, tools

SKEW = timedelta(minutes=5)
"""Time before the host's own time at which the effect began: its clocks differ."""
_PAGES = 10


class Labels(StrEnum):
    """How a request names labels."""

    NAMES = "names"
    JOINED = "names in one text, with commas"
    IDS = "numbers, in a request of their own"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between the hosts; paths are formatted with `r` and `n`."""

    issues: str
    comments: str
    number: str
    """The field with the number of an issue."""
    body: str
    """The field with the text of an issue."""
    method: str
    """The method that changes an issue."""
    page: str
    """The parameter for the size of a page."""
    newest: Mapping[str, str]
    """The query of issues in the order of creation, the newest first where the host can."""
    link: str
    """The field with the address of an issue."""
    comment_link: str
    """The field with the address of a comment, "" where there is none."""
    labels: Labels = Labels.NAMES
    newest_comments: Mapping[str, str] | None = None
    """The query of comments, the newest first; None: they are asked for by `since`."""
    path_parts: bool = True
    """Whether the parts of a repository's name are parts of paths; else the name is one part."""
    slash_commands: bool = False
    """Whether lines of a text that begin with a slash are commands: /close, /merge, /assign."""
    state_event: bool = False
    """Whether an issue is closed by `state_event` in place of `state`."""


class _Tracker(effect_protocol.Effect):
    def __init__(self, host: Dialect, api: rest.Rest, repository: str, mark: str) -> None:
        self._host, self._api, self._mark = host, api, f"<!-- jervis-effect: {mark} -->"
        self._repository = repository if host.path_parts else quote(repository, safe="")

    async def close(self) -> None:
        """Give the connections back."""
        await self._api.close()

    def _path(self, form: str, number: str = "") -> str:
        return form.format(r=self._repository, n=number)

    def _one(self, number: str) -> str:
        return f"{self._path(self._host.issues)}/{number}"

    def _marked(self, text: str) -> str:
        return f"{self._written(text)}\n\n{self._mark}"

    def _written(self, text: str) -> str:
        return re.sub(r"(?m)^(\s*)/", r"\1\\/", text) if self._host.slash_commands else text

    async def _found(
        self, path: str, query: Mapping[str, str], field: str, since: datetime
    ) -> effect_protocol.Evidence | Row:
        """The row whose `field` has the mark. The list is in the order of creation, either way."""
        for page in range(1, _PAGES + 1):
            asked = {**query, self._host.page: "50", "page": str(page)}
            rows = _rows((await self._api.get(path, asked)).json)
            for row in rows:
                if self._mark in str(row.get(field) or ""):
                    return row
            old = "desc" in query.values() and any(_time(row["created_at"]) < since for row in rows)
            if len(rows) < 50 or old:
                return effect_protocol.Evidence(absent=True)
        return effect_protocol.Evidence()

    async def _noted(self, number: str) -> effect_protocol.Before:
        answer = await self._api.get(self._one(number))
        return {"at": _host_time(answer), "updated": str(answer.json["updated_at"])}


Row = Mapping[str, Any]


class Comment(_Tracker):
    """addComment."""

    def __init__(self, host: Dialect, api: rest.Rest, repository: str, mark: str, asked: arguments.AddComment) -> None:
        super().__init__(host, api, repository, mark)
        self._asked = asked

    async def prepare(self) -> effect_protocol.Before:
        """The issue is there."""
        return await self._noted(self._asked.issue)

    async def send(self, before: effect_protocol.Before) -> effect_protocol.Result:
        """Write the comment."""
        path = self._path(self._host.comments, self._asked.issue)
        answer = await self._api.request("POST", path, json={"body": self._marked(self._asked.text)})
        return self._result(answer.json)

    async def ask(self, before: effect_protocol.Before) -> effect_protocol.Evidence:
        """Look through the issue's newest comments."""
        since = _time(before["at"]) - SKEW
        query = self._host.newest_comments or {"since": since.strftime("%Y-%m-%dT%H:%M:%SZ")}
        found = await self._found(self._path(self._host.comments, self._asked.issue), query, "body", since)
        return found if isinstance(found, effect_protocol.Evidence) else effect_protocol.Evidence(self._result(found))

    def _result(self, row: Row) -> effect_protocol.Result:
        link = {"url": str(row[self._host.comment_link])} if self._host.comment_link else {}
        return {"issue": self._asked.issue, "comment": str(row["id"]), **link}


class Create(_Tracker):
    """createIssue."""

    def __init__(self, host: Dialect, api: rest.Rest, repository: str, mark: str, asked: arguments.CreateIssue) -> None:
        super().__init__(host, api, repository, mark)
        self._asked = asked
        self._labels: Sequence[Any] = asked.labels

    async def prepare(self) -> effect_protocol.Before:
        """The repository is there, and Gitea's labels are."""
        answer = await self._api.get(self._path(self._host.issues), {self._host.page: "1"})
        self._labels = await _label_ids(self._api, self._host, self._repository, self._asked.labels)
        return {"at": _host_time(answer)}

    async def send(self, before: effect_protocol.Before) -> effect_protocol.Result:
        """Create it."""
        body: dict[str, Any] = {"title": self._asked.title, self._host.body: self._marked(self._asked.text)}
        if self._labels:
            body["labels"] = ",".join(self._labels) if self._host.labels is Labels.JOINED else list(self._labels)
        answer = await self._api.request("POST", self._path(self._host.issues), json=body)
        return self._result(answer.json)

    async def ask(self, before: effect_protocol.Before) -> effect_protocol.Evidence:
        """Look through the newest issues."""
        since = _time(before["at"]) - SKEW
        found = await self._found(self._path(self._host.issues), self._host.newest, self._host.body, since)
        return found if isinstance(found, effect_protocol.Evidence) else effect_protocol.Evidence(self._result(found))

    def _result(self, row: Row) -> effect_protocol.Result:
        return {"issue": str(row[self._host.number]), "url": str(row[self._host.link])}


class Update(_Tracker):
    """updateIssue."""

    def __init__(self, host: Dialect, api: rest.Rest, repository: str, mark: str, asked: arguments.UpdateIssue) -> None:
        super().__init__(host, api, repository, mark)
        self._asked = asked
        self._labels: Sequence[Any] = asked.labels or ()

    async def prepare(self) -> effect_protocol.Before:
        """The issue is there, and Gitea's labels are."""
        self._labels = await _label_ids(self._api, self._host, self._repository, self._asked.labels or ())
        return await self._noted(self._asked.issue)

    async def send(self, before: effect_protocol.Before) -> effect_protocol.Result:
        """Change it. At Gitea labels are a second request: they replace all, so it may be repeated."""
        asked, body = self._asked, self._fields()
        if asked.labels is not None and self._host.labels is not Labels.IDS:
            body["labels"] = ",".join(asked.labels) if self._host.labels is Labels.JOINED else list(asked.labels)
        if asked.state is not None:
            closes = asked.state is arguments.Status.CLOSED
            if self._host.state_event:
                body["state_event"] = "close" if closes else "reopen"
            else:
                body["state"] = asked.state.value
        path = self._one(asked.issue)
        if body:
            await self._api.request(self._host.method, path, json=body)
        try:
            if asked.labels is not None and self._host.labels is Labels.IDS:
                await self._api.request("PUT", f"{path}/labels", json={"labels": list(self._labels)})
            return self._result((await self._api.get(path)).json)
        except errors.JervisError as error:
            # Also a limit that is reached only now: the issue was changed before.
            raise effect_protocol.Ambiguous(f"The issue may be changed in part: {error.message}") from error

    async def ask(self, before: effect_protocol.Before) -> effect_protocol.Evidence:
        """Done where the issue says what was asked for, absent where nothing was changed since."""
        row = (await self._api.get(self._one(self._asked.issue))).json
        if self._says(row):
            return effect_protocol.Evidence(self._result(row))
        return effect_protocol.Evidence(absent=str(row["updated_at"]) == before["updated"])

    def _fields(self) -> dict[str, Any]:
        said = {"title": self._asked.title, self._host.body: self._asked.text and self._written(self._asked.text)}
        return {name: value for name, value in said.items() if value is not None}

    def _says(self, row: Row) -> bool:
        asked = self._asked
        same = all(str(row.get(name) or "").strip() == value.strip() for name, value in self._fields().items())
        names = {one if isinstance(one, str) else one["name"] for one in row.get("labels") or ()}
        closed = str(row.get("state")) == "closed"
        return (
            same
            and (asked.labels is None or names == set(asked.labels))
            and (asked.state is None or closed == (asked.state is arguments.Status.CLOSED))
        )

    def _result(self, row: Row) -> effect_protocol.Result:
        return {"issue": str(row[self._host.number]), "url": str(row[self._host.link])}


async def _label_ids(api: rest.Rest, host: Dialect, repository: str, labels: Sequence[str]) -> Sequence[Any]:
    """What a request names labels by: Gitea's numbers, elsewhere names. Raises `problems.Invalid`."""
    if not labels or host.labels is not Labels.IDS:
        return labels
    known: dict[str, int] = {}
    for page in range(1, _PAGES + 1):
        rows = _rows((await api.get(f"repos/{repository}/labels", {"limit": "50", "page": str(page)})).json)
        known |= {str(row["name"]): int(row["id"]) for row in rows}
        if len(rows) < 50:
            break
    for one in labels:
        if one not in known:
            raise problems.Invalid(
                f"the repository has no label {one!r}", field="arguments.labels", remedy="Use its labels."
            )
    return [known[one] for one in labels]


def _rows(found: Any) -> list[Row]:
    if not isinstance(found, list):
        raise port.Unreachable("The host's answer is no list.")
    return found


def _host_time(answer: rest.Answer) -> str:
    try:
        return parsedate_to_datetime(answer.headers["Date"]).astimezone(UTC).isoformat()
    except (KeyError, ValueError) as error:
        raise rest.Untouched("The host's answer has no date.") from error


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def opened(host: Dialect, rules: host_address.Rules) -> tools.Opens:
    """What opens the effects of a Git host."""

    async def opens(request: tools.EffectRequest, means: tools.Means) -> effect_protocol.Effect:
        asked, target, mark = request.arguments, request.target, request.mark
        assert isinstance(asked, arguments.Where)
        address = host_address.derive(rules, target.spec, target.credentials, plain=means.plain)
        issue = str(getattr(asked, "issue", ""))
        if "-" in issue:
            raise problems.Invalid(
                f"{issue} is no issue of {target.spec.type.value}",
                field="arguments.issue",
                remedy="Give the number; a key, as in ABC-12, is for Jira.",
            )
        repository = permitted_names.choose(address, asked.repository, "repository")
        match asked:
            case arguments.AddComment():
                return Comment(host, means.rest(address, target), repository, mark, asked)
            case arguments.CreateIssue():
                return Create(host, means.rest(address, target), repository, mark, asked)
            case arguments.UpdateIssue():
                return Update(host, means.rest(address, target), repository, mark, asked)
        raise AssertionError(f"{type(asked).__name__} belongs to no tool of a Git host")

    return opens
