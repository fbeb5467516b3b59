"""Nodes and relationships that the caller of an ingest gives, in canonical keys. Pure.

They are facts of the source (a ticket's fields, the classes of a file) and need no model; what models read in the text
stands beside them. Keys are made canonical like those of references in a text, so that both meet in one node; an end
that is only the document's own value means the document (seed 001 "Short-hand Expansion"). A node `user:...` with a
property `email` is called by that address.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pydantic

from contracts import repository_keys
from crds import scope
from kb import api, errors
from kb.extract import reference, relation

DOCUMENT = "document::"
"""Before the key of a document's node, as answers give it, which is then taken as it is: `document::email::m1@a.cz`;
alone it means the document that comes with the facts, however it is called."""
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
class Fact:
    """What a document says of itself in a field: a relationship of its base node to `key`, which is of `type`.

    `of`: the key of the node whose relationship it is, where that is not the base node.
    """

    relation: str
    key: str
    type: str
    place: str
    of: str = ""


@dataclass(frozen=True)
class Base:
    """The node that stands for a document and that all of its chunks are part of, with typed properties and facts.

    `qualified`: it has what models said of it; without them it has what the text itself says in a known form.
    """

    key: str
    type: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    qualified: bool = False


@dataclass(frozen=True)
class CallerFacts:
    """All that was given; from `text` `recorded` makes it again, so that a document is woven anew without a model.

    `stated` is what the caller wrote. `base` is the document's base node, `qualified` whether models said more of it.
    """

    nodes: tuple[Node, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    text: str = ""
    stated: str = ""
    base: Node | None = None
    qualified: bool = False


_BASE = pydantic.TypeAdapter[Base | None](Base | None)


def read(
    nodes: Sequence[api.GivenNode], relationships: Sequence[api.GivenRelationship], *, anchor: str, where: scope.Scope
) -> CallerFacts:
    """`anchor` is the key of the document itself. Raises `kb.errors.Invalid`, which names the entry."""
    if not (nodes or relationships):
        return CallerFacts()
    made_nodes, addresses = [], dict[str, str]()
    for number, node in enumerate(nodes):
        key = _key(node.key, f"nodes.{number}.key", anchor, where)
        kind, name = _kind(node.type, f"nodes.{number}.type"), name_of(key)
        if key.startswith("user:"):
            addresses[key] = key = _address(node, where) or key
            said = node.properties.get("name")
            name = said if isinstance(said, str) and said.strip() else name_of(key)
        made_nodes.append(Node(key, kind, name, _text(node.properties), node.at or f"nodes.{number}"))
    made = []
    for number, one in enumerate(relationships):
        field = f"relationships.{number}"
        source, target = (
            addresses.get(key, key)
            for key in (
                _key(one.source, f"{field}.source", anchor, where),
                _key(one.target, f"{field}.target", anchor, where),
            )
        )
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
    text = json.dumps(rows, sort_keys=True, ensure_ascii=False)
    return CallerFacts(tuple(made_nodes), tuple(made), text, text)


def with_base(facts: CallerFacts, base: Base) -> CallerFacts:
    """What the caller gave, which has no base node yet, with one. What the caller says of that node holds: a property,
    or all relationships of a type."""
    own = [one for one in facts.nodes if one.key == base.key]
    properties = dict(base.properties)
    for one in own:
        properties.update(json.loads(one.properties or "{}"))
    node = Node(base.key, base.type, name_of(base.key), _text(properties), own[0].place if own else "")
    stated = {(one.source, one.type) for one in facts.relationships}
    more = [one for one in base.facts if (one.of or base.key, one.relation) not in stated]
    found = {one.key: Node(one.key, one.type, name_of(one.key), "", one.place) for one in more}
    known = {one.key for one in facts.nodes}
    return CallerFacts(
        (
            *(one for one in facts.nodes if one.key != base.key),
            *(one for key, one in found.items() if key not in known),
        ),
        (
            *facts.relationships,
            *(Relationship(one.of or base.key, one.relation, one.key, "", one.place) for one in more),
        ),
        json.dumps(json.loads(facts.stated or "{}") | {"base": asdict(base)}, sort_keys=True, ensure_ascii=False),
        facts.stated,
        node,
        base.qualified,
    )


def recorded(text: str, *, anchor: str, where: scope.Scope) -> CallerFacts:
    """What `Given.text` was made from; nothing for "". Raises `kb.errors.Invalid`."""
    if not text:
        return CallerFacts()
    rows = json.loads(text)
    try:
        nodes = [api.GivenNode.model_validate(one) for one in rows.get("nodes", ())]
        relationships = [api.GivenRelationship.model_validate(one) for one in rows.get("relationships", ())]
        base = _BASE.validate_python(rows.get("base"))
    except pydantic.ValidationError as error:
        raise errors.Invalid(
            f"the recorded nodes and relationships are unreadable: {error.error_count()} errors",
            remedy="Ingest the document again.",
        ) from None
    # A document whose source has no id of its own is called by that of its base node.
    facts = read(nodes, relationships, anchor=base.key if base else anchor, where=where)
    return with_base(facts, base) if base else facts


def also(facts: CallerFacts, fact: Fact, key: str, kind: str, where: scope.Scope) -> CallerFacts:
    """The same with one fact more of the base node, which is `key` of type `kind` where there is none yet."""
    rows = json.loads(facts.text or "{}")
    base = _BASE.validate_python(rows.get("base")) or Base(key, kind)
    rows["base"] = asdict(
        replace(base, facts=(*base.facts, replace(fact, type=fact.type or reference.kind_of(fact.key))))
    )
    return recorded(json.dumps(rows), anchor=key, where=where)


def _address(node: api.GivenNode, where: scope.Scope) -> str | None:
    """The key of a user by the address, which is one's own: accounts of several sources meet there."""
    said = node.properties.get("email")
    return reference.key("user", said, where) if isinstance(said, str) and "@" in said else None


def name_of(key: str) -> str:
    """What a key calls its node."""
    return repository_keys.name(key) or key.partition(":")[2].strip(":")


def _key(text: str, field: str, anchor: str, where: scope.Scope) -> str:
    if text == DOCUMENT:
        return anchor
    exact = text.removeprefix(DOCUMENT)
    if exact != text and "::" in exact:
        return exact
    if repository_keys.kind(text):
        return repository_keys.safe(text)
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
