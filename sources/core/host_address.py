"""The address of a host with a REST API, the login that its requests carry, and what a Connection names there.

A provider states them once, in the `Rules` of its `address.py`. `derive` applies them for all callers of the host:
polls, effects and checks get the same address, the same headers and the same names, so that none of them reaches a host
that the others do not, with the token least of all.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from crds import connection
from sources.core import port

_NOT_IN_A_NAME = re.compile(r"[\x00-\x20\x7f?#%\\]")

Credentials = Mapping[str, str]
"""The values of a Secret by their keys."""
Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Url:
    """`spec.url` in parts. `root` is scheme, host and port; `host` is in small letters, without the port; `path` has no
    slash at its ends."""

    scheme: str
    root: str
    host: str
    path: str


@dataclass(frozen=True, slots=True)
class Location:
    """Where a URL leads: `api` is the address before every path of the REST API, `web` that of the host's own pages and
    files; `names` are the repositories, projects or spaces, none for all."""

    api: str
    web: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """How a provider derives addresses. `locate`: (URL, spec.filter.include) -> where they lead; `login`: (values of
    the Secret, key of the token) -> headers, none where the Secret lacks them, for which `remedy` says what to do.
    `repositories`: the names have to be those of repositories, at least one."""

    locate: Callable[[Url, tuple[str, ...]], Location]
    login: Callable[[Credentials, str], Headers]
    repositories: bool = False
    remedy: str = "Add it to the Secret under its key."


@dataclass(frozen=True, slots=True)
class HostAddress:
    """What a Connection may reach, and as whom: `names` without `excluded`, none for all but `excluded`."""

    api: str
    web: str
    names: tuple[str, ...]
    headers: Headers
    excluded: tuple[str, ...] = ()


def derive(rules: Rules, spec: connection.Spec, credentials: Credentials, *, plain: bool) -> HostAddress:
    """The address of a Connection's host; `plain` allows http://. Raises `port.Misconfigured`."""
    url = parse(spec, plain=plain)
    key = spec.secret_ref.key if spec.secret_ref is not None and spec.secret_ref.key else "token"
    headers = rules.login(credentials, key)
    if not headers:
        raise port.Misconfigured(f"The Secret lacks {key!r}.", field="spec.secretRef", remedy=rules.remedy)
    include = spec.filter.include if spec.filter is not None else ()
    excluded = spec.filter.exclude if spec.filter is not None else ()
    location = rules.locate(url, include)
    names = location.names
    if rules.repositories:
        names = tuple(name for name in names if name not in excluded)
        if not names or not all(is_repository(name) for name in names):
            raise port.Misconfigured(
                f"{spec.url[:200]} and spec.filter.include name no repository.",
                field="spec.filter.include",
                remedy="Give the repository's address as spec.url, or the host's, and repositories as owner/name.",
            )
    return HostAddress(location.api, location.web, names, headers, excluded)


def parse(spec: connection.Spec, *, plain: bool) -> Url:
    """`spec.url` in parts. Raises `port.Misconfigured` for one that is no address of the type, has a login in it, or,
    unless `plain`, would send credentials unencrypted."""
    try:
        parts = urlsplit(spec.url)
        _ = parts.port
    except ValueError as error:
        raise port.Misconfigured(
            f"spec.url is no URL: {error}", field="spec.url", remedy="Write https://HOST/PATH."
        ) from error
    schemes = connection.SCHEMES[spec.type]
    if parts.scheme not in schemes or not parts.hostname:
        raise port.Misconfigured(
            f"spec.url {spec.url[:200]!r} is no address of type {spec.type.value}.",
            field="spec.url",
            remedy=f"Write {' or '.join(f'{scheme}://HOST' for scheme in schemes)}.",
        )
    refuse_login(spec.url)
    if parts.scheme == "http" and not plain:
        raise port.Misconfigured(
            "Over http:// the token would travel readable.",
            field="spec.url",
            remedy="Use https://, or allow it with sources.settings.plaintext of the chart.",
        )
    return Url(parts.scheme, f"{parts.scheme}://{parts.netloc}", parts.hostname, parts.path.strip("/"))


def refuse_login(url: str, field: str = "spec.url") -> None:
    """Refuse a URL with a user or a password in it, of any scheme. Raises `port.Misconfigured`."""
    if "@" in urlsplit(url).netloc:
        raise port.Misconfigured(
            f"{field} has a login in it.",
            field=field,
            remedy="Write the login into a Secret and name it in secretRef.",
        )


def token(credentials: Credentials, key: str) -> str:
    """The access token that OAuth made, else the token under `key`; "" without one."""
    return (credentials.get(port.ACCESS_KEY) or credentials.get(key, "")).strip()


def basic(username: str, password: str) -> Headers:
    """The header of Basic authentication (RFC 7617)."""
    return {"Authorization": f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"}


def without_end(path: str, segments: str) -> str:
    """The path of an `Url` without these whole segments at its end."""
    return f"/{path}".removesuffix(f"/{segments}").strip("/")


def without_beginning(path: str, segments: str) -> str:
    """The path of an `Url` without these whole segments at its beginning."""
    return f"{path}/".removeprefix(f"{segments}/").strip("/")


def is_repository(name: str) -> bool:
    """Whether it is owner/name, or deeper, and cannot lead to another path."""
    parts = name.split("/")
    return len(parts) > 1 and all(part.strip(".") and not _NOT_IN_A_NAME.search(part) for part in parts)
