"""Nodes and relationships that the caller of an ingest gives, in canonical keys. Pure.

They are facts of the source (a ticket's fields, the classes of a file) and need no model; what models read in the text
stands beside them. Keys are made canonical like those of references in a text, so that both meet in one node; an end
that is only the document's own value means the document (seed 001 "Short-hand Expansion").
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic

from crds import scope
from kb import api, errors
from kb.ingest import reference, relation

DOCUMENT = "document::"
"""Before the key of a document's node, as answers give it, which is then taken as it is: `document::email::m1@a.cz`."""
_REMEDY = "Give type:name, as in user:jana or file:src/Main.kt, or the document's own value."


@dataclass(frozen=True)
class Node:
    """A node; `properties` is a JSON object as text, or ""."""

    key: str
    type: str
    name: str
    properties: str
    place: str


@dataclass(frozen=True)
class Relationship:
    """A relationship between two keys."""

    source: str
    type: str
    target: str
    properties: str
    place: str

    def words(self) -> str:
        """The relationship as a sentence, for the search by vectors."""
        return f"{name_of(self.source)} {self.type.replace('_', ' ')} {name_of(self.target)}"


@dataclass(frozen=True)
class Given:
    """All that was given; `text` is it as the caller wrote it, from which `recorded` makes it again."""

    nodes: tuple[Node, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    text: str = ""


def read(
    nodes: Sequence[api.GivenNode], relationships: Sequence[api.GivenRelationship], *, anchor: str, where: scope.Scope
) -> Given:
    """`anchor` is the key of the document itself. Raises `kb.errors.Invalid`, which names the entry."""
    if not (nodes or relationships):
        return Given()
    made_nodes = []
    for number, node in enumerate(nodes):
        key = _key(node.key, f"nodes.{number}.key", anchor, where)
        place = node.at or f"nodes.{number}"
        made_nodes.append(
            Node(key, _kind(node.type, f"nodes.{number}.type"), name_of(key), _text(node.properties), place)
        )
    made = []
    for number, one in enumerate(relationships):
        field = f"relationships.{number}"
        source = _key(one.source, f"{field}.source", anchor, where)
        target = _key(one.target, f"{field}.target", anchor, where)
        if source == target:
            raise errors.Invalid(
                f"both ends are {source!r}", field=f"{field}.target", remedy="Name two different nodes."
            )
        kind = _kind(one.type, f"{field}.type")
        made.append(Relationship(source, kind, target, _text(one.properties), one.at or field))
    rows = {
        "nodes": [one.model_dump(by_alias=True, exclude_defaults=True) for one in nodes],
        "relationships": [one.model_dump(by_alias=True, exclude_defaults=True) for one in relationships],
    }
    return Given(tuple(made_nodes), tuple(made), json.dumps(rows, sort_keys=True, ensure_ascii=False))


def recorded(text: str, *, anchor: str, where: scope.Scope) -> Given:
    """What `Given.text` was made from; nothing for "". Raises `kb.errors.Invalid`."""
    if not text:
        return Given()
    rows = json.loads(text)
    try:
        nodes = [api.GivenNode.model_validate(one) for one in rows["nodes"]]
        relationships = [api.GivenRelationship.model_validate(one) for one in rows["relationships"]]
    except pydantic.ValidationError as error:
        raise errors.Invalid(
            f"the recorded nodes and relationships are unreadable: {error.error_count()} errors",
            remedy="Ingest the document again.",
        ) from None
    return read(nodes, relationships, anchor=anchor, where=where)


def name_of(key: str) -> str:
    """What a key calls its node."""
    return key.partition(":")[2].strip(":")


def _key(text: str, field: str, anchor: str, where: scope.Scope) -> str:
    exact = text.removeprefix(DOCUMENT)
    if exact != text and "::" in exact:
        return exact
    found = relation.end(text, anchor, where)
    if found is None:
        raise errors.Invalid(f"{text!r} is no key of a node", field=field, remedy=_REMEDY)
    return found


def _kind(text: str, field: str) -> str:
    found = reference.edge_type(text)
    if not found:
        raise errors.Invalid(
            f"{text!r} is no type", field=field, remedy="Give a word of letters and digits, as in assigned_to."
        )
    return found


def _text(properties: Mapping[str, Any]) -> str:
    return json.dumps(properties, sort_keys=True, ensure_ascii=False) if properties else ""
