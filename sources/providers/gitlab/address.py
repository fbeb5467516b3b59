"""Addresses of GitLab and its login.

A server may stand below a path (`external_url` with a relative URL). Only with spec.filter.include the path of spec.url
is known to be that path; without it the whole path names the project. Source: docs.gitlab.com/api/rest,
docs.gitlab.com/api/rest/authentication, docs.gitlab.com/install/relative_url.
"""

from __future__ import annotations

from sources.core import host_address

_API = "api/v4"


def _locate(url: host_address.Url, include: tuple[str, ...]) -> host_address.Location:
    """https://gitlab.example/group/subgroup/project and its pages (/-/issues); with `include` the server or its API."""
    path = f"{url.path}/".partition("/-/")[0].strip("/").removesuffix(".git").strip("/")
    if include or path == _API:
        path = host_address.without_end(path, _API)
    web = f"{url.root}/{path}".rstrip("/") if include else url.root
    return host_address.Location(f"{web}/{_API}", web, include or ((path,) if path else ()))


def _login(credentials: host_address.Credentials, key: str) -> host_address.Headers:
    """A token of a person, project or group, or an access token of OAuth: `Bearer` is for all of them."""
    token = host_address.token(credentials, key)
    return {"Authorization": f"Bearer {token}"} if token else {}


RULES = host_address.Rules(_locate, _login, repositories=True)
