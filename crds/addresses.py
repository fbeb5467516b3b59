"""Addresses of services: how messages and logs show them, and which ones are never called. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote, unquote

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# A user and a password stand between the scheme and the last "@" before the path.
_USERINFO = re.compile(r"(?<=://)[^/?#]*@")
_UNSENT = re.compile(r"[\x00-\x20\x7f]")
"""Characters that no URL has (RFC 3986 2)."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_TRANSLATED = ipaddress.IPv6Network("::ffff:0:0:0/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")
# All that is public in IPv6 lies in one eighth of it; the rest carries IPv4 in old ways, is local or unassigned.
_UNICAST = ipaddress.IPv6Network("2000::/3")
# What Python takes for public and no page is served from: RFC 6890 (metadata services live there), 7526, 9637.
_SPECIAL = tuple(ipaddress.ip_network(text) for text in ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20"))

_LONGEST_PATH, _MOST_QUOTED = 8192, 5
"""Of a path: characters, and how often it is quoted. No service has longer ones."""

METADATA = ("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
"""Metadata services of AWS, Azure, Google, Alibaba and Oracle: they give credentials to any process that asks."""
_METADATA = frozenset(ipaddress.ip_address(text) for text in METADATA)


def shown(url: str) -> str:
    """The URL without user and password, for logs and messages."""
    return _USERINFO.sub("", url)


def path(*segments: str) -> str:
    """The path of a URL with these segments, each quoted as one. What dots say cannot be quoted: see `leads_away`."""
    return "".join(f"/{quote(segment, safe=':@')}" for segment in segments)


def leads_away(path: str) -> bool:
    """Whether a path has a segment that clients and servers take for another place than it says: `.` and `..`, quoted
    or not (RFC 3986 5.2.4; WHATWG URL, "double-dot path segment"), or what some read as a slash. No caller of a
    service means that, so each sender of a path asks this first. A control character or a space, not quoted, leads away
    wherever it stands: parsers drop some of them (WHATWG URL, "basic URL parser"), and `..` may be what stays."""
    bare = path.partition("?")[0].partition("#")[0]
    if len(bare) > _LONGEST_PATH or _UNSENT.search(bare):
        return True
    # As often as it is quoted: some servers unquote what a proxy before them has unquoted.
    for _ in range(_MOST_QUOTED):
        unquoted = unquote(bare)
        if unquoted == bare:
            break
        bare = unquoted
    else:
        return True
    return any(_UNSENT.sub("", segment) in (".", "..") for segment in re.split(r"[/\\]", bare))


def carried(address: Address) -> Address:
    """The IPv4 address embedded in an IPv6 one (mapped, 6to4, NAT64; RFC 4291, 3056, 6052), or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def not_public(text: str, allowed: Sequence[Network] = ()) -> bool:
    """Whether an IP address is none of the public internet, and of none of the `allowed` networks either.

    `text` is the address as a resolver returns it. Raises ValueError for any other text.
    """
    meant = carried(ipaddress.ip_address(text.partition("%")[0]))
    if any(meant in network for network in allowed if meant.version == network.version):
        return False
    special = any(meant in network for network in _SPECIAL if meant.version == network.version)
    unicast = meant.version == 4 or meant in _UNICAST
    return special or not unicast or not meant.is_global or meant.is_multicast


def never_called(text: str, *, loopback: bool = False) -> str:
    """Why an IP address that a user's URL resolves to is never called; "" when it may be called.

    Private networks are allowed: backends run there. `loopback` allows 127.0.0.0/8 and ::1. `text` is the address as a
    resolver returns it, including an IPv6 zone. Raises ValueError for any other text.
    """
    for address in _meanings(ipaddress.ip_address(text.partition("%")[0])):
        if why := _never(address, loopback=loopback):
            return why
    return ""


def _meanings(address: Address) -> Iterator[Address]:
    """The address, and those of IPv4 that something on the way may take it for (RFC 4291, 3056, 4380, 6052, 8215)."""
    yield carried(address)
    if isinstance(address, ipaddress.IPv4Address):
        return
    number = int(address)
    if address.teredo:
        yield from address.teredo
    if address in _TRANSLATED:
        yield ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if address in _LOCAL_NAT64:
        # The octet behind bit 64 means nothing; which prefix the network has is not known.
        rest = (number >> 64 & 0xFFFFFFFFFFFFFFFF) << 56 | (number & (1 << 56) - 1)
        embedded = [rest >> (120 - start - 32) & 0xFFFFFFFF for start in (48, 56, 64)]
        read = [ipaddress.IPv4Address(value) for value in (*embedded, number & 0xFFFFFFFF)]
        # What begins with zeros stands at another place of the prefix.
        yield from (one for one in read if one not in _THIS_NETWORK)


def _never(address: Address, *, loopback: bool) -> str:
    if address in _METADATA:
        return "a metadata address"
    if address.is_link_local:
        return "a link-local address"
    if address.is_loopback:
        return "" if loopback else "a loopback address"
    if address.is_multicast:
        return "a multicast address"
    if address.is_unspecified or (address.version == 4 and (address in _THIS_NETWORK or address.is_reserved)):
        return "no address of a server"
    return ""


HOST_NAME = r"(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*|[0-9a-f:]*:[0-9a-f:.]*"
"""A pattern of `listed`: a name in small letters, `*.` and a name, or an IP address."""


def listed(host: str, names: Sequence[str]) -> bool:
    """Whether one of `names` stands for the host; without names, every host is. `*.example.com` stands for all names
    below example.com and not for itself. Case does not count, nor the dot at the end of a name."""
    asked = host.lower().rstrip(".")
    return not names or any(asked.endswith(one[1:]) if one.startswith("*.") else asked == one for one in names)
