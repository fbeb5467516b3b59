"""The tools: name -> the arguments that it takes, and the types of Connections that it works with.

What it does there is the provider's (`Opens`); the process gives each type its own.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pydantic

from crds import connection, scope
from crds.connection import Type
from sources.api import app, problems
from sources.core import hosts, limits, rest
from sources.core.host_address import HostAddress
from sources.effects import arguments, effect_protocol
from sources.effects.mail_arguments import SendMail

Load = Callable[[scope.Scope, str], Awaitable[bytes]]
"""(who looks, key of a content) -> its bytes. Raises `crds.errors.JervisError`."""


@dataclass(frozen=True, slots=True)
class Target:
    """The Connection `name` that an effect goes to. `credentials` are the values of its Secret; `smtp` of that of
    spec.smtp."""

    namespace: str
    name: str
    spec: connection.Spec
    credentials: Mapping[str, str]
    smtp: Mapping[str, str]
    bucket: limits.Bucket


@dataclass(frozen=True, slots=True)
class Means:
    """What all tools are given. `plain` allows servers without encryption; `reached` says which hosts are called."""

    load: Load
    tls: ssl.SSLContext
    plain: bool
    wall: Callable[[], datetime]
    monotonic: Callable[[], float]
    reached: hosts.Hosts = hosts.LOCAL

    def rest(self, address: HostAddress, target: Target) -> rest.Rest:
        """The API of the target's host. Raises `port.Misconfigured` for authorities that cannot be read."""
        tls = hosts.trusted(self.tls, target.credentials.get("ca.crt", ""))
        return rest.Rest(
            address.api, address.headers, target.bucket, tls,
            monotonic=self.monotonic, wall=self.wall, reached=self.reached,
        )  # fmt: skip


Alive = Callable[[], Awaitable[None]]
"""Called by an effect whose work goes on: its time begins anew."""


async def unbounded() -> None:
    """For an effect whose time nothing bounds."""


@dataclass(frozen=True, slots=True)
class EffectRequest:
    """One effect that is asked for: the parsed `arguments` of its tool, on behalf of `owner`. `mark` is made of its key
    and shows at the target which effect made a thing. An effect that takes long calls `alive` meanwhile."""

    arguments: pydantic.BaseModel
    target: Target
    owner: scope.Scope
    mark: str
    alive: Alive = unbounded


Opens = Callable[[EffectRequest, Means], Awaitable[effect_protocol.Effect]]
"""A provider's effects at Connections of one type, opened with nothing done yet. Raises `crds.errors.JervisError`."""


@dataclass(frozen=True, slots=True)
class Tool:
    """`asks` are its arguments; `types` the types of Connections that it works with."""

    name: str
    about: str
    asks: type[pydantic.BaseModel]
    types: frozenset[Type]


_GIT = frozenset(connection.GIT_HOSTS)
_ISSUES = _GIT | {Type.JIRA}
TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("sendMail", "Send a mail", SendMail, frozenset({Type.EMAIL})),
        Tool("addComment", "Write a comment on an issue", arguments.AddComment, _ISSUES),
        Tool("createIssue", "Create an issue", arguments.CreateIssue, _ISSUES),
        Tool("updateIssue", "Change an issue", arguments.UpdateIssue, _ISSUES),
        Tool("pushBranch", "Push a branch", arguments.PushBranch, frozenset({Type.GIT})),
        Tool("editPage", "Edit a page", arguments.EditPage, frozenset({Type.CONFLUENCE})),
    )
}


def parse(name: str, given: Mapping[str, Any]) -> pydantic.BaseModel:
    """The arguments of a tool. Raises `problems.NotFound` for another name, `problems.Invalid`."""
    tool = TOOLS.get(name)
    if tool is None:
        raise problems.NotFound(f"there is no tool {name[:100]!r}", field="tool", remedy=f"Use {', '.join(TOOLS)}.")
    return app.validate(given, tool.asks, "arguments")


async def opened(
    opens: Mapping[Type, Opens], name: str, request: EffectRequest, means: Means
) -> effect_protocol.Effect:
    """The effect, with nothing done yet. Raises `crds.errors.JervisError`."""
    kind, tool = request.target.spec.type, TOOLS[name]
    if kind not in tool.types:
        raise problems.Invalid(
            f"{name} is not for Connections of type {kind.value}",
            field="connection",
            remedy=f"Name one of type {', '.join(sorted(kind.value for kind in tool.types))}.",
        )
    return await opens[kind](request, means)
