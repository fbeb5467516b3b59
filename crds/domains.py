"""Domains that a client names as its own: example.com, and *.example.com for what is below it. Pure.

The two are told apart: a sub-domain may be another's (a hosted shop, a page of a partner), so it counts where it is
named. Names are compared as the DNS has them: A-labels (IDNA 2008 with the mapping of UTS 46), without case and without
a dot at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from crds.model import rules

MOST_DOMAINS = 64
_LABEL = r"[\\pL\\pN]([\\pL\\pM\\pN-]{0,61}[\\pL\\pM\\pN])?"
Domain = Annotated[
    str,
    Field(
        min_length=3,
        max_length=253,
        json_schema_extra=rules(
            (
                f"self.matches('^([*][.])?({_LABEL}[.])+{_LABEL}$')",
                "must be a domain such as example.com, or *.example.com for its sub-domains; without scheme, port,"
                " path and @",
            )
        ),
    ),
]
"""A domain, or behind `*.` one whose sub-domains are meant."""
_BELOW = "*."


def hostname(host: str) -> str:
    """The name as the DNS has it; "" for one that it cannot have."""
    plain = host.rstrip(".").lower()
    if plain.isascii():
        return plain
    # Its tables take a hundredth of a second to load, and few names need them.
    import idna

    try:
        return idna.encode(plain, uts46=True).decode()
    except idna.IDNAError:
        return ""


def contains(domains: Iterable[str], host: str) -> bool:
    """Whether the host is one of the domains, or below one that says so."""
    name = hostname(host)
    return bool(name) and any(_is(domain, name) for domain in domains)


@dataclass(frozen=True)
class Internal:
    """What is inside of a client: its own domains, and the hosts of its own trackers, wikis and repositories."""

    domains: tuple[str, ...] = ()
    hosts: frozenset[str] = frozenset()

    def has(self, host: str) -> bool:
        """Whether the host is inside."""
        return contains(self.domains, host) or contains(self.hosts, host)


NOTHING = Internal()
"""Nothing is inside."""


def _is(domain: str, name: str) -> bool:
    if not domain.startswith(_BELOW):
        return hostname(domain) == name
    above = hostname(domain.removeprefix(_BELOW))
    return bool(above) and name.endswith(f".{above}")
