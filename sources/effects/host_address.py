"""Where the API of a Connection is, by its type, and the headers that carry its credentials.

A run may act where the Connection reads: `spec.url` and `spec.filter.include` name the repositories, projects and
spaces, and no argument leads elsewhere.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from crds import connection
from crds.connection import Type
from sources.api import problems
from sources.core import port
from sources.oauth import tokens


@dataclass(frozen=True, slots=True)
class Place:
    """`api` is the address before every path; `names` the repositories, projects or spaces, none for all but
    `excluded`."""

    api: str
    names: tuple[str, ...]
    headers: Mapping[str, str]
    excluded: tuple[str, ...] = ()

    def chosen(self, name: str, field: str) -> str:
        """The one that an argument names, or the only one. Raises `problems.Invalid`."""
        if not name and len(self.names) == 1:
            return self.names[0]
        if not name or (self.names and name not in self.names):
            raise problems.Invalid(
                f"the Connection does not reach {name!r}" if name else "the Connection reaches several",
                field=f"arguments.{field}",
                remedy=f"Name one of: {', '.join(self.names) or 'those that the Connection reads'}.",
            )
        return name

    def admit(self, found: Mapping[str, Any], field: str) -> None:
        """A project or a space as its host describes it: key, id and name count, without case, as they do when it is
        read. What an argument names may have moved. Raises `problems.Invalid`."""
        names = {str(found[one]).casefold() for one in ("key", "id", "name") if found.get(one)}
        included, excluded = ({one.casefold() for one in some} for some in (self.names, self.excluded))
        if names & excluded or (included and not names & included):
            raise problems.Invalid(
                f"it is in {found.get('key')!r}, which the Connection does not reach",
                field=f"arguments.{field}",
                remedy=f"Name one of: {', '.join(self.names) or 'those that the Connection reads'}.",
            )


def find(spec: connection.Spec, credentials: Mapping[str, str], *, plain: bool) -> Place:
    """The place of a Connection. Raises `port.Misconfigured`."""
    parts = urlsplit(spec.url)
    if parts.scheme == "http" and not plain:
        raise port.Misconfigured(
            "Over http:// the token would travel readable.",
            field="spec.url",
            remedy="Use https://, or allow it with sources.settings.plaintext of the chart.",
        )
    included = spec.filter.include if spec.filter else ()
    excluded = spec.filter.exclude if spec.filter else ()
    root, path = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.strip("/").removesuffix(".git")
    api, name = _MADE[spec.type](root, path, bool(included))
    names = included or ((name,) if name else ())
    if spec.type in _REPOSITORIES:
        names = tuple(one for one in names if one not in excluded)
    if spec.type in _REPOSITORIES and not (names and all(_repository(one) for one in names)):
        raise port.Misconfigured(
            "spec.url and spec.filter.include name no repository.",
            field="spec.filter.include",
            remedy="Give the repository's address as spec.url, or the host's, and repositories as owner/name.",
        )
    return Place(api, names, _headers(spec, credentials), excluded)


def _github(root: str, path: str, included: bool) -> tuple[str, str]:
    scheme, _, host = root.partition("://")
    path = path.removeprefix("api/v3").strip("/").removeprefix("repos/")
    repository = "/".join(path.split("/")[:2])
    if host in ("github.com", "www.github.com", "api.github.com"):
        return f"{scheme}://api.github.com", repository
    if host.endswith(".ghe.com"):
        return f"{scheme}://api.{host.removeprefix('api.')}", repository
    return f"{root}/api/v3", repository


def _gitea(root: str, path: str, included: bool) -> tuple[str, str]:
    names = path.removesuffix("api/v1").strip("/").split("/")
    before, name = (names, "") if included else (names[:-2], "/".join(names[-2:]))
    return "/".join((root, *before)).rstrip("/") + "/api/v1", name


def _gitlab(root: str, path: str, _: bool) -> tuple[str, str]:
    return f"{root}/api/v4", path.removesuffix("api/v4").strip("/")


def _atlassian(root: str, path: str, _: bool) -> tuple[str, str]:
    return f"{root}/{path}".rstrip("/"), ""


_MADE = {
    Type.GITHUB: _github,
    Type.GITEA: _gitea,
    Type.GITLAB: _gitlab,
    Type.JIRA: _atlassian,
    Type.CONFLUENCE: _atlassian,
}
_OF_GITHUB = {"X-GitHub-Api-Version": "2022-11-28", "User-Agent": "jervis"}
_REPOSITORIES = frozenset({Type.GITHUB, Type.GITEA, Type.GITLAB})


def _headers(spec: connection.Spec, credentials: Mapping[str, str]) -> Mapping[str, str]:
    key = spec.secret_ref.key if spec.secret_ref and spec.secret_ref.key else "token"
    access = credentials.get(tokens.ACCESS, "")
    if access:
        return {"Authorization": f"Bearer {access}", **(_OF_GITHUB if spec.type is Type.GITHUB else {})}
    token, username = credentials.get(key, "").strip(), credentials.get("username", "")
    password = credentials.get("password", "")
    if token and spec.type is Type.GITLAB:
        return {"PRIVATE-TOKEN": token}
    if token and spec.type is Type.GITEA:
        return {"Authorization": f"token {token}"}
    if token and not (username and spec.type in (Type.JIRA, Type.CONFLUENCE)):
        return {"Authorization": f"Bearer {token}", **(_OF_GITHUB if spec.type is Type.GITHUB else {})}
    if username and (password or token):
        pair = base64.b64encode(f"{username}:{token or password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    raise port.Misconfigured("The Secret lacks the token.", field="spec.secretRef", remedy="Add it under its key.")


def _repository(text: str) -> bool:
    parts = text.split("/")
    return len(parts) > 1 and all(part and part.strip(".") and not set(part) & set(" ?#%\\") for part in parts)
