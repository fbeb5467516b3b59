"""Addresses of GitHub and its login: github.com, GitHub Enterprise Cloud with its own domain, Enterprise Server.

Source: docs.github.com/rest, "Getting started with the REST API"; docs.github.com/enterprise-server/rest, "Root
endpoint"; docs.github.com/enterprise-cloud, "About GitHub Enterprise Cloud with data residency".
"""

from __future__ import annotations

from sources.core import host_address

_API = "api/v3"
_PUBLIC = ("github.com", "www.github.com", "api.github.com")


def _locate(url: host_address.Url, include: tuple[str, ...]) -> host_address.Location:
    """https://github.com/acme/shop, https://ghe.example/acme/shop; with `include` the host or its API."""
    if url.host in _PUBLIC:
        api, web = f"{url.scheme}://api.github.com", f"{url.scheme}://github.com"
    elif url.host.endswith(".ghe.com"):
        api = f"{url.scheme}://api.{url.host.removeprefix('api.')}"
        web = url.root.replace("://api.", "://")
    else:
        api, web = f"{url.root}/{_API}", url.root
    path = host_address.without_beginning(url.path, _API)
    if path != url.path or api.endswith(f"://{url.host}"):
        path = host_address.without_beginning(path, "repos")
    repository = "/".join(path.removesuffix(".git").split("/")[:2])
    return host_address.Location(api, web, include or ((repository,) if repository else ()))


def _login(credentials: host_address.Credentials, key: str) -> host_address.Headers:
    """A personal token or an access token of OAuth or of an App."""
    token = host_address.token(credentials, key)
    if not token:
        return {}
    return {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
        "User-Agent": "jervis",
    }


RULES = host_address.Rules(_locate, _login, repositories=True)
