"""The typed client of the sources process, the one module of it that runs import (not analyses of code).

Unavailable (Operational)   busy, away, timeout, 429, 502, 503, 504: ask again with the same key, after `retry_after`
                            if given; a repeated key has no second effect
Rejected    (Permanent)     nothing happened, and asking again cannot help before something is changed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pydantic

from contracts.api.message import ErrorReply, Problem
from crds import addresses, errors
from sources.ci import wire as ci
from sources.effects import wire
from sources.effects.arguments import AddComment, CreateIssue, EditPage, PushBranch, Status, UpdateIssue, Way
from sources.effects.wire import READ_CHECKS, READ_REPOSITORY, Named, Outcome, State

__all__ = [
    "READ_CHECKS", "READ_REPOSITORY", "AddComment", "Client", "CreateIssue", "EditPage", "Named", "Outcome",
    "PushBranch", "Rejected", "State", "Status", "Unavailable", "UpdateIssue", "Way", "ci", "token_file",
]  # fmt: skip
_OPERATIONAL = frozenset({408, 425, 429, 502, 503, 504})


class Unavailable(errors.Operational):
    """The sources process, or what it calls, is busy or away."""


class Rejected(errors.Permanent):
    """It refused the request. `code` is the machine-readable code of the answer, `status` its HTTP status."""

    def __init__(
        self, message: str, *, field: str | None = None, remedy: str | None = None, code: str = "", status: int = 0
    ) -> None:
        super().__init__(message, field=field, remedy=remedy)
        self.code, self.status = code, status


Token = Callable[[], str]
"""Gives the bearer token for one call. Raises `Unavailable` while there is none to be had."""


def token_file(path: str) -> Token:
    """A `token` for a client: the file's content, read before each call because it is renewed."""

    def read() -> str:
        try:
            return Path(path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"the token for the sources process cannot be read: {error}") from error

    return read


class Client:
    """Calls to one sources process over the caller's `http`, whose timeout should exceed the service's
    `effectSeconds`."""

    def __init__(self, base_url: str, http: httpx.AsyncClient, token: Token) -> None:
        self._base, self._http, self._token = base_url.rstrip("/"), http, token

    async def effect(self, tool: str, connection: str, key: str, arguments: Mapping[str, Any]) -> Outcome:
        """Have it done, once: Done, or Unknown where it may have happened. Raises `Unavailable`, `Rejected`."""
        try:
            asked = wire.Request(connection=connection, key=key, arguments=dict(arguments))
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(map(str, first["loc"]))
            raise Rejected(f"{field}: {first['msg']}", field=field, code="invalid") from error
        return await self._call("POST", tool, asked)

    async def push(self, connection: str, key: str, asked: PushBranch) -> Outcome:
        """Push a branch of a Git Connection, once; its bundle is stored in the knowledge base before. Raises as
        `effect` does."""
        return await self.effect("pushBranch", connection, key, asked.model_dump(by_alias=True, exclude_none=True))

    async def outcome(self, key: str) -> Outcome | None:
        """What became of a key of the run's task; None: nothing was asked for by it. Raises `Unavailable`,
        `Rejected`."""
        try:
            return await self._call("GET", key)
        except Rejected as error:
            if error.code == "not_found":
                return None
            raise

    async def checks(self, connection: str, *, repository: str = "", branch: str = "", commit: str = "") -> ci.Report:
        """What the checks of a commit, or of the head of a branch, say; of the default branch where neither is given.
        Raises `Unavailable`, `Rejected`."""
        given = {"repository": repository, "branch": branch, "commit": commit}
        asked = {name: value for name, value in given.items() if value}
        answer = await self._send("GET", addresses.path("ci", connection), params=asked)
        try:
            return ci.Report.model_validate_json(answer.content)
        except pydantic.ValidationError as error:
            raise Rejected("the answer is no report of checks", status=answer.status_code) from error

    async def connections(self) -> tuple[Named, ...]:
        """Those that the run may use. Raises `Unavailable`, `Rejected`."""
        answer = await self._send("GET", "/connections")
        try:
            return wire.Connections.model_validate_json(answer.content).connections
        except pydantic.ValidationError as error:
            raise Rejected("the answer is no list of Connections", status=answer.status_code) from error

    async def _call(self, method: str, name: str, asked: pydantic.BaseModel | None = None) -> Outcome:
        answer = await self._send(method, addresses.path("effects", name), asked)
        try:
            return Outcome.model_validate_json(answer.content)
        except pydantic.ValidationError as error:
            raise Rejected("the answer is no outcome of an effect", status=answer.status_code) from error

    async def _send(
        self,
        method: str,
        path: str,
        asked: pydantic.BaseModel | None = None,
        params: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        if addresses.leads_away(path):
            raise Rejected(f"{path[:200]!r} is no path of the sources process", field="path")
        body = None if asked is None else asked.model_dump_json(by_alias=True).encode()
        headers = {"Authorization": f"Bearer {self._token()}", "Content-Type": "application/json"}
        try:
            answer = await self._http.request(
                method, f"{self._base}/api/v1{path}", content=body, headers=headers, params=params
            )
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise Rejected(f"{addresses.shown(self._base)!r} is no address: {error}", field="baseUrl") from error
        except httpx.HTTPError as error:
            where = addresses.shown(self._base)
            raise Unavailable(f"the sources process at {where} did not answer: {type(error).__name__}") from error
        if not answer.is_success:
            raise _refusal(answer)
        return answer


def _refusal(answer: httpx.Response) -> errors.JervisError:
    try:
        problem = ErrorReply.model_validate_json(answer.content).error
    except pydantic.ValidationError:
        # A gateway's page, or another service altogether; its status still tells.
        problem = Problem(code="unreadable", message=f"HTTP {answer.status_code}: {answer.text[:200]}")
    if answer.status_code in _OPERATIONAL:
        asked = answer.headers.get("Retry-After", "")
        return Unavailable(problem.message, retry_after=float(asked) if asked.isdigit() else None)
    return Rejected(
        problem.message, field=problem.field, remedy=problem.remedy, code=problem.code, status=answer.status_code
    )
