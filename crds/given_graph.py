"""Facts of a source item that need no model: nodes and relationships made of its fields.

They have the form of the knowledge base's given nodes and relationships (kb.api.ingest), which reads them beside the
text. Source: seed 001 "Node Types", "Edge Types".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from crds.model import Model

MOST_NODES, MOST_RELATIONSHIPS = 64, 256
KEY_CHARS, TEXT_CHARS, MOST_VALUES = 1024, 4000, 200
"""Of a key, of a text in properties, of a list in properties; the knowledge base takes no more (kb.api.ingest)."""
_OPEN: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "maxProperties": 50}

Key = Annotated[str, Field(min_length=1, max_length=KEY_CHARS)]
_Type = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_ -]*$")]
_Properties = Annotated[Mapping[str, Any], Field(json_schema_extra=_OPEN)]
_Place = Annotated[str, Field(max_length=1024)]


class Node(Model):
    """A node that the source is known to have."""

    key: Key
    """type:name, for example jira::JERV-1 or user:jana."""
    type: _Type
    """Its type, for example jira_issue."""
    properties: _Properties = Field(default_factory=dict)
    """Texts, numbers, booleans, and lists of these; times are RFC 3339 texts."""
    at: _Place = ""
    """Where the source says so: the name of a field, or file@commit:line."""


class Relationship(Model):
    """A relationship that the source is known to have."""

    source: Key
    """A key, or the document's own value, for example JERV-1."""
    type: _Type
    """For example assigned_to."""
    target: Key
    """A key, or the document's own value."""
    properties: _Properties = Field(default_factory=dict)
    """As in nodes."""
    at: _Place = ""
    """Where the source says so."""


class Facts(Model):
    """What the fields of the source item say, beside its text."""

    nodes: Annotated[
        tuple[Node, ...], Field(max_length=MOST_NODES, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = ()
    """Nodes."""
    relationships: Annotated[
        tuple[Relationship, ...],
        Field(max_length=MOST_RELATIONSHIPS, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ] = ()
    """Relationships."""


def fit(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties as the knowledge base takes them: longer texts and lists are cut. The item's own text has all."""

    def cut(value: Any) -> Any:
        return value[:TEXT_CHARS] if isinstance(value, str) else value

    return {
        name: [cut(one) for one in value[:MOST_VALUES]] if isinstance(value, list) else cut(value)
        for name, value in properties.items()
    }
