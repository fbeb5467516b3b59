"""The documents of tools that store. Pure.

What a tool stores about a document is stored as if it came with that one (`kb.api.attachment_urn`): it goes with it. A
node or a relationship needs a text of the knowledge base that names it, as what models read does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pydantic

from crds import scope
from kb import api, errors, identity
from kb.extract import caller_facts, document_node, extraction, reference, relation, sentence

_KEY = "Give type:name, as in user:jana or file:src/Main.kt, or the document's own value."


@dataclass(frozen=True)
class Seen:
    """A chunk of a document of exactly the scope of the call."""

    chunk_id: str
    source_urn: str
    kind: str
    title: str
    text: str
    observed_at: datetime | None

    def anchor(self, where: scope.Scope) -> document_node.DocumentNode:
        """The node of its document."""
        return document_node.derive(self.source_urn, self.kind, where)


def chunk(asked: api.StoreChunkRequest, parent: Seen) -> api.IngestRequest:
    """The document of `storeChunk`. Raises `kb.errors.Invalid` for a key that is none, or that the text lacks."""
    owner, own = asked.scope, parent.anchor(asked.scope)
    main = _named(asked.node_key, "nodeKey", own, owner, asked.content)
    kind = asked.entity_types[0] if asked.entity_types else reference.kind_of(main)
    nodes = {main: _node(main, kind, "nodeKey")}
    for number, key in enumerate(asked.graph_refs):
        found = _named(key, f"graphRefs.{number}", own, owner, asked.content)
        nodes.setdefault(found, _node(found, reference.kind_of(found), "graphRefs"))
    more = {"knowledgeType": asked.knowledge_type}
    return _beside(parent, owner, "storeChunk", f"{main}\n{asked.content}", asked.content, list(nodes.values()), more)


def document(asked: api.IndexDocumentRequest, related: Sequence[Seen]) -> api.IngestRequest:
    """The document of `indexDocument`; `related` are the documents of `relatedDocs`, in their order."""
    urn = agent_urn(asked.document_id)
    own = document_node.derive(urn, api.AGENT_DOCUMENT, asked.scope).key
    ends = dict.fromkeys(caller_facts.DOCUMENT + one.anchor(asked.scope).key for one in related)
    metadata = {"tool": "indexDocument", "knowledgeType": asked.knowledge_type, "location": asked.location}
    return api.IngestRequest(
        scope=asked.scope,
        source_urn=urn,
        kind=api.AGENT_DOCUMENT,
        title=asked.title,
        content=asked.content,
        content_ref=asked.content_ref,
        metadata={name: value for name, value in metadata.items() if value},
        relationships=[
            api.GivenRelationship(source=caller_facts.DOCUMENT + own, type="related_to", target=end, at="relatedDocs")
            for end in ends
        ],
    )


def agent_urn(document_id: str) -> str:
    """Of a document that an agent stored: no source has such a URN."""
    return f"agent::{document_id}"


def node(asked: api.CreateNodeRequest, chunks: Sequence[Seen]) -> tuple[str, list[api.IngestRequest]]:
    """The node's key, and a document beside each one that `chunks` are of. Raises `kb.errors.Invalid`."""
    owner, found = asked.scope, ""
    lines: dict[str, list[tuple[Seen, str]]] = {}
    for number, one in enumerate(chunks):
        found = _key(asked.node_key, "nodeKey", one.anchor(owner), owner)
        said = _naming(one, owner, found)
        if said is None:
            raise errors.Invalid(
                f"the chunk does not name {caller_facts.name_of(found)[:200]!r}",
                field=f"ragChunkIds.{number}",
                remedy="Give chunks whose text names the node.",
            )
        lines.setdefault(one.source_urn, []).append((one, said))
    kind = _type(asked.node_type, "nodeType")
    made = []
    for told in lines.values():
        parent = told[0][0]
        fact = _node(found, kind, parent.chunk_id).model_copy(update={"properties": dict(asked.properties)})
        text = "\n\n".join(dict.fromkeys(said for _, said in told))
        made.append(_beside(parent, owner, "createNodeWithRagLinks", found, text, [fact]))
    return found, made


def relationship(
    asked: api.CreateRelationshipRequest, chunks: Sequence[Seen]
) -> tuple[tuple[str, str, str], Seen, api.IngestRequest]:
    """Keys and type, the chunk that states it, and the document. Raises `kb.errors.Invalid`."""
    owner, kind = asked.scope, _type(asked.edge_type, "edgeType")
    for one in chunks:
        own = one.anchor(owner)
        source, target = _key(asked.from_key, "fromKey", own, owner), _key(asked.to_key, "toKey", own, owner)
        if source == target:
            raise errors.Invalid("both ends are the same node", field="toKey", remedy="Name two different nodes.")
        said = _naming(one, owner, source, target)
        if said is not None:
            fact = api.GivenRelationship(
                source=_exact(source),
                type=kind,
                target=_exact(target),
                properties=dict(asked.properties),
                at=one.chunk_id,
            )
            about = f"{source}\n{kind}\n{target}"
            made = _beside(one, owner, "createRelationship", about, said, [])
            return (source, kind, target), one, made.model_copy(update={"relationships": [fact]})
    raise errors.Invalid(
        "no sentence of these chunks names both ends",
        field="ragChunkIds",
        remedy="Give a chunk with a sentence that states the relationship.",
    )


def call_id(asked: pydantic.BaseModel, of: str, tool: str) -> str:
    """The id of a call."""
    given_ = asked.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"scope"})
    return identity.tool_call(of, tool, json.dumps(given_, sort_keys=True, ensure_ascii=False))


def _beside(
    parent: Seen,
    owner: scope.Scope,
    tool: str,
    about: str,
    text: str,
    nodes: list[api.GivenNode],
    more: Mapping[str, Any] | None = None,
) -> api.IngestRequest:
    return api.IngestRequest(
        scope=owner,
        source_urn=api.attachment_urn(parent.source_urn, f"{tool}-{identity.digest(about)[:32]}"),
        kind=api.ATTACHMENT,
        title=parent.title,
        content=text,
        observed_at=parent.observed_at,
        metadata={"tool": tool, **(more or {})},
        nodes=nodes,
    )


def _node(key: str, kind: str, at: str) -> api.GivenNode:
    return api.GivenNode(key=_exact(key), type=kind[:64], at=at)


def _exact(key: str) -> str:
    """A key as `nodes` of an ingestion take it: that of a document as it is."""
    return caller_facts.DOCUMENT + key if "::" in key else key


def _key(text: str, field: str, own: document_node.DocumentNode, where: scope.Scope) -> str:
    exact = text.removeprefix(caller_facts.DOCUMENT)
    if exact == own.key or (exact != text and "::" in exact):
        return exact
    found = relation.end(text, own.key, where)
    if found is None:
        raise errors.Invalid("that is no key of a node", field=field, remedy=_KEY)
    return found


def _type(text: str, field: str) -> str:
    found = reference.edge_type(text)
    if not found:
        raise errors.Invalid("that is no type", field=field, remedy="Give a word of letters and digits.")
    return found


def _named(text: str, field: str, own: document_node.DocumentNode, where: scope.Scope, content: str) -> str:
    found = _key(text, field, own, where)
    if found != own.key and not extraction.naming(sentence.split(content), _name(found)):
        raise errors.Invalid(
            "the content does not name this node",
            field=field,
            remedy="Leave it out, or extract the sentence that names it.",
        )
    return found


def _naming(one: Seen, where: scope.Scope, *keys: str) -> str | None:
    """The first sentence of a chunk that names all keys; that of its own document need not be named."""
    own, said = one.anchor(where).key, sentence.split(one.text)
    names = [_name(key) for key in keys if key != own]
    found = [sentence_.text for sentence_ in said]
    for name in names:
        naming = {sentence_.text for sentence_ in extraction.naming(said, name)}
        found = [text for text in found if text in naming]
    return found[0] if found else None


def _name(key: str) -> str:
    # The key of a commit ends with its project, which no text has.
    name = caller_facts.name_of(key)
    return name.partition("::")[0] if key.startswith("commit::") else name
