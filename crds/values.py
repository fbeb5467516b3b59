"""Value objects that more than one kind uses: identifiers, references, URLs, quantities.

Every string and list has a bound: the apiserver refuses a CRD whose CEL rules could cost too much.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from crds import scope
from crds.model import IMMUTABLE, Model, rules

Identifier = Annotated[str, Field(min_length=1, max_length=63, pattern=scope.IDENTIFIER)]
OptionalIdentifier = Annotated[str, Field(max_length=63, pattern=scope.OPTIONAL_IDENTIFIER)]
FixedIdentifier = Annotated[
    str, Field(min_length=1, max_length=63, pattern=scope.IDENTIFIER, json_schema_extra=rules(IMMUTABLE))
]
ModelName = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")]
Urn = Annotated[str, Field(max_length=1024, pattern=r"^[A-Za-z][A-Za-z0-9_-]*:.+$")]
SecretName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]

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


# A URL in an object is user input that a privileged pod will call: http(s) only, no credentials in it, and never a
# link-local or metadata address. What else may be called is the network policy's matter.
_URL_RULES = rules(
    ("isURL(self) && url(self).getScheme() in ['http', 'https']", "must be an absolute http:// or https:// URL"),
    ("!self.contains('@')", "must not contain credentials; put them into a Secret and name it in secretRef"),
    (
        "!isURL(self) || (!url(self).getHostname().startsWith('169.254.')"
        " && !url(self).getHostname().startsWith('[fe80:') && url(self).getHostname() != 'metadata.google.internal')",
        "must not be a link-local or metadata address",
    ),
)
HttpUrl = Annotated[str, Field(min_length=8, max_length=2048, json_schema_extra=_URL_RULES)]


class SecretRef(Model):
    """A Secret of the same namespace."""

    name: SecretName
    """Name of the Secret."""
    key: Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9._-]*$")] = ""
    """One key of it; empty means the kind's usual keys."""


class Store(StrEnum):
    """Where content that is too large for an object lives."""

    GRIDFS = "gridfs"


class ContentRef(Model):
    """Content kept outside the object; `POST /api/v1/content` of the knowledge base answers one."""

    store: Store = Store.GRIDFS
    """Which store holds it."""
    key: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")]
    """Its key there."""
    sha256: Annotated[str, Field(min_length=64, max_length=64, pattern=r"^[a-f0-9]{64}$")]
    """SHA-256 of the content in lower-case hex; checked when it is read."""
    bytes: Annotated[int, Field(ge=1, le=268435456)]
    """Size in bytes, at most 256 MiB."""
