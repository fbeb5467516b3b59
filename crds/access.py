"""Who may see a source item at its source, and as whom a question is asked.

Three values: `Public` (all who may read the scope), `Restricted` (the principals that the source names; none of them:
no one) and `Unknown` (the source does not tell). Unknown never widens: it is shown to those alone who ask for the whole
scope. Source: SCIM's users and groups (RFC 7643) for what a principal is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import ConfigDict, Field

from crds.model import Model, rules

MOST_PRINCIPALS = 100
MOST_OF_ONE = 32
"""Principals of one who asks: the user and its groups."""
PRINCIPAL = r"^(user|group):[!-+\--@\[-~]{1,122}$"
Principal = Annotated[str, Field(max_length=128, pattern=PRINCIPAL)]
"""`user:` or `group:` and the name at the source as `principal` writes it, as in user:jana@acme.cz."""
_NAME_CHARS = 122
HEADER = "X-Jervis-Principals"
"""Of a question to the knowledge base: the principals as whom it is asked, separated by commas."""
METADATA = "jervisAccess"
"""Name among the metadata of a document under which the knowledge base keeps its access; no sender may use it."""
_RULE = rules(
    (
        "self.visibility == 'Restricted' || !has(self.principals) || self.principals.size() == 0",
        "principals are for visibility Restricted alone; leave them out, or set visibility: Restricted",
    )
)


class Visibility(StrEnum):
    """What the source says about who may see an item."""

    PUBLIC = "Public"
    RESTRICTED = "Restricted"
    UNKNOWN = "Unknown"


class Access(Model):
    """Who may see the item at its source."""

    model_config = ConfigDict(json_schema_extra=_RULE)

    visibility: Visibility
    """Public: all who may read the client's data; Restricted: the principals; Unknown: the source does not tell."""
    principals: Annotated[
        tuple[Principal, ...],
        Field(max_length=MOST_PRINCIPALS, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = ()
    """Those who may see a Restricted item, as user:NAME or group:NAME."""


PUBLIC = Access(visibility=Visibility.PUBLIC)
UNKNOWN = Access(visibility=Visibility.UNKNOWN)


def principal(kind: Literal["user", "group"], name: str) -> str:
    """The principal of that name: in small letters, what is not ASCII, blanks and commas percent-encoded (RFC 3986); a
    long one by its SHA-256."""
    made = quote(name.strip().casefold(), safe="!\"#$&'()*+-./:;<=>?@[\\]^_`{|}~")
    return f"{kind}:{made if len(made) <= _NAME_CHARS else hashlib.sha256(made.encode()).hexdigest()}"


def restricted(principals: Collection[str]) -> Access:
    """The access of these principals; of more than `MOST_PRINCIPALS` Unknown, which shows less and not more."""
    if len(principals) > MOST_PRINCIPALS:
        return UNKNOWN
    return Access(visibility=Visibility.RESTRICTED, principals=tuple(sorted(set(principals))))
