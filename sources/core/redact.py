"""Values of Secrets are taken out of every text that leaves a poll or an effect: logs, conditions, MongoDB, answers.

A server may repeat what it was sent. What is hidden is each value as it is and as protocols write it: Base64 of it
alone, with its user, or in a SASL answer (RFC 4616, RFC 7628, XOAUTH2), quoted in a URL or in JSON.
"""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
MOST = 5_000
"""Texts that a process knows; the ones that were not seen for the longest time are forgotten."""
_SHORTEST = 4
_SHOWN = frozenset(
    {"username", "provider", "client_id", "tenant", "token_url", "scope", "app_id", "installation_id", "known_hosts",
     "ca.crt"}
)  # fmt: skip
"""Keys of a Secret whose values are none."""
_USERS = ("oauth2", "x-access-token")


class Secrets:
    """What must not be shown, by all threads of a process."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: OrderedDict[str, None] = OrderedDict()

    def keep(self, values: Mapping[str, str]) -> None:
        """The values of a Secret, by their keys."""
        user = values.get("username", "")
        for key, value in values.items():
            if key in _SHOWN:
                continue
            for form in _forms(value.strip(), user):
                if len(form) >= _SHORTEST:
                    self._known[form] = None
                    self._known.move_to_end(form)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def hidden(self, text: str) -> str:
        """The text without them."""
        # The longest first: one may be a part of another.
        for form in sorted((one for one in tuple(self._known) if one in text), key=len, reverse=True):
            text = text.replace(form, HIDDEN)
        return text

    def processor(self, _: object, __: str, line: Any) -> Any:
        """The last processor of structlog: behind the one that makes the line."""
        return self.hidden(line) if isinstance(line, str) else line


def _forms(value: str, user: str) -> Iterator[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")
    yield quote_plus(value)
    yield _encoded(value)
    for name in {user, *_USERS}:
        yield _encoded(f"{name}:{value}")
        yield _encoded(f"\0{name}\0{value}")
        yield _encoded(f"user={name}\1auth=Bearer {value}\1\1")
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= 16 and not line.startswith("-----"))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
