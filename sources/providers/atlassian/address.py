"""Addresses of Jira and Confluence and their login: spec.url is the address before /rest.

Source: developer.atlassian.com/cloud, "Basic auth for REST APIs"; Atlassian Data Center, "Personal access tokens".
"""

from __future__ import annotations

from sources.core import host_address, port


def _locate(url: host_address.Url, include: tuple[str, ...]) -> host_address.Location:
    """https://acme.atlassian.net, https://acme.atlassian.net/wiki, https://jira.example/base; `include` has projects or
    spaces."""
    api = f"{url.root}/{url.path}".rstrip("/")
    return host_address.Location(api, api, include)


def _login(credentials: host_address.Credentials, key: str) -> host_address.Headers:
    """An access token of OAuth; Cloud's user and token; a user and password, or a token alone, of Data Center."""
    token = host_address.token(credentials, key) or credentials.get("password", "")
    if not token:
        return {}
    username = "" if credentials.get(port.ACCESS_KEY) else credentials.get("username", "")
    return host_address.basic(username, token) if username else {"Authorization": f"Bearer {token}"}


RULES = host_address.Rules(
    _locate,
    _login,
    remedy="Add username (the e-mail address) and token, or only the token of a Data Center user.",
)
