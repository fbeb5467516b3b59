"""Whether a link may be opened, as far as patterns say. Pure.

The order is the seed's: an unsafe pattern is blocked, then a whitelisted domain is safe, then a blacklisted one is not,
and the rest is uncertain (seed 000 "Link Handling Flow"; whether the page is a document already is asked before).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from kb import api
from kb.links import onetime, patterns

_SAYS = {
    "unsubscribe": "it ends a subscription",
    "confirmation": "it confirms or activates something",
    "credentials": "it changes a password",
    "login": "it carries a credential, or logs in or out",
    "invitation": "it answers an invitation",
    "calendar": "it answers a calendar entry",
    "meeting": "it enters a meeting",
    "approval": "it decides or changes something",
    "oauth": "it gives an application rights",
    "tracking": "it counts who opens it",
    "label": "its text says that it acts",
}


class Verdict(StrEnum):
    """What patterns say."""

    BLOCKED = "Blocked"
    SAFE = "Safe"
    UNSAFE = "Unsafe"
    UNCERTAIN = "Uncertain"


@dataclass(frozen=True)
class Finding:
    """`reason` is a sentence without its full stop."""

    verdict: Verdict
    reason: str


def qualify(url: str, held: Sequence[api.LinkPattern], before: str = "", after: str = "") -> Finding:
    """The verdict about a normalised URL. `held` are the patterns of its scope; the texts stand around the link."""
    acts = onetime.reason(url, before, after)
    if acts:
        return Finding(Verdict.BLOCKED, f"the link is never opened, because {_SAYS[acts]}")
    unsafe = [one for one in held if one.list is api.LinkList.UNSAFE]
    named = patterns.first([one for one in unsafe if patterns.has_path(one.pattern)], url)
    if named is not None:
        return Finding(Verdict.BLOCKED, _because(named, "unsafe"))
    named = patterns.first([one for one in held if one.list is api.LinkList.SAFE], url)
    if named is not None:
        return Finding(Verdict.SAFE, _because(named, "safe"))
    named = patterns.first([one for one in unsafe if not patterns.has_path(one.pattern)], url)
    if named is not None:
        return Finding(Verdict.UNSAFE, _because(named, "unsafe"))
    port = urlsplit(url).port
    if port is not None:
        return Finding(
            Verdict.UNSAFE, f"it is at port {port}, which is opened only if a pattern with that port calls it safe"
        )
    return Finding(Verdict.UNCERTAIN, "no pattern says whether it may be opened")


def _because(pattern: api.LinkPattern, what: str) -> str:
    return f"the pattern {pattern.pattern} calls it {what}" + (f" ({pattern.reason})" if pattern.reason else "")
