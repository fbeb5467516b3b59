"""Tools of other servers by the Model Context Protocol (`clients.toolservers`), named SERVER.TOOL.

What a call needs is the tool's mode in the server's entry. One that reads may carry something outside with its
arguments: a call that names a host which is not allowed, or takes a copy of what was read to a server which is not, is
an effect. Other calls have effects that cannot be looked up: a person decides again where one was begun and not
answered, or where the server says something else of the tool since. A run can do without any of these servers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict

from clients import toolservers
from crds import domains, permits, scope, tools
from orchestrator_job import errors as job_errors
from orchestrator_job.effects import effect_digest, ledger_entries
from orchestrator_job.effects.tools import bounds, port
from text import hosts

LIST_SECONDS = 10.0
"""In which a server lists its tools; a run does not wait longer for those that it may not need."""


class _Any(port.Arguments):
    """Arguments by the server's own schema, which the server checks."""

    model_config = ConfigDict(frozen=True, extra="allow")


def arguments(schema: Mapping[str, Any]) -> type[port.Arguments]:
    """A class of arguments that shows `schema` to the model and takes any object."""

    class Given(_Any):
        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return dict(schema)

    return Given


class _Tool:
    away_seconds = port.DISPENSABLE_SECONDS

    def __init__(self, offered: toolservers.Offered) -> None:
        self._offered = offered
        self.name, self.description = offered.called, offered.about
        self.arguments = arguments(offered.schema)

    async def _call(self, given: Any) -> port.Result:
        """Raises `toolservers.Away`, and NotBegun where the call was not sent."""
        try:
            answer = await toolservers.call(self._offered, dict(given.model_extra or {}))
        except toolservers.NotSent as error:
            raise job_errors.NotBegun(error.message, retry_after=error.retry_after) from error
        return port.Result(bounds.cut(answer.text), sources=(self._offered.source,), failed=answer.failed)


class ActingTool(_Tool):
    """One that may change something outside."""

    repeatable = False

    @property
    def tier(self) -> port.Tier:
        """By its mode."""
        return port.Tier.ASK if self._offered.mode is tools.Mode.ASK else port.Tier.PERMIT

    @property
    def definition(self) -> str:
        """Of the server's list of tools."""
        return self._offered.definition

    def aims(self, given: Any) -> Mapping[str, str]:
        """Every argument that is a text, and those within lists and objects."""
        return dict(_texts("", given.model_extra or {}))

    def reach(self, given: Any) -> port.Reach:
        """The server is the only target, which the tool's name has; every argument leaves."""
        text = "\n".join(port.leaves(given.model_extra or {}))
        return port.Reach(permits.tool_name(self.name), text=text, url=self._offered.server.url)

    def shown(self, given: Any) -> str:
        """What the server says of the tool, and all arguments."""
        sent = json.dumps(given.model_extra or {}, ensure_ascii=False, indent=2, sort_keys=True)
        server = self._offered.server
        call = f"Call {self._offered.name} of the server {server.name} ({server.url})"
        return f"{call}, which says of it: {self.description}\nWith\n{sent}"

    def effect(self, given: Any, place: port.Place) -> ledger_entries.Effect:
        """Not begun."""
        return _Effect(self, given)


class ReadingTool(ActingTool):
    """One that only reads. `fetched` are hosts that any tool may fetch of."""

    repeatable = True

    def __init__(self, offered: toolservers.Offered, fetched: Sequence[str]) -> None:
        super().__init__(offered)
        self._fetched = fetched

    def allows(self, host: str) -> bool:
        """By its entry, or by the list of hosts whose pages may be fetched."""
        fetched = bool(self._fetched) and toolservers.allowed(self._fetched, domains.hostname(host))
        return bool(host) and (fetched or self._offered.server.lets(host))

    def reach(self, given: Any) -> port.Reach:
        """The hosts that its arguments name and that are not allowed."""
        reach = super().reach(given)
        named = dict.fromkeys(domains.hostname(host) or host for host in hosts.named(reach.text))
        return replace(reach, targets=tuple(host for host in named if not self.allows(host)))

    async def read(self, given: Any, place: port.Place) -> port.Result:
        """The server's answer. Raises as `_call`."""
        return await self._call(given)


class _Effect:
    """A `ledger_entries.Effect` that cannot be looked up."""

    def __init__(self, tool: ActingTool, given: Any) -> None:
        self._tool, self._given = tool, given
        self.repeatable = tool.repeatable

    def intent(self) -> Mapping[str, Any]:
        """The tool, as it is defined now."""
        named = {"tool": self._tool.name, "definition": self._tool.definition}
        if self.repeatable:
            return named
        same = effect_digest.digest(self._tool.name, "", self._given.model_extra or {}, exact=True)
        return {**named, effect_digest.DIGEST: same}

    async def find(self, key: str) -> ledger_entries.Receipt | None:
        """The protocol has no question for it."""
        return None

    async def perform(self, key: str) -> ledger_entries.Receipt:
        """Raises `toolservers.Away`, after which it may have happened, and NotBegun."""
        result = await self._tool._call(self._given)
        return {"text": result.text, "failed": result.failed}


def _texts(path: str, value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, str):
        yield path or "value", value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield from _texts(f"{path}.{name}" if path else str(name), one)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _texts(f"{path}.{number}", one)


async def listed(
    servers: Iterable[tools.Server], viewer: scope.Scope, fetched: Sequence[str] = ()
) -> tuple[list[port.Tool], toolservers.Catalogue]:
    """The tools of all servers that `viewer` may use, and what the servers say: which are away, and which tools are
    left out. Servers are asked side by side, and those that are slow are away. `fetched` are hosts that may be fetched
    of."""
    catalogue = await toolservers.listed(servers, viewer.client_id, seconds=LIST_SECONDS)
    return [
        ReadingTool(tool, fetched) if tool.mode is tools.Mode.READ else ActingTool(tool) for tool in catalogue.tools
    ], catalogue
