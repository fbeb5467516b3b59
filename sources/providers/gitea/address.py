"""Addresses of Gitea and Forgejo and their login. Source: docs.gitea.com, "API Usage"; Gitea 1.26, services/auth."""

from __future__ import annotations

from sources.core import host_address

_API = "api/v1"


def _locate(url: host_address.Url, include: tuple[str, ...]) -> host_address.Location:
    """https://git.example/owner/repository, which may stand below a path; with `include` the server or its API."""
    # No user is called `api`: Gitea keeps the name for itself.
    names = host_address.without_end(url.path, _API).removesuffix(".git").strip("/").split("/")
    names, repository = (names, "") if include else (names[:-2], "/".join(names[-2:]))
    web = "/".join((url.root, *names)).rstrip("/")
    return host_address.Location(f"{web}/{_API}", web, include or ((repository,) if repository else ()))


def _login(credentials: host_address.Credentials, key: str) -> host_address.Headers:
    """A token, or user name and password."""
    token = host_address.token(credentials, key)
    if token:
        return {"Authorization": f"token {token}"}
    username, password = credentials.get("username", ""), credentials.get("password", "")
    return host_address.basic(username, password) if username and password else {}


RULES = host_address.Rules(_locate, _login, repositories=True)
