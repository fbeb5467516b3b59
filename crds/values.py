"""Value objects of several kinds: identifiers, references, URLs, quantities.

Every string and list has a bound: the apiserver refuses a CRD whose CEL rules could cost too much.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from crds import addresses, scope
from crds.model import IMMUTABLE, Model, rules

Identifier = Annotated[str, Field(min_length=1, max_length=63, pattern=scope.IDENTIFIER)]
OptionalIdentifier = Annotated[str, Field(max_length=63, pattern=scope.OPTIONAL_IDENTIFIER)]
FixedIdentifier = Annotated[
    str, Field(min_length=1, max_length=63, pattern=scope.IDENTIFIER, json_schema_extra=rules(IMMUTABLE))
]
ModelName = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")]
Urn = Annotated[str, Field(max_length=1024, pattern=r"^[A-Za-z][A-Za-z0-9_-]*:.+$")]
_SUBDOMAIN = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$"
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=_SUBDOMAIN)]
"""The name of an object: a DNS subdomain (RFC 1123), as the apiserver takes it."""
SecretName = ObjectName

_QUANTITY = r"^[0-9]+(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|k|M|G|T)?$"
Quantity = Annotated[str, Field(min_length=1, max_length=24, pattern=_QUANTITY)]

_UNITS = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
}  # fmt: skip


def quantity_bytes(text: str) -> int:
    """A Kubernetes quantity such as `24Gi` in bytes. Raises ValueError for anything else."""
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    return int(float(text))


# A URL in an object is user input that a privileged pod will call: no credentials, no link-local or metadata address,
# and addresses in their usual notation only, so that the host shown is the host called. A name is checked when it is
# called, by the addresses it resolves to (`controllers.gpubackend.probe`); the network policy does the rest. The rules
# are patterns over the whole URL: the apiserver counts url().getHostname() as unbounded and refuses rules about it.
_END = "([:/?#]|$)"
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_QUAD = f"^[^:]+://({_OCTET}[.]){{3}}{_OCTET}{_END}"
_ENDS_IN_NUMBER = f"^[^:]+://([^/?#:]*[.])?(0[xX][0-9a-fA-F]*|[0-9]+)[.]?{_END}"
_ELSEWHERE = "|".join(text.replace(".", "[.]") for text in addresses.METADATA if ":" not in text)
_NO_SERVER = f"(0|22[4-9]|2[3-5][0-9])[.][0-9.]+|169[.]254[.][0-9.]+|{_ELSEWHERE}|metadata([.]google[.]internal)?[.]?"
_V6 = "([23][0-9a-f]{3}|f[cd][0-9a-f]{2}):[0-9a-f:]+|::1"
_NO_SERVER_V6 = "2002:|fd00:0?ec2:[0:]*254]|fd20:0{0,2}ce:[0:]*254]"
_NOT_CALLED = f"(?i)^[^:]+://({_NO_SERVER}){_END}"
_BRACKET, _CALLED_V6 = "^[^:]+://[[]", f"(?i)^[^:]+://[[]({_V6})]{_END}"
_NOT_CALLED_V6 = f"(?i)^[^:]+://[[]({_NO_SERVER_V6})"
_PLAIN = "^[!-~]*$"
_CREDENTIALS, _LETTERS, _NOTATION, _METADATA, _IPV6 = (
    "must not contain credentials; put them into a Secret and name it in secretRef",
    "must have ASCII characters alone, as a URL has; write a name of other letters as xn--..., a path with %XX",
    "host must be a name or an IP address as in 10.0.0.1; no other notation of an address is taken",
    "must not be a link-local or metadata address",
    "an IPv6 address must be a global or unique local one such as [fd00::1]: no link-local or metadata address,"
    " and none that carries an IPv4 address",
)
HOST_RULES = (
    ("!self.contains('@')", _CREDENTIALS),
    # Digits and dots of other scripts are those of ASCII to a resolver (UTS 46).
    (f"self.matches('{_PLAIN}')", _LETTERS),
    (f"!self.matches('{_ENDS_IN_NUMBER}') || self.matches('{_QUAD}')", _NOTATION),
    (f"!self.matches('{_NOT_CALLED}')", _METADATA),
    (
        f"!self.matches('{_BRACKET}') || (self.matches('{_CALLED_V6}') && !self.matches('{_NOT_CALLED_V6}'))",
        _IPV6,
    ),
)


def host_fault(url: str) -> str:
    """The message of the first of `HOST_RULES` that an http(s) URL breaks, "" for none."""
    if "@" in url:
        return _CREDENTIALS

    def matches(pattern: str) -> bool:
        # Python warns of a bracket within brackets, which is what CEL's strings are spared a backslash by.
        return re.search(pattern.replace("[[]", "\\["), url) is not None

    if not matches(_PLAIN):
        return _LETTERS
    if matches(_ENDS_IN_NUMBER) and not matches(_QUAD):
        return _NOTATION
    if matches(_NOT_CALLED):
        return _METADATA
    if matches(_BRACKET) and (not matches(_CALLED_V6) or matches(_NOT_CALLED_V6)):
        return _IPV6
    return ""


_URL_RULES = rules(
    ("isURL(self) && url(self).getScheme() in ['http', 'https']", "must be an absolute http:// or https:// URL"),
    *HOST_RULES,
)
HttpUrl = Annotated[str, Field(min_length=8, max_length=2048, json_schema_extra=_URL_RULES)]


STORED_BYTES = 64 << 20
"""What the knowledge base stores as one content unless it is set otherwise (`kb.settings.maxContentBytes`)."""
MOST_STORED_BYTES = 256 << 20
"""What it can be set to at most."""


class SecretRef(Model):
    """A Secret in the same namespace."""

    name: SecretName
    """Name of the Secret."""
    key: Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9._-]*$")] = ""
    """One key of it. Empty means the usual keys of a Connection's type, and token for a GpuBackend."""


class Store(StrEnum):
    """Store for content that is too large for an object."""

    GRIDFS = "gridfs"


KEY = r"[A-Za-z0-9][A-Za-z0-9._:-]*(/[A-Za-z0-9][A-Za-z0-9._:-]*)*"
"""A pattern: a key of stored content. Each of its parts begins with a letter or a digit, so that none is `..`."""


def is_key(text: str) -> bool:
    """Whether a text can be the key of stored content."""
    return len(text) <= 256 and re.fullmatch(KEY, text) is not None


class ContentRef(Model):
    """Content stored outside the object; `POST /api/v1/content` of the knowledge base returns one."""

    store: Store = Store.GRIDFS
    """The store that holds the content."""
    key: Annotated[str, Field(min_length=1, max_length=256, pattern=f"^{KEY}$")]
    """Key in the store."""
    sha256: Annotated[str, Field(min_length=64, max_length=64, pattern=r"^[a-f0-9]{64}$")]
    """SHA-256 of the content in lower-case hex; checked when the content is read."""
    bytes: Annotated[int, Field(ge=1, le=MOST_STORED_BYTES)]
    """Size in bytes, at most 256 MiB."""
