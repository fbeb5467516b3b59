"""Which web pages may call a service: by the name that it is called, and by the page's origin. Pure.

A web page reaches a server on its visitor's network by DNS rebinding: its own name is made to lead there. Such a name
is one that can be registered. So addresses, names without a dot and names below a top level domain that is not
delegated are accepted, and others only when a setting names them. Ollama has the same rule (`allowedHostsMiddleware`
in `server/routes.go`), but behind a router it does not see the client's Host.

A page may also send what a form can send to any server (Fetch, "CORS-safelisted request-header"), without reading the
answer; a browser says then from where, in Origin. Programs send none.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from crds import errors

# RFC 6761, RFC 6762, RFC 8375, and what ICANN has reserved or will never delegate; `svc` is Kubernetes'.
_LOCAL = (
    ".localhost", ".local", ".internal", ".test", ".example", ".invalid", ".home.arpa", ".home", ".corp", ".lan", ".svc"
)  # fmt: skip
_REMEMBERED = 256

NAME = r"^(\*|(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)$"
"""A pattern of a name that a service may be called by: `*.example.com` for all below one, `*` for any."""
ORIGIN = r"^(\*|[a-z][a-z0-9+.-]*://[^/]*)$"
"""A pattern of the origin of a web page, as in https://agent.example.com; `*` stands for any characters in it."""
OLLAMA = (
    *(
        f"{scheme}://{host}{port}"
        for host in ("localhost", "127.0.0.1", "0.0.0.0")  # noqa: S104 -- an origin of pages, nothing is bound to it
        for scheme in ("http", "https")
        for port in ("", ":*")
    ),
    *("app://*", "file://*", "tauri://*", "vscode-webview://*", "vscode-file://*"),
)
"""The origins that Ollama takes requests from by default (`AllowedOrigins` in its `envconfig/config.go`): pages and
programs on the machine of the person who looks at them."""


class Hosts:
    """`allowed` are further names, `*.example.com` for everything below one, `*` for all."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        names = [name.lower() for name in allowed]
        self._all = "*" in names
        self._names = frozenset(name for name in names if not name.startswith("*"))
        self._below = tuple(name[1:] for name in names if name.startswith("*."))
        self.good: set[bytes | None] = set()
        """Fields that were found to be good: the most usual ones, of which there are few."""

    def allow(self, host: bytes | None) -> bool:
        """Whether a request with this Host field is served. Without one it is: a browser always sends it."""
        if self._all or host is None or host in self.good:
            return True
        good = self._judge(host.decode("latin-1").strip().lower())
        if good and len(self.good) < _REMEMBERED:
            self.good.add(host)
        return good

    def _judge(self, host: str) -> bool:
        name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
        name = name.removesuffix(".")
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return "." not in name or name in self._names or name.endswith(_LOCAL) or name.endswith(self._below)
        return True


class Origins:
    """`allowed` are origins of pages (RFC 6454: https://host, with the port where it is not the usual one), in which
    `*` stands for any characters."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        origins = [origin.lower().rstrip("/") for origin in allowed]
        self._allowed = frozenset(origin for origin in origins if "*" not in origin)
        patterns = ["[^/]*".join(map(re.escape, origin.split("*"))) for origin in origins if "*" in origin]
        self._patterns = re.compile("|".join(patterns)) if patterns else None
        self._any = "*" in origins

    def lists(self, origin: str) -> bool:
        """Whether a setting names the origin, so that its pages may read answers, too (CORS)."""
        origin = origin.lower()
        listed = origin in self._allowed or self._any
        return listed or (self._patterns is not None and self._patterns.fullmatch(origin) is not None)

    def allow(self, origin: str | None, host: str) -> bool:
        """Whether a request from this origin is served that came to this Host. Without an origin it is: a browser
        always sends that of a page that posts. The service's own pages may."""
        return origin is None or self.lists(origin) or urlsplit(origin).netloc.lower() == host.lower() != ""


class Foreign(errors.Permanent):
    """A page that is not the service's own, or a name that may not be."""


class NotJson(errors.Permanent):
    """The body is of a type that a page can send without being asked whether it may."""


def foreign_host(host: str, setting: str) -> Foreign:
    """The service is not called so; `setting` is where names are added."""
    return Foreign(
        f"this service is not called {host[:256]!r}",
        field="Host",
        remedy=f"Use its address, or add the name to {setting}.",
    )


def foreign_origin(origin: str, setting: str) -> Foreign:
    """The page may not call; `setting` is where origins are added."""
    return Foreign(
        f"requests of pages of {origin[:256]!r} are not taken",
        field="Origin",
        remedy=f"Name the origin in {setting}, or call from a program.",
    )
