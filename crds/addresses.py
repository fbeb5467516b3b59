"""Addresses of services as messages and logs may show them."""

from __future__ import annotations

import re

# A user and a password stand between the scheme and the last "@" before the path.
_USERINFO = re.compile(r"(?<=://)[^/?#]*@")


def shown(url: str) -> str:
    """The URL without the user and the password in it: what is said about an address opens no door."""
    return _USERINFO.sub("", url)
