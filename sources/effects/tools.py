"""The tools: name -> the arguments that it takes, and what it does at which type of Connection."""

from __future__ import annotations

import re
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pydantic

from crds import connection, scope
from crds.connection import Type
from sources.api import app, problems
from sources.core import host_address, hosts, limits, port, rest
from sources.core.host_address import HostAddress
from sources.effects import arguments, effect_protocol, permitted_names
from sources.providers import addresses
from sources.providers.atlassian import effects as atlassian
from sources.providers.git import pushes
from sources.providers.git_host import effects as trackers
from sources.providers.mail import effects as mail

_PROJECT = re.compile(r"^[A-Z][A-Z0-9_]*\Z")
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
    """What all tools are given. `plain` allows servers without encryption; `reached` says which hosts are called;
    `pushes` are those of a process that has clones."""

    load: Load
    tls: ssl.SSLContext
    plain: bool
    wall: Callable[[], datetime]
    monotonic: Callable[[], float]
    reached: hosts.Hosts = hosts.LOCAL
    pushes: pushes.Pushes | None = None


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
    one.name: one
    for one in (
        Tool("sendMail", "Send a mail", mail.SendMail, frozenset({Type.EMAIL})),
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
    name: str, asked: pydantic.BaseModel, target: Target, owner: scope.Scope, mark: str, means: Means
) -> effect_protocol.Doing:
    """The effect, with nothing done yet. Raises `crds.errors.JervisError`."""
    spec, tool = target.spec, TOOLS[name]
    if spec.type not in tool.types:
        raise problems.Invalid(
            f"{name} is not for Connections of type {spec.type.value}",
            field="connection",
            remedy=f"Name one of type {', '.join(sorted(one.value for one in tool.types))}.",
        )
    if isinstance(asked, mail.SendMail):
        return mail.open_mail(
            spec,
            target.smtp,
            asked,
            await _files(asked, owner, means.load),
            mark=mark,
            now=means.wall(),
            tls=means.tls,
            plain=means.plain,
            reached=means.reached,
        )
    if isinstance(asked, arguments.PushBranch):
        return _push(asked, target, owner, means)
    address = host_address.derive(addresses.RULES[spec.type], spec, target.credentials, plain=means.plain)
    where = _where(spec.type, address, asked)
    tls = hosts.trusted(means.tls, target.credentials.get("ca.crt", ""))
    api = rest.Rest(
        address.api, address.headers, target.bucket, tls,
        monotonic=means.monotonic, wall=means.wall, reached=means.reached,
    )  # fmt: skip
    try:
        return _made(spec.type, asked, api, where, address, mark)
    except BaseException:
        await api.close()
        raise


def _push(asked: arguments.PushBranch, target: Target, owner: scope.Scope, means: Means) -> effect_protocol.Doing:
    shared, spec = means.pushes, target.spec
    if shared is None:
        raise problems.Forbidden("this process has no clones of repositories", field="connection")
    at = shared.remote(spec, target.credentials)
    where = pushes.Where(target.namespace, target.name, spec, at, target.bucket)
    return pushes.opened(shared, where, asked, partial(means.load, owner, asked.bundle.key))


def _where(kind: Type, address: HostAddress, asked: pydantic.BaseModel) -> str:
    """The repository or project. The key of Jira's issue has its project."""
    if isinstance(asked, arguments.EditPage):
        return ""
    assert isinstance(asked, arguments.Where)
    number = str(getattr(asked, "issue", ""))
    project = number.rpartition("-")[0]
    if number and bool(project) != (kind is Type.JIRA):
        raise problems.Invalid(
            f"{number} is no issue of {kind.value}",
            field="arguments.issue",
            remedy="Give the key, as in ABC-12, for Jira, and the number elsewhere.",
        )
    if project and asked.repository not in ("", project):
        raise problems.Invalid(
            f"{number} is not in {asked.repository}", field="arguments.repository", remedy="Leave it out."
        )
    named = permitted_names.choose(address, asked.repository or project, "repository")
    if kind is Type.JIRA and not _PROJECT.match(named):
        raise problems.Invalid(
            f"{named!r} is no key of a project", field="arguments.repository", remedy="Give it as in ABC."
        )
    return named


def _made(
    kind: Type, asked: pydantic.BaseModel, api: rest.Rest, where: str, address: HostAddress, mark: str
) -> effect_protocol.Doing:
    jira = kind is Type.JIRA
    match asked:
        case arguments.AddComment():
            if jira:
                return atlassian.Comment(api, address, mark, asked)
            return trackers.Comment(kind, api, where, mark, asked)
        case arguments.CreateIssue():
            if jira:
                return atlassian.Create(api, address, where, mark, asked)
            return trackers.Create(kind, api, where, mark, asked)
        case arguments.UpdateIssue():
            if jira:
                return atlassian.Update(api, address, mark, asked)
            return trackers.Update(kind, api, where, mark, asked)
        case arguments.EditPage():
            return atlassian.Edit(api, address, mark, asked)
    raise AssertionError(f"{type(asked).__name__} belongs to no tool")


async def _files(asked: mail.SendMail, owner: scope.Scope, load: Load) -> Sequence[bytes]:
    found = []
    for number, one in enumerate(asked.attachments):
        body = await load(owner, one.content_ref.key)
        if len(body) != one.content_ref.bytes:
            raise port.Misconfigured(
                f"the stored content has {len(body)} bytes",
                field=f"arguments.attachments.{number}.contentRef",
                remedy="Give the contentRef as the knowledge base gave it.",
            )
        found.append(body)
    return found
